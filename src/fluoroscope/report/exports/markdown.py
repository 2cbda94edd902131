"""The findings as Markdown, and the tables that other documents in Markdown share."""

from collections.abc import Iterable, Sequence

from fluoroscope.report.exports.brief import Brief
from fluoroscope.report.exports.controls import judged_controls
from fluoroscope.report.risks import Risk
from fluoroscope.report.traced import plain


def markdown(brief: Brief) -> str:
    """Everything that was found, under every setting, with the controls and what is accepted."""
    found = brief.audit.findings
    lines = [
        f"# {text(found.title)}",
        "",
        f"Setting that is judged: **{text(brief.setting)}**. Made by fluoroscope {text(brief.version)}, "
        f"seed {found.seed}.",
        "",
        text(plain(brief.audit.document, found.recommendation.text)),
        "",
        "## Findings",
        "",
        *risk_table(brief, brief.risks),
        "",
        "## Controls",
        "",
        *control_table(brief),
        "",
        *accepted_lines(brief),
        "## Not safe to say",
        "",
        *bullets(plain(brief.audit.document, each) for each in found.not_safe_to_say),
    ]
    return "\n".join(lines) + "\n"


def risk_table(brief: Brief, risks: Sequence[Risk]) -> list[str]:
    """A row per finding."""
    titles = brief.titles()
    rows = [
        [
            f"`{risk.id}`",
            risk.defence,
            titles.get(risk.threat, risk.threat),
            risk.rule.title,
            f"accepted ({risk.level})" if risk.id in brief.review.accepted else risk.level,
            risk.severity,
            risk.why,
        ]
        for risk in risks
    ]
    return table(["Id", "Setting", "Attacker", "What", "Found", "Severity", "Why"], rows)


def control_table(brief: Brief) -> list[str]:
    """A row per control, under the setting that is judged."""
    rows = [
        [
            each.control.framework,
            each.control.reference,
            each.control.asks,
            f"**{each.outcome.status}**",
            each.outcome.why,
            ", ".join(f"`{name}`" for name in each.outcome.rests_on) or "–",
        ]
        for each in judged_controls(brief)
    ]
    return table(["Framework", "Control", "It asks", "Status", "Why", "Rests on"], rows)


def accepted_lines(brief: Brief) -> list[str]:
    """What is accepted and by whom, and acceptances that do nothing; empty where there are none."""
    if not brief.review.accepted and not brief.review.remarks:
        return []
    rows = [
        [f"`{name}`", each.level, each.owner, each.reason, each.expires.isoformat()]
        for name, each in brief.review.accepted.items()
    ]
    made = ["## Accepted", "", *(table(["Id", "As", "Owner", "Reason", "Until"], rows) if rows else []), ""]
    return [*made, *bullets(brief.review.remarks), ""]


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table; what is in a cell cannot end it."""
    lines = [columns, ["---"] * len(columns), *([text(value) for value in row] for row in rows)]
    return [f"| {' | '.join(line)} |" for line in lines]


def bullets(items: Iterable[str]) -> list[str]:
    """A list."""
    return [f"- {text(each)}" for each in items]


def text(value: str) -> str:
    """Words on one line that are no markup: a hospital may be called `<b>` or `a|b`."""
    return " ".join(value.split()).replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|")
