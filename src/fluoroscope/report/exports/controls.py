"""Controls that committees ask for, each met, not met or not tested: computed from findings, never asserted.

What a control asks is in our own words. "Met" is about this audit and the attacks that it has.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from fluoroscope.findings import NO_DEFENCE
from fluoroscope.report.exports.brief import Brief
from fluoroscope.report.risks import CLAIM, Risk

ControlStatus = Literal["met", "not met", "not tested"]


@dataclass(frozen=True)
class ControlOutcome:
    """What findings say of a control."""

    status: ControlStatus
    why: str
    rests_on: tuple[str, ...] = ()
    """Ids of findings, or of cells where no finding is about it."""


@dataclass(frozen=True)
class Control:
    """One thing that a framework asks."""

    framework: str
    reference: str
    asks: str
    judge: Callable[[Brief], ControlOutcome]


@dataclass(frozen=True)
class JudgedControl:
    """A control and what this audit says of it."""

    control: Control
    outcome: ControlOutcome


def judged_controls(brief: Brief) -> tuple[JudgedControl, ...]:
    """All controls, under the setting that is judged."""
    return tuple(JudgedControl(each, each.judge(brief)) for each in CONTROLS)


def _cells(brief: Brief, *kinds: str) -> tuple[str, ...]:
    return tuple(cell.id for kind in kinds for cell in brief.done(kind))


def _claim_risk(brief: Brief) -> Risk | None:
    return next((risk for risk in brief.judged if risk.threat == CLAIM), None)


def _epsilon(brief: Brief) -> ControlOutcome:
    claim, cells = brief.defence.claim, _cells(brief, "federation", "claim")
    if _refuted(brief):
        return _by_claim(brief)
    if claim.epsilon is None or claim.delta is None:
        trained = bool(brief.done("federation"))
        why = "No epsilon is counted for this setting." if trained else "This setting was not trained."
        return ControlOutcome("not met" if trained else "not tested", why, cells)
    round_ = brief.score("claim", "epsilon")
    if round_ is None or round_.value is None:
        why = f"Epsilon {claim.epsilon:.3g} at delta {claim.delta:.3g} over all rounds; "
        why += "a round's stands beside canaries, which have no result."
        return ControlOutcome("not tested", why, cells)
    why = f"Per round epsilon {round_.value:.3g}, over all rounds {claim.epsilon:.3g}, at delta {claim.delta:.3g}."
    return ControlOutcome("met", why, cells)


def _refuted(brief: Brief) -> bool:
    risk = _claim_risk(brief)
    return risk is not None and risk.level == "leaks"


def _by_claim(brief: Brief) -> ControlOutcome:
    """The canaries' word on the claim."""
    risk = _claim_risk(brief)
    if risk is None:
        return ControlOutcome(
            "not tested", "This setting claims no epsilon that canaries could test, or none tested it."
        )
    status: ControlStatus = {"leaks": "not met", "holds": "met"}.get(risk.level, "not tested")  # type: ignore[assignment]
    return ControlOutcome(status, risk.why, (risk.id,))


def _canaries(brief: Brief) -> ControlOutcome:
    risk = _claim_risk(brief)
    if risk is None or risk.level == "not tested":
        return ControlOutcome("not tested", "No canary was played under this setting.", (risk.id,) if risk else ())
    return ControlOutcome("met", "Canaries were played in this audit; each training cycle needs its own.", (risk.id,))


def _told(key: Literal["unit", "relation", "trust"], words: str) -> Callable[[Brief], ControlOutcome]:
    """Whether the claim says one of the things without which an epsilon means nothing."""

    def judge(brief: Brief) -> ControlOutcome:
        claim, cells = brief.defence.claim, _cells(brief, "federation")
        if _refuted(brief):
            return _by_claim(brief)
        if claim.epsilon is None:
            trained = bool(brief.done("federation"))
            why = "No epsilon is counted for this setting." if trained else "This setting was not trained."
            return ControlOutcome("not met" if trained else "not tested", why, cells)
        said = getattr(claim, key)
        return (
            ControlOutcome("met", f"{words}: {said}.", cells)
            if said
            else ControlOutcome("not met", f"{words} is not said.", cells)
        )

    return judge


def _metrics(brief: Brief) -> ControlOutcome:
    seen, cells = brief.score("metrics", "visible"), _cells(brief, "metrics")
    if seen is None or seen.value is None:
        return ControlOutcome("not tested", "What clients tell beside their updates was not looked at.")
    if seen.value:
        return ControlOutcome(
            "not met", f"A client tells {seen.value:.0f} numbers of its own images in a round.", cells
        )
    return ControlOutcome("met", "Clients tell no number of their own images.", cells)


def _price(brief: Brief) -> ControlOutcome:
    before, after = brief.score("federation", "accuracy", NO_DEFENCE), brief.score("federation", "accuracy")
    cells = (*(cell.id for cell in brief.done("federation", NO_DEFENCE)), *_cells(brief, "federation"))
    cells = tuple(dict.fromkeys(cells))
    if before is None or after is None or before.value is None or after.value is None:
        return ControlOutcome("not tested", "The accuracy with and without the setting was not measured.", cells)
    price = f"accuracy {before.value:.3f} without a defence"
    price += "" if brief.setting == NO_DEFENCE else f", {after.value:.3f} with it"
    if brief.defence.claim.epsilon is None or _refuted(brief):
        return ControlOutcome("not met", f"The price is known ({price}), and no epsilon stands beside it.", cells)
    return ControlOutcome("met", f"Epsilon {brief.defence.claim.epsilon:.3g}; {price}.", cells)


