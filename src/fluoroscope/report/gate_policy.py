"""The limits of a gate as a file: `gate --write-policy` freezes what was found, `gate --policy` lets no worse pass."""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import Field

from fluoroscope.federation.sections import Section, parse_as, read_toml
from fluoroscope.findings import Audit, Findings, Kind, Level
from fluoroscope.findings.metrics import LEAKS
from fluoroscope.report.gate import Limit, judge, judgements, setting_of

_NO_WORSE: Mapping[Level, tuple[str, ...]] = {
    "holds": (),
    "unclear": ("unclear",),
    "not tested": ("not-tested", "unclear"),
    "leaks": ("leaks", "unclear"),
}
"""By the level that is frozen, those that may pass beside `holds`. A leak that nobody looks for is no better."""
_MOST: tuple[tuple[Kind, str], ...] = (
    *((kind, name) for kind, names in LEAKS.items() for name in names),
    ("federation", "epsilon"),
)
_LEAST: tuple[tuple[Kind, str], ...] = (("federation", "accuracy"),)


class GatePolicy(Section):
    """What a gate asks of an audit."""

    defence: str | None = None
    allow: tuple[str, ...] = ()
    may_lack: tuple[str, ...] = ()
    """Ids of cells that need no result."""
    most: dict[Kind, dict[str, float]] = Field(default_factory=dict)
    least: dict[Kind, dict[str, float]] = Field(default_factory=dict)

    @property
    def limits(self) -> list[Limit]:
        """Held against the cells of one kind each."""
        return [
            Limit(metric, bound, at_least, kind)
            for at_least, side in ((False, self.most), (True, self.least))
            for kind, bounds in side.items()
            for metric, bound in bounds.items()
        ]


def read_gate_policy(path: Path) -> GatePolicy:
    """The policy in a TOML file.

    Raises:
        BadInput: the file cannot be read.
        Misconfigured: a key or a value is wrong; it is named.
    """
    return parse_as(GatePolicy, read_toml(path, "policy of a gate"), str(path))


def frozen(audit: Audit, defence: str | None = None) -> GatePolicy:
    """The policy that this audit just keeps: its levels, the worse ends of its scores, its cells without a result.

    Args:
        audit: as `read_findings` gives it.
        defence: the setting; default: as `judge` chooses it.
    """
    findings = audit.findings
    label = setting_of(findings, defence)
    levels = judge(audit, [], label).levels
    most = dict(_bounds(findings, label, _MOST, at_least=False))
    least = dict(_bounds(findings, label, _LEAST, at_least=True))
    policy = GatePolicy(
        defence=label,
        allow=tuple(f"{each.threat}={level}" for each in levels for level in _NO_WORSE[each.level]),
        most=_by_kind(most),
        least=_by_kind(least),
    )
    lacking = dict.fromkeys(
        each.cell
        for limit in policy.limits
        for each in judgements(findings, limit, label)
        if each.missing and each.cell is not None
    )
    return policy.model_copy(update={"may_lack": tuple(lacking)})


def policy_text(policy: GatePolicy) -> str:
    """The policy as TOML, with what it means."""
    lines = [
        "# What an audit was found to be, frozen: `fluoroscope gate DIR --policy THIS` lets nothing worse pass.",
        "# Written by `fluoroscope gate --write-policy`; tighten it where you can.",
        f"defence = {_toml(policy.defence)}" if policy.defence else "",
        "# Levels that may pass beside holds.",
        f"allow = {_toml(list(policy.allow))}",
        "# Cells that had no result; any other without one breaks its limit.",
        f"may_lack = {_toml(list(policy.may_lack))}",
    ]
    for name, side, words in (
        ("most", policy.most, "the most that the upper end of an interval may be"),
        ("least", policy.least, "the least that the lower end of an interval may be"),
    ):
        for kind, bounds in side.items():
            lines += ["", f"[{name}.{kind}]  # {words}", *(f"{key} = {bound!r}" for key, bound in bounds.items())]
    return "\n".join(line for i, line in enumerate(lines) if line or i > 4) + "\n"


def _bounds(
    findings: Findings, label: str, asked: tuple[tuple[Kind, str], ...], at_least: bool
) -> Iterator[tuple[tuple[Kind, str], float]]:
    for kind, metric in asked:
        limit = Limit(metric, -math.inf if at_least else math.inf, at_least, kind)
        found = [each.value for each in judgements(findings, limit, label) if each.value is not None]
        if found:
            yield (kind, metric), min(found) if at_least else max(found)


def _by_kind(bounds: Mapping[tuple[Kind, str], float]) -> dict[Kind, dict[str, float]]:
    found: dict[Kind, dict[str, float]] = {}
    for (kind, metric), bound in bounds.items():
        found.setdefault(kind, {})[metric] = bound
    return found


def _toml(value: str | list[str] | None) -> str:
    return json.dumps(value, ensure_ascii=False)  # TOML reads what JSON writes of texts and lists of them
