"""The claims as a page and as data."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, get_args

from fluoroscope.studies.claims.judge import Judged, Status

_COLUMNS = ("where", "what is claimed", "theirs", "ours", "stands", "on", "command")
_HEAD = """# Where the claims of the four papers stand

Made by `fluoroscope study claims {folder}` from the findings of finished studies; no line is written by hand. A claim
names rows of a study and a rule. It *agrees* or *differs* where our 95 % intervals leave no doubt, and is *unclear*
where they do not; without an interval the numbers decide. A claim about all strategies is judged by the numbers alone.
The claims and rules: `src/fluoroscope/studies/claims/*.toml`; the papers: [bibliography](bibliography.md#p1); the
images: [data-sets.md](data-sets.md); all numbers: [study-tables.md](study-tables.md).
"""


def markdown(found: Sequence[Judged], folder: str = "RUNS") -> str:
    """One table per paper, and the count."""
    counts = Counter(each.status for each in found)
    count = ", ".join(f"{status} {counts[status]}" for status in get_args(Status) if counts[status])
    parts = [_HEAD.format(folder=folder), f"\n{len(found)} claims: {count}.\n"]
    for paper in dict.fromkeys(each.claim.paper for each in found):
        parts.append(f"\n## {paper}\n\n| {' | '.join(_COLUMNS)} |\n|{'---|' * len(_COLUMNS)}\n")
        parts += [f"| {' | '.join(_cells(each))} |\n" for each in found if each.claim.paper == paper]
        reasons = [
            f"- {e.claim.where}, {e.claim.what.rstrip('.')}: {e.reason}\n" for e in found if _explained(e, paper)
        ]
        parts += ["\n", *reasons] if reasons else []
    return "".join(parts)


def as_data(found: Sequence[Judged]) -> dict[str, Any]:
    """The same for `--format json`."""
    return {
        "claims": [
            {
                "id": each.claim.id,
                "paper": each.claim.paper,
                "where": each.claim.where,
                "what": each.claim.what,
                "theirs": each.claim.theirs,
                "ours": each.ours,
                "status": each.status,
                "on": each.on,
                "date": each.date,
                "command": each.command,
                "reason": each.reason,
            }
            for each in found
        ]
    }


def _explained(each: Judged, paper: str) -> bool:
    return each.claim.paper == paper and bool(each.reason)


def _cells(each: Judged) -> list[str]:
    claim = each.claim
    on = f"{each.on}, {each.date}" if each.on and each.date else each.on
    command = f"`{each.command}`" if each.command else "–"
    texts = (claim.where, claim.what, claim.theirs, each.ours or "–", each.status, on or "–", command)
    return [text.replace("|", "\\|") for text in texts]