def _threat_model(brief: Brief) -> ControlOutcome:
    threats = brief.audit.findings.threats
    if not threats or not all(threat.assumed for threat in threats):
        return ControlOutcome("not met", "What is assumed of an attacker is not written down for each of them.")
    names = ", ".join(threat.name for threat in threats)
    return ControlOutcome("met", f"Written down for {names}.", tuple(risk.id for risk in brief.judged))


def _worst(brief: Brief) -> ControlOutcome:
    tried = [risk for risk in brief.judged if risk.level != "not tested" and risk.threat != CLAIM]
    if not tried:
        return ControlOutcome("not tested", "No attack has a result under this setting.")
    return ControlOutcome(
        "met",
        "Of clients and rounds the worst counts; no finding averages over them.",
        tuple(risk.id for risk in tried),
    )


def _attacked(brief: Brief) -> ControlOutcome:
    """Whether attacks were tried, whatever came of it."""
    asked = [risk for risk in brief.judged if risk.threat != CLAIM]
    missed = [risk.id for risk in asked if risk.level == "not tested"]
    ids = tuple(risk.id for risk in asked)
    if not asked or len(missed) == len(asked):
        return ControlOutcome("not tested", "No attack has a result under this setting.", ids)
    if missed:
        return ControlOutcome("not met", f"Without a result: {', '.join(missed)}.", ids)
    return ControlOutcome("met", "Every kind of attack of the plan has a result.", ids)


def _shown(*rules: str) -> Callable[[Brief], ControlOutcome]:
    """Whether these kinds of attack are shown to be stopped. The burden of proof is with whoever says so."""

    def judge(brief: Brief) -> ControlOutcome:
        found = [risk for risk in brief.judged if risk.rule.id in (*rules, "attacker")]
        missing = [rule for rule in rules if rule not in {risk.rule.id for risk in found}]
        ids = tuple(risk.id for risk in found)
        if leaks := [risk.id for risk in found if risk.level == "leaks"]:
            return ControlOutcome("not met", f"Leaks: {', '.join(leaks)}.", ids)
        if unclear := [risk.id for risk in found if risk.level == "unclear"]:
            return ControlOutcome("not met", f"Not shown: {', '.join(unclear)}.", ids)
        if missing or any(risk.level == "not tested" for risk in found):
            untried = [*missing, *(risk.id for risk in found if risk.level == "not tested")]
            return ControlOutcome("not tested", f"Not tested: {', '.join(untried)}.", ids)
        return ControlOutcome("met", "The attacks that were tried leak without the setting, and not with it.", ids)

    return judge


def _documented(brief: Brief) -> ControlOutcome:
    tried = tuple(risk.id for risk in brief.judged if risk.level != "not tested" and risk.threat != CLAIM)
    if not tried:
        return ControlOutcome("not tested", "No attack has a result under this setting.")
    return ControlOutcome("met", "findings.json holds each attack with its settings, scores and versions.", tried)


_AISVS, _NIST, _ISO = "OWASP AISVS C12", "NIST SP 800-226", "ISO/IEC 27559"
_EDPB, _SATRE = "EDPB Opinion 28/2024", "SATRE v2"
CONTROLS: Sequence[Control] = (
    Control(_AISVS, "12.3.1", "Epsilon and delta are counted, round by round.", _epsilon),
    Control(_AISVS, "12.3.2", "An empirical lower bound on epsilon agrees with the declared one.", _by_claim),
    Control(_AISVS, "12.6.1", "It is said whether differential privacy is local or central.",
            _told("trust", "Differential privacy")),
    Control(_AISVS, "12.6.2", "Metrics reveal no single client's loss.", _metrics),
    Control(_AISVS, "12.6.3", "Canaries are played in each training cycle.", _canaries),
    Control(_AISVS, "12.6.4", "Epsilon and the loss of utility stand beside a baseline.", _price),
    Control(_NIST, "unit of privacy", "It is said whom or what epsilon protects.", _told("unit", "Unit")),
    Control(_NIST, "neighbouring relation", "It is said which two data sets epsilon cannot tell apart.",
            _told("relation", "Relation")),
    Control(_NIST, "trust model", "It is said against whom epsilon holds.", _told("trust", "Trust")),
    Control(_NIST, "hazards", "The mechanism as it runs was tested, not its formula alone.", _by_claim),
    Control(_ISO, "6.2", "Attackers and what they know are modelled.", _threat_model),
    Control(_ISO, "7.3.2", "The maximum risk is measured where the average may hide it.", _worst),
    Control(_ISO, "8.2.3", "Adversaries are played against the data or model that is released.", _attacked),
    Control(_EDPB, "extraction", "Taking personal data out by means reasonably likely to be used is insignificant.",
            _shown("reconstruction", "crafted-model", "membership")),
    Control(_EDPB, "documentation", "Tests of resistance to attacks are documented.", _documented),
    Control(_SATRE, "3.3.07", "Before a model leaves, named controls look at what it tells of its training data.",
            _shown("membership", "source")),
)  # fmt: skip
"""In the order of the table."""
