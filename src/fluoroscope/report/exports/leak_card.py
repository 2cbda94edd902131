"""A leak card: twelve lines of YAML and Markdown for the page of a model, without any name in it."""

import json

from fluoroscope.findings import NO_DEFENCE, Level
from fluoroscope.report.exports.brief import Brief
from fluoroscope.report.risks import Risk

_LEVELS: tuple[Level, ...] = ("leaks", "unclear", "not tested", "holds")
"""The worst first."""


def leak_card(brief: Brief) -> str:
    """What a model's README says of its training: YAML between two lines of dashes, then two sentences.

    `brief` must be without names: the card goes where everybody reads it.
    """
    claim, accuracy = brief.defence.claim, brief.score("federation", "accuracy")
    found = {each.rule.id: _worst(brief, each.rule.id) for each in brief.judged}
    images = "phantoms" if brief.audit.findings.data.synthetic else "patients"
    clients = len(brief.audit.findings.data.clients)
    lines = [
        "---",
        f"leak_audit: {_yaml(f'fluoroscope {brief.version}')}",
        f"setting: {_yaml(brief.setting)}",
        f"audited_on: {_yaml({'images_of': images, 'clients': clients, 'seed': brief.audit.findings.seed})}",
        f"found: {_yaml(found)}",
        f"findings_open: {_yaml([risk.id for risk in brief.open])}",
        f"privacy: {_yaml({'epsilon': claim.epsilon, 'delta': claim.delta, 'unit': claim.unit, 'trust': claim.trust})}",
        f"accuracy: {_yaml(None if accuracy is None else round(accuracy.value or 0.0, 4))}",
        "---",
        "## What this model's training leaks",
        _sentence(brief),
        "“holds”: an attack that leaks without the setting gains no more than guessing with it; others were not tried.",
    ]
    return "\n".join(lines) + "\n"


def _worst(brief: Brief, rule: str) -> Level:
    """Two attackers may try the same."""
    return min((risk.level for risk in brief.judged if risk.rule.id == rule), key=_LEVELS.index)


def _sentence(brief: Brief) -> str:
    by_level = {level: [risk.rule.title.lower() for risk in brief.judged if risk.level == level] for level in _LEVELS}
    said = [f"{level}: {', '.join(titles)}" for level, titles in by_level.items() if titles]
    under = "Without a defence" if brief.setting == NO_DEFENCE else f"Under {brief.setting}"
    return f"{under}, {'; '.join(said) or 'nothing was tested'}."


def _title(risk: Risk) -> str:
    """A crafted model is stopped by the clients' guard, whatever the setting."""
    guarded = " (where every client has the guard)" if (risk.rule.id, risk.level) == ("crafted-model", "holds") else ""
    return risk.rule.title.lower() + guarded


def _yaml(value: object) -> str:
    return json.dumps(value)  # YAML reads what JSON writes
