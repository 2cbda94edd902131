"""The findings with their ids as JSON, for scripts."""

from typing import Any

from fluoroscope import strict_json
from fluoroscope.report.exports.brief import Brief
from fluoroscope.report.exports.controls import judged_controls
from fluoroscope.report.risks import Risk


def plain_json(brief: Brief) -> str:
    """Findings under every setting, controls and acceptances; without names the whole document of numbers, too."""
    content = {
        "format": 1,
        "fluoroscope": brief.version,
        "setting": brief.setting,
        "findings": [_risk(brief, risk) for risk in brief.risks],
        "open": [risk.id for risk in brief.open],
        "controls": [
            {
                "framework": each.control.framework,
                "control": each.control.reference,
                "asks": each.control.asks,
                "status": each.outcome.status,
                "why": each.outcome.why,
                "rests_on": list(each.outcome.rests_on),
            }
            for each in judged_controls(brief)
        ],
        "remarks": list(brief.review.remarks),
    }
    if brief.without_names:
        content["numbers"] = brief.audit.document
    return strict_json.dumps(content)


def _risk(brief: Brief, risk: Risk) -> dict[str, Any]:
    accepted = brief.review.accepted.get(risk.id)
    return {
        "id": risk.id,
        "rule": risk.rule.id,
        "attacker": risk.threat,
        "setting": risk.defence,
        "level": risk.level,
        "severity": risk.severity,
        "why": risk.why,
        "pointer": risk.pointer,
        "cell": risk.cell,
        "accepted": None if accepted is None else accepted.model_dump(mode="json"),
    }
