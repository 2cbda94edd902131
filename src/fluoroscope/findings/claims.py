"""What canaries say of a claim: the epsilon that they prove beside the one that is claimed."""

from collections.abc import Mapping

from fluoroscope.findings.document import Cell, Score


def refuted(cell: Cell) -> bool:
    """Whether this cell is a test of a claim that proves more than is claimed."""
    return cell.kind == "claim" and exceeds(cell.scores)


def exceeds(scores: Mapping[str, Score]) -> bool:
    """Whether the epsilon that is proved is larger than the one that is claimed."""
    said = scores["epsilon"].value if "epsilon" in scores else None
    proved = [scores[name].value or 0.0 for name in ("epsilon_lower", "epsilon_lower_any") if name in scores]
    return said is not None and max(proved, default=0.0) > said
