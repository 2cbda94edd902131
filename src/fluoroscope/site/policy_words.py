"""A policy in plain words: what it does, and what it knows too little for."""

import math

from fluoroscope.defences import Participation
from fluoroscope.defences.accounting import affordable
from fluoroscope.site.decision import Answer
from fluoroscope.site.policy import Policy
from fluoroscope.site.reading import LEAKS, Leak
from fluoroscope.site.subject import Subject
from fluoroscope.types import LocalTraining

_DONE: dict[Answer, str] = {"send": "passes", "warn": "passes with a warning", "withhold": "is withheld"}
_MEANING: dict[Leak, str] = {
    "reconstruction": "gives images away (RDLV beyond other patients)",
    "label-counts": "gives the counts of its classes away (share beyond public counts)",
}
_MOST_RELEASES = 10_000


def rules_in_words(policy: Policy) -> list[str]:
    """What it answers, a sentence per rule."""
    said = []
    for leak in LEAKS:
        limit, override = policy.limits.of(leak), policy.override.of(leak)
        near = policy.limits.warn_at * limit
        warned = f", from {near:g} on it passes with a warning" if 0 < near < limit else ""
        said.append(
            f"{leak}: an update that {_MEANING[leak]} by more than {limit:g} {_DONE[override.above_limit]}{warned}; "
            f"where that cannot be judged, it {_DONE[policy.unjudged(leak)]}."
        )
    budget = policy.privacy
    if budget.epsilon is None:
        said.append("privacy: no epsilon is asked for.")
    else:
        said.append(
            f"privacy: an update is withheld when all releases of the ledger together would spend more than epsilon = "
            f"{budget.epsilon:g} at delta = {budget.delta:g}, or when no defence of this site counts it."
        )
    said.append(
        f"guard: a model that looks crafted {_DONE[policy.guard.when_refused]}; one that can be judged by its weights "
        f"alone {_DONE[policy.guard.when_not_judged]}."
    )
    return said


def gaps_in_words(policy: Policy, subject: Subject) -> list[str]:
    """What the site did not say, and what follows from that."""
    said = []
    named = (("[model]", policy.model), ("[training]", policy.training), ("site.images", policy.site.images))
    missing = [name for name, part in named if part is None]
    if missing:
        follows = {policy.unjudged(leak) for leak in LEAKS}
        answer = _DONE["withhold" if "withhold" in follows else "warn" if "warn" in follows else "send"]
        said.append(f"without {', '.join(missing)} no update can be judged: every update {answer}.")
    if policy.model is None:
        said.append(f"without [model] no model can be run: every model {_DONE[policy.guard.when_not_judged]}.")
    if policy.site.public is None:
        said.append("without site.public, attackers who learn from such images are not played.")
    if policy.privacy.epsilon is not None:
        said.append(_lasting(policy.privacy.epsilon, subject))
    return said


def training_in_words(training: LocalTraining) -> str:
    """How the meter believes that the application trains: what is not true here is measured wrongly."""
    length = f"{training.steps} step{'s' * (training.steps != 1)} of {training.batch_size} images at most"
    pixels = training.normalisation
    seen = "pixels in [0, 1]" if pixels is None else f"pixels less {_listed(pixels.mean)}, over {_listed(pixels.std)}"
    return f"training: {training.optimiser}, {training.images} images per epoch, {length}, {training.loss}, {seen}."


def _listed(numbers: tuple[float, ...]) -> str:
    return " ".join(f"{number:g}" for number in numbers)


def _lasting(budget: float, subject: Subject) -> str:
    def spent(releases: int) -> float:
        if subject.training is None:
            return math.inf
        claim = subject.defence.claim(Participation(subject.training, releases))
        return math.inf if claim.epsilon is None or claim.trust != "local" else claim.epsilon

    if math.isinf(spent(1)):
        return f"no [[defence]] counts an epsilon, and at most {budget:g} is asked for: every update is withheld."
    lasts = affordable(_MOST_RELEASES, budget, spent)
    return (
        f"one update spends epsilon = {spent(1):.3g}; the budget of {budget:g} lasts for {lasts} from an empty ledger."
    )
