"""Findings that can be cited, accepted and followed over time: one per kind of attack and setting, with a stable id.

The id is a fingerprint of what is asked (kind, attacker, setting), never of what came out: more clients, rounds,
attacks or seeds keep it, and so does another result.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass

from pydantic import JsonValue

from fluoroscope.findings import Audit, Cell, Defence, Findings, Level, Verdict
from fluoroscope.findings.claims import refuted
from fluoroscope.findings.pointer import pointer
from fluoroscope.report.rules import RiskRule, Severity, rule_of
from fluoroscope.report.traced import plain

NOT_SAID = "This audit is of a version that did not say it; run it again: finished cells are not run twice."
CLAIM = "claim"
"""Stands where an attacker would: a claim is tested, not attacked."""


@dataclass(frozen=True)
class Risk:
    """What an audit says of one kind of attack under one setting."""

    id: str
    rule: RiskRule
    threat: str
    """The attacker's name, or `claim`."""
    defence: str
    """The setting's label."""
    level: Level
    why: str
    pointer: str
    """Where it stands in findings.json."""
    cell: str | None = None
    """The id of the cell that decided."""

    @property
    def severity(self) -> Severity:
        """How grave it is: the rule's where it leaks."""
        if self.level == "leaks":
            return self.rule.severity
        return "none" if self.level == "holds" else "unknown"


def risks(audit: Audit) -> tuple[Risk, ...]:
    """Every finding of an audit, setting by setting in the order of the file.

    Args:
        audit: as `read_findings` gives it.

    Returns:
        One for each setting, attacker and kind of attack; of an attacker whose kinds are not told, one for all of them.
    """
    found = audit.findings
    return tuple(
        risk
        for defence in found.defences
        for risk in (
            *(each for i, verdict in enumerate(found.verdicts) for each in _of_verdict(audit, i, verdict, defence)),
            *_of_claims(found, defence),
        )
    )


def _of_verdict(audit: Audit, place: int, verdict: Verdict, defence: Defence) -> Iterator[Risk]:
    at = next((j for j, each in enumerate(verdict.levels) if each.defence == defence.label), None)
    rule = rule_of("attacker")
    whole = _id(rule, verdict.threat, defence)
    if at is None:
        yield Risk(whole, rule, verdict.threat, defence.label, "not tested", NOT_SAID, pointer("verdicts", place))
        return
    level, here = verdict.levels[at], pointer("verdicts", place, "levels", at)
    if not level.kinds:
        why = plain(audit.document, level.why)
        yield Risk(whole, rule, verdict.threat, defence.label, level.level, why, here)
    for k, kind in enumerate(level.kinds):
        rule = rule_of(kind.kind)
        why, where = plain(audit.document, kind.why), here + pointer("kinds", k)
        name = _id(rule, verdict.threat, defence)
        yield Risk(name, rule, verdict.threat, defence.label, kind.level, why, where, kind.cell)


def _of_claims(findings: Findings, defence: Defence) -> Iterator[Risk]:
    cells = [(i, c) for i, c in enumerate(findings.cells) if c.kind == CLAIM and c.defence == defence.label]
    for i, cell in sorted(cells, key=lambda placed: (not refuted(placed[1]), placed[1].status == "done"))[:1]:
        rule, where = rule_of(CLAIM), pointer("cells", i)
        yield Risk(_id(rule, CLAIM, defence), rule, CLAIM, defence.label, *_claim_words(cell), where, cell.id)


def _claim_words(cell: Cell) -> tuple[Level, str]:
    said, proved = cell.scores.get("epsilon"), cell.scores.get("epsilon_lower")
    if cell.status != "done" or said is None or proved is None or said.value is None or proved.value is None:
        return "not tested", "No canary tested what the defence claims."
    games = max(proved.value, getattr(cell.scores.get("epsilon_lower_any"), "value", None) or 0.0)
    words = f"Canaries prove an epsilon of at least {games:.3g} in one round, and {said.value:.3g} is claimed"
    return ("leaks", f"{words}: the defence does not do what it says.") if refuted(cell) else ("holds", f"{words}.")


def _id(rule: RiskRule, threat: str, defence: Defence) -> str:
    asked = [rule.id, threat, defence.label, without_folders(list(defence.parts))]
    written = json.dumps(asked, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return f"{rule.id}-{hashlib.sha256(written.encode()).hexdigest()[:8]}"


def without_folders(value: JsonValue) -> JsonValue:
    """The same with the names of files alone: where a checkout lies must not change an id."""
    if isinstance(value, dict):
        return {key: without_folders(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_folders(item) for item in value]
    return value.replace("\\", "/").rpartition("/")[2] if isinstance(value, str) else value
