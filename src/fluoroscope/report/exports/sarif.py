"""SARIF 2.1.0, which code hosts and dashboards read: every rule is declared, every finding has its fingerprint.

A rule asks that something is shown to hold, as the gate does: what is unclear or not tested fails it, as a warning.
"""

import json
from typing import Any

from fluoroscope.report.exports.brief import Brief
from fluoroscope.report.risks import Risk
from fluoroscope.report.rules import RISK_RULES, RiskRule, Severity

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
FINGERPRINT = "fluoroscopeFinding/v1"
_SCORES: dict[Severity, str] = {"critical": "9.5", "high": "8.0", "medium": "5.5", "low": "2.5"}
"""How code hosts rank a rule."""
_FINDINGS = "findings.json"


def sarif(brief: Brief) -> str:
    """The findings under the setting that is judged."""
    indices = {rule.id: i for i, rule in enumerate(RISK_RULES)}
    lines = _lines(brief)
    run = {
        "tool": {"driver": {"name": "fluoroscope", "version": brief.version, "rules": [_rule(r) for r in RISK_RULES]}},
        "invocations": [
            {
                "executionSuccessful": True,
                "toolConfigurationNotifications": [
                    {"level": "warning", "message": {"text": remark}} for remark in brief.review.remarks
                ],
            }
        ],
        "results": [_result(brief, risk, indices[risk.rule.id], lines.get(risk.cell)) for risk in brief.judged],
        "columnKind": "unicodeCodePoints",
        "properties": {"setting": brief.setting, "seed": brief.audit.findings.seed},
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _rule(rule: RiskRule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "name": rule.name,
        "shortDescription": {"text": f"{rule.title}."},
        "fullDescription": {"text": rule.asks},
        "help": {"text": rule.remedy},
        "defaultConfiguration": {"level": "error"},
        "properties": {"security-severity": _SCORES[rule.severity], "tags": ["security", "privacy"]},
    }


def _result(brief: Brief, risk: Risk, index: int, line: int | None) -> dict[str, Any]:
    accepted = brief.review.accepted.get(risk.id)
    place: dict[str, Any] = {"artifactLocation": {"uri": _FINDINGS}}
    if line is not None:
        place["region"] = {"startLine": line}
    suppressions = [] if accepted is None else [
        {
            "kind": "external",
            "justification": accepted.reason,
            "properties": {"owner": accepted.owner, "expires": accepted.expires.isoformat()},
        }
    ]  # fmt: skip
    return {
        "ruleId": risk.rule.id,
        "ruleIndex": index,
        "kind": "pass" if risk.level == "holds" else "fail",
        "level": {"holds": "none", "leaks": "error"}.get(risk.level, "warning"),
        "message": {"text": f"{risk.defence}: {risk.level}. {risk.why}"},
        "locations": [{"physicalLocation": place, "logicalLocations": [{"fullyQualifiedName": risk.pointer}]}],
        "partialFingerprints": {FINGERPRINT: risk.id},
        "suppressions": suppressions,
        "properties": {
            "id": risk.id,
            "severity": risk.severity,
            "found": risk.level,
            "attacker": risk.threat,
            "setting": risk.defence,
        },
    }


def _lines(brief: Brief) -> dict[str | None, int]:
    """The line of findings.json in which each cell begins; none without names, as those cells have other ids."""
    if brief.without_names:
        return {}
    text = (brief.audit.folder / _FINDINGS).read_text(encoding="utf-8").splitlines()
    ids = {f'"id": {json.dumps(cell.id)},': cell.id for cell in brief.audit.findings.cells}
    return {ids[line.strip()]: i for i, line in enumerate(text, 1) if line.strip() in ids}
