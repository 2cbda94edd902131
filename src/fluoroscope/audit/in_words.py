"""What a cell got, in words for somebody who knows no abbreviation: a function per kind of attack."""

from collections.abc import Callable

from fluoroscope.audit.levels import REHEARSED, RULES, SIGNIFICANT, Judged, Placed
from fluoroscope.audit.sentence import Sentence
from fluoroscope.findings import NO_DEFENCE, Cell, Kind
from fluoroscope.findings.metrics import KINDS, metric

_WHO = {"curious-server": "the server", "curious-client": "a curious hospital"}


def describe(said: Sentence, kind: Kind, judged: Judged, label: str) -> Sentence:
    """What was got under a setting, and why that is the level it is."""
    if judged.cell is None:
        return said.say(f"{KINDS[kind]} was not tested: no attack of this audit applies")
    place, cell = judged.cell
    if judged.why == "not repeated" and cell.defence != label:
        return said.say(f"Not tested: {KINDS[kind].lower()}{_of(cell)}, which leaks without the defence")
    if judged.why == "not repeated" and cell.status != "done":
        return said.say(f"An attack that leaks without the defence has no result with it: {_reason(cell)}")
    if judged.why == "without a result":
        gave_up = "the attack gave up" if cell.status == "gave up" else cell.status
        return said.say(f"Not tested: {KINDS[kind].lower()}{_of(cell)} ({gave_up}: {_reason(cell)})")
    if judged.why == "unchecked":
        return unchecked(said, judged.cell)
    _WORDS.get(kind, _any)(said, judged.cell, judged.level == "leaks")
    if "gave_up" in cell.scores:
        said.say("; the attack gave up on ").number(place, "gave_up", how=".0f").say(" of ")
        said.number(place, "gave_up", "n", "d").say(f" ({_reason(cell)})")
    return said.say(_REASONS.get((judged.why, label == NO_DEFENCE), ""))


_REASONS = {
    ("small", False): ". That is no more than guessing, up to the size stated below",
    ("large", False): ". Too few were attacked to exclude a leak above the size stated below",
    ("no undefended leak", True): ". That is no more than guessing, which does not show that another attack would fail",
    ("no undefended leak", False): ". Nothing leaked without the defence either, so this does not show that it helps",
    ("no comparison", False): ". That is no more than guessing. No update without the defence was attacked, so this "
    "does not show that it helps",
    ("not repeated", False): ". The attack that leaks without the defence was not tried with it",
}
"""By what the level rests on, and whether there is no defence."""


def unchecked(said: Sentence, placed: Placed) -> Sentence:
    """A guess whose truth is not here: what is said is how the attack does on simulated clients."""
    place, cell = placed
    score, whose = REHEARSED[cell.kind], f"{cell.settings.get('client')} (round {cell.settings.get('round')})"
    reconstructed = cell.kind == "reconstruction"
    found, p_value = cell.scores[score], cell.scores.get("rehearsal_p_value")
    works = (found.low or 0.0) > 0 and p_value is not None and p_value.value is not None
    works = works and p_value is not None and (p_value.value or 0.0) <= SIGNIFICANT
    said.say(
        "An attack that " + ("works on" if works else "is not told from chance on") + " simulated clients of this "
    )
    said.say(f"training, with a {'leak' if reconstructed else 'gain'} of ").interval(place, cell, score)
    said.say(", where chance gives 0, guessed ")
    said.say(f"images of {whose}" if reconstructed else f"how many images of each class {whose} has").say(". ")
    return said.say("Whether the guess is right cannot be checked here, since that site's images are not here")


def _reconstruction(said: Sentence, placed: Placed, leaks: bool) -> None:
    place, cell = placed
    client, recorded = cell.settings.get("client"), cell.attacked == "recorded update"
    found = cell.scores.get("found")
    if not leaks:
        said.say(f"Of what the server recovered from {client}, ").number(place, "told_apart", how=".0%")
        said.say(" is told apart from other patients' images, and guessing reaches ")
        said.number(place, "told_apart", "chance", ".0%")
        return
    if found is None or not found.value:
        said.say(f"What the server recovered from {client} is nearer to its own patients than to others by more than ")
        said.say("chance, though no image is told apart from everybody else's")
        return
    if recorded:
        said.say("Of ").number(place, "images", how=".0f").say(f" images of {client} the server recovered ")
        said.number(place, "found", how=".0f").say(" so that they are told apart from other patients'")
    else:
        said.say("From ").number(place, "found", how=".0f").say(" of ").number(place, "images", how=".0f")
        said.say(f" patients in the place of {client} the server recovered an image that is told apart from other ")
        said.say("patients'")
    said.say(" (").number(place, "told_apart", how=".0%").say(" of what it recovered is; guessing reaches ")
    said.number(place, "told_apart", "chance", ".0%").say(")")


def _pairs(question: str) -> Callable[[Sentence, Placed, bool], None]:
    """AUC is how often the right one of two is named."""

    def words(said: Sentence, placed: Placed, leaks: bool) -> None:
        place, cell = placed
        who, client = _WHO.get(cell.threat or "", "the attacker"), cell.settings.get("client", "a client")
        said.say(f"Shown {question.format(client=client)}, {who} names the right one in ")
        said.number(place, "auc", how=".0%").say(" of cases; guessing reaches ").number(place, "auc", "chance", ".0%")

    return words


def _source(said: Sentence, placed: Placed, leaks: bool) -> None:
    place, cell = placed
    said.say(
        f"Asked whose training image it is, {_WHO.get(cell.threat or '', 'the attacker')} names the right hospital "
    )
    said.say("in ").number(place, "accuracy", how=".0%").say(" of cases; guessing reaches ")
    said.number(place, "accuracy", "chance", ".0%")


def _label_counts(said: Sentence, placed: Placed, leaks: bool) -> None:
    place, cell = placed
    whose = cell.settings.get("client", "a hospital")
    said.say(f"Of how many of {whose}'s images have which label, the server's guess is off by ")
    said.number(place, "error", how=".0%").say(" of the images per label; without an update it is off by ")
    said.number(place, "error_public", how=".0%")
    if "rehearsal_gain" in cell.scores:
        said.say(". On simulated clients in its place the guess comes nearer by ")
        said.number(place, "rehearsal_gain", how=".0%")


def _any(said: Sentence, placed: Placed, leaks: bool) -> None:
    place, cell = placed
    name = RULES[cell.kind].score
    said.say(f"{KINDS[cell.kind]}{_of(cell)}: {metric(name, cell.kind).label} ").interval(place, cell, name)


_WORDS: dict[Kind, Callable[[Sentence, Placed, bool], None]] = {
    "reconstruction": _reconstruction,
    "client-inference": _pairs("a federation in which {client} takes part and one in which it does not"),
    "membership": _pairs("an image that {client} trained on and one that it did not"),
    "source": _source,
    "label-counts": _label_counts,
}
"""Kinds without a row are described by their score."""


def _of(cell: Cell) -> str:
    return f" of {cell.settings['client']}" if "client" in cell.settings else ""


def _reason(cell: Cell) -> str:
    return (cell.reason or "no reason was given").rstrip(".")
