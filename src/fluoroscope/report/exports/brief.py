"""What every export is written from: the findings with their ids, what is accepted of them, and the controls."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from fluoroscope.findings import Audit, Cell, Defence, Score
from fluoroscope.report.accepted import NOTHING_ACCEPTED, Acceptance, Review, review
from fluoroscope.report.gate import setting_of
from fluoroscope.report.numbers_only import numbers_only
from fluoroscope.report.risks import Risk, risks

_WITHHELD = "(withheld)"


@dataclass(frozen=True)
class Brief:
    """One audit, judged under one setting."""

    audit: Audit
    setting: str
    """The label of the setting that is judged, as the gate chooses it."""
    risks: tuple[Risk, ...]
    """Under every setting."""
    review: Review = NOTHING_ACCEPTED
    without_names: bool = False

    @property
    def judged(self) -> tuple[Risk, ...]:
        """The findings under the setting that is judged."""
        return tuple(risk for risk in self.risks if risk.defence == self.setting)

    @property
    def open(self) -> tuple[Risk, ...]:
        """Those of them that neither hold nor are accepted."""
        return tuple(each for each in self.judged if each.level != "holds" and each.id not in self.review.accepted)

    @property
    def defence(self) -> Defence:
        return next(each for each in self.audit.findings.defences if each.label == self.setting)

    @property
    def version(self) -> str:
        """Of the program that made the findings."""
        return self.audit.findings.versions.get("fluoroscope", "unknown")

    def titles(self) -> Mapping[str, str]:
        """The attackers by name, in words."""
        return {threat.name: threat.title for threat in self.audit.findings.threats} | {"claim": "The defence's claim"}

    def done(self, kind: str, label: str | None = None) -> list[Cell]:
        """Cells of a kind that have a result, under the judged setting or another."""
        asked = self.setting if label is None else label
        return [c for c in self.audit.findings.cells if (c.kind, c.defence, c.status) == (kind, asked, "done")]

    def score(self, kind: str, name: str, label: str | None = None) -> Score | None:
        """The first such score with a value."""
        found = (cell.scores[name] for cell in self.done(kind, label) if name in cell.scores)
        return next((score for score in found if score.value is not None), None)


def brief(
    audit: Audit,
    defence: str | None = None,
    acceptances: Sequence[Acceptance] = (),
    today: date | None = None,
    without_names: bool = False,
) -> Brief:
    """An audit as exports see it.

    Args:
        audit: as `read_findings` gives it.
        defence: the setting that is judged; default: as the gate chooses it.
        acceptances: of `accepted.toml`.
        today: the day on which acceptances must not be over; needed where there are some.
        without_names: numbers only; the ids stay the same.
    """
    setting, found = setting_of(audit.findings, defence), risks(audit)
    reviewed = NOTHING_ACCEPTED if today is None else review(found, acceptances, today)
    if not without_names:
        return Brief(audit, setting, found, reviewed)
    bare = numbers_only(audit)
    place = [each.label for each in audit.findings.defences].index(setting)
    nameless = tuple(replace(new, id=old.id) for new, old in zip(risks(bare), found, strict=True))
    unsigned = {
        name: each.model_copy(update={"owner": _WITHHELD, "reason": _WITHHELD})
        for name, each in reviewed.accepted.items()
    }
    label = bare.findings.defences[place].label
    return Brief(bare, label, nameless, Review(unsigned, reviewed.remarks), without_names=True)
