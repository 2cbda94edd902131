"""An annex for a data-protection impact assessment (GDPR, article 35(7)): what an audit can say, and what it cannot."""

from fluoroscope.findings import Threat
from fluoroscope.report.exports.brief import Brief
from fluoroscope.report.exports.markdown import accepted_lines, bullets, control_table, risk_table, table, text
from fluoroscope.report.traced import plain

_OWN = "*To be written by the controller: an audit does not know it.*"


def dpia_annex(brief: Brief) -> str:
    """The annex as Markdown."""
    found, claim = brief.audit.findings, brief.defence.claim
    whose = "phantoms, which are nobody's images" if found.data.synthetic else "images of patients"
    clients = [[each.name, str(each.train), str(each.validation)] for each in found.data.clients]
    promised = [text(claim.statement)]
    promised += [f"epsilon {claim.epsilon:.3g}"] if claim.epsilon is not None else []
    promised += [f"delta {claim.delta:.3g}"] if claim.delta is not None else []
    promised += [f"for each {claim.unit}"] if claim.unit else []
    without = [f"`{risk.id}` {risk.rule.title.lower()}" for risk in brief.judged if risk.level == "not tested"]
    lines = [
        "# Annex to a data-protection impact assessment: what the training of a model leaks",
        "",
        f"Made by fluoroscope {text(brief.version)} from findings.json, seed {found.seed}. Each finding has an id, "
        "under which it stands in later audits as well.",
        "",
        "## 1. The processing, as it was audited (article 35(7)(a))",
        "",
        f"A model is trained by {len(clients)} clients together, each on its own images; updates leave a client, "
        f"images do not. Audited on {whose}: {found.data.images} of {found.data.size} pixels a side.",
        "",
        *table(["Client", "Training images", "Validation images"], clients),
        "",
        f"Setting that is judged: **{text(brief.setting)}**. It promises: {', '.join(promised)}.",
        "",
        "## 2. Necessity and proportionality (article 35(7)(b))",
        "",
        _OWN,
        "",
        "## 3. Risks to the patients (article 35(7)(c))",
        "",
        *risk_table(brief, brief.judged),
        "",
        "What was assumed of each attacker; if yours can do more, these findings do not hold:",
        "",
        *bullets(_assumed(threat) for threat in found.threats),
        "",
        "## 4. Measures (article 35(7)(d))",
        "",
        text(plain(brief.audit.document, found.recommendation.text)),
        "",
        *control_table(brief),
        "",
        *accepted_lines(brief),
        "## What this annex does not say",
        "",
        *bullets(
            [
                *(plain(brief.audit.document, each) for each in found.not_safe_to_say),
                "That a control that is met here is met elsewhere: each status is of this audit and this setting.",
            ]
        ),
        *([f"- Not tested: {'; '.join(without)}."] if without else []),
    ]
    return "\n".join(lines) + "\n"


def _assumed(threat: Threat) -> str:
    said = (("Assumed", threat.assumed), ("Can", threat.can), ("Cannot", threat.cannot))
    return " ".join([f"{threat.title}.", *(f"{title}: {' '.join(words)}" for title, words in said if words)])
