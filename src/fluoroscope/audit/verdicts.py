"""What the findings say, in sentences whose numbers point to findings."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from fluoroscope.audit.claim import contradicted, contradictions, supported
from fluoroscope.audit.in_words import describe
from fluoroscope.audit.levels import RULES, Levels, Placed
from fluoroscope.audit.sentence import Sentence
from fluoroscope.findings import (
    GUARD,
    NO_DEFENCE,
    Cell,
    Kind,
    KindLevel,
    Level,
    Recommendation,
    Score,
    SettingLevel,
    Size,
    Text,
    Verdict,
)
from fluoroscope.findings.metrics import KINDS
from fluoroscope.threat_models.words import THREATS_IN_WORDS

_CRAFTED = "malicious-server"
"""Its model is stopped at the clients' door, whatever the setting."""


class Audited(Protocol):
    """What verdicts ask of whatever was audited: a planned federation, or updates that were recorded."""

    @property
    def threats(self) -> Sequence[str]: ...

    @property
    def labels(self) -> Mapping[str, Sequence[object]]:
        """The settings with the parts of their defences; `none` first."""
        ...

    @property
    def own(self) -> str | None:
        """The setting that the federation itself has; None: it has no defence."""
        ...

    @property
    def synthetic(self) -> bool:
        """Whether the images are nobody's."""
        ...


@dataclass(frozen=True)
class Verdicts:
    """One for each threat, and what follows from them together."""

    plan: Audited
    cells: Sequence[Cell]

    def all(self) -> tuple[Verdict, ...]:
        """In the order of the plan's threats."""
        return self._all

    @cached_property
    def _all(self) -> tuple[Verdict, ...]:
        return tuple(
            self._malicious_server() if threat == _CRAFTED else self._stoppable(threat) for threat in self.plan.threats
        )

    def sizes(self) -> tuple[Size, ...]:
        """What had to be small where a setting is said to hold, of the kinds that were tried."""
        tried = {cell.kind for cell in self.cells}
        return tuple(size for kind, rule in RULES.items() if kind in tried for size in rule.sizes)

    def recommendation(self) -> Recommendation:
        """The setting that is shown to stop whatever leaks without it, at the least cost."""
        bare = {threat: self._level(threat, NO_DEFENCE) for threat in self.plan.threats if threat != _CRAFTED}
        leaking = [threat for threat, level in bare.items() if level == "leaks"]
        crafted = next((each for each in self.all() if each.threat == _CRAFTED), None)
        taken = crafted is not None and crafted.level == "leaks"
        if not leaking and not taken:
            words = "No attack that was tried leaks beyond chance without a defence. So no defence could be shown to "
            words += "help, and none is recommended: that an attack fails is no sign that others would."
            return Recommendation(defence=None, text=Sentence().say(words).text)
        labels = [label for label in self.plan.labels if all(self._holds(threat, label) for threat in leaking)]
        labels = [label for label in labels if label not in contradicted(self.cells)]
        guarded = taken and crafted is not None and crafted.stopped_by == GUARD
        if not labels or (taken and not guarded):
            words = (
                "No setting that was tried is shown to stop everything that leaks. Try stronger ones, or more victims: "
                "`fluoroscope calibrate` finds how much noise is needed."
            )
            return Recommendation(defence=None, text=Sentence().say(words).text)
        best = max(labels, key=self._accuracy)
        said = Sentence()
        if best != NO_DEFENCE:
            said.say(f"Use “{best}”")
        if guarded:
            said.say("Let" if best == NO_DEFENCE else ", and let")
            said.say(" every client inspect a model before training it (the guard)")
        self._price(said, best)
        return Recommendation(defence=best, text=said.say(".").text)

    def safe_to_say(self) -> tuple[Text, ...]:
        """What these findings carry."""
        found = [*supported(self.cells)]
        for place, cell in self._done("federation"):
            if "epsilon" in cell.scores and cell.defence not in contradicted(self.cells):
                said = Sentence().say(f"With “{cell.defence}” no client's epsilon exceeds ")
                found.append(said.number(place, "epsilon", how=".3g").say(" after all rounds.").text)
        for verdict in self.all():
            if verdict.stopped_by:
                who = THREATS_IN_WORDS[verdict.threat]["short"]
                words = f"In this audit “{verdict.stopped_by}” stopped attacks of {who} that succeed without it."
                found.append(Sentence().say(words).text)
        return tuple(found)

    def not_safe_to_say(self) -> tuple[Text, ...]:
        """What they do not, however often one hears it."""
        words = [
            "That other attacks would fail too: an audit finds what leaks by the attacks that it has, and bounds none "
            "that it has not.",
            "That other hospitals, other images or more rounds leak as little: the numbers are of this plan.",
        ]
        if open_ := [each.threat.replace("-", " ") for each in self.all() if each.level in ("unclear", "not tested")]:
            words.append(f"That the {' or the '.join(open_)} learns nothing: that was not shown.")
        noisy = [label for label, parts in self.plan.labels.items() if parts and not self._counted(label)]
        if noisy:
            named = ", ".join(f"“{label}”" for label in noisy)
            words.append(f"That {named} would be differential privacy: no epsilon is counted.")
        if self.plan.synthetic:
            words.append("That patients' images would leak alike: these are phantoms.")
        return (*contradictions(self.cells), *(Sentence().say(each).text for each in words))

    # --- threat by threat ------------------------------------------------------------------------------------

    def _stoppable(self, threat: str) -> Verdict:
        """A threat whose attacks a setting may stop."""
        compared = any(cell.threat == threat and cell.defence == NO_DEFENCE for cell in self.cells)
        own = self.plan.own
        said = self._described(threat, NO_DEFENCE) if compared or own is None else Sentence()
        leaks = self._level(threat, NO_DEFENCE) == "leaks"
        stop = self._cheapest(threat) if leaks else None
        for label in dict.fromkeys(each for each in (own, stop) if each):
            self._price(
                self._described(threat, label, said.say(f"{'. ' if said.text.text else ''}With “{label}”: ")), label
            )
        if leaks and not stop and len(self.plan.labels) > 1:
            said.say(". No setting that was tried is shown to stop it")
        return Verdict(
            threat=threat,
            level=self._level(threat, own or NO_DEFENCE),
            text=said.say(".").text,
            stopped_by=stop,
            levels=tuple(
                SettingLevel(
                    defence=label,
                    level=self._level(threat, label),
                    why=self._described(threat, label).say(".").text,
                    kinds=tuple(self._kind_level(threat, kind, label) for kind in self._levels.kinds(threat)),
                )
                for label in self.plan.labels
            ),
        )

    def _described(self, threat: str, label: str, said: Sentence | None = None) -> Sentence:
        """What each kind of attack got under a setting."""
        said = said or Sentence()
        kinds = self._levels.kinds(threat)
        for number, kind in enumerate(kinds):
            said.say(". " if number else "")
            describe(said, kind, self._levels.of_kind(threat, kind, label), label)
        return said if kinds else said.say("Not tested: the plan has no such cell")

    def _kind_level(self, threat: str, kind: Kind, label: str) -> KindLevel:
        judged = self._levels.of_kind(threat, kind, label)
        why = describe(Sentence(), kind, judged, label).say(".").text
        return KindLevel(kind=kind, level=judged.level, why=why, cell=judged.cell[1].id if judged.cell else None)

    def _malicious_server(self) -> Verdict:
        crafted, guard = (next(self._done(kind), None) for kind in ("crafted-model", "guard"))
        said, stop = Sentence(), None
        level: Level = "not tested"
        if crafted is None:
            left = next((cell for cell in self.cells if cell.kind == "crafted-model"), None)
            why = (left.reason if left else None) or "the plan has no such cell"
            said.say(f"Not tested: {KINDS['crafted-model'].lower()}: {why.rstrip('.')}")
        else:
            level = self._taken(said, crafted)
        if crafted is not None and guard is not None:
            there, looked = guard
            said.say(". With the guard ").number(there, "refused", how=".0f").say(" of ")
            said.number(there, "clients", how=".0f").say(" clients refuse the model, and it takes ")
            said.number(there, "recovered", how=".0f")
            refused, got = looked.scores["refused"].value, looked.scores["recovered"].value
            stop = GUARD if level == "leaks" and refused and not got else None
        text = said.say(".").text
        # The clients' guard stands beside any setting.
        everywhere: Level = "holds" if stop else level
        tried = next((cell.id for cell in self.cells if cell.kind == "crafted-model"), None)
        kind = KindLevel(kind="crafted-model", level=everywhere, why=text, cell=tried)
        levels = tuple(
            SettingLevel(defence=label, level=everywhere, why=text, kinds=(kind,)) for label in self.plan.labels
        )
        return Verdict(threat=_CRAFTED, level=level, text=text, stopped_by=stop, levels=levels)

    def _taken(self, said: Sentence, crafted: Placed) -> Level:
        place, cell = crafted
        said.say("A malicious server takes ").number(place, "recovered", how=".0f").say(" of ")
        said.number(place, "images", how=".0f").say(f" images of {cell.settings['client']} out of the secure sum of ")
        said.say("one round")
        if cell.scores["recovered"].value:
            return "leaks"
        steps = cell.settings.get("steps")
        if isinstance(steps, int) and steps > 1:
            said.say(
                f" (it trains in {steps} steps, whose differences the secure sum rounds away; a hospital that trains "
                "in one step is not hidden by that)"
            )
        said.say(". That this model failed does not show that another would")
        return "unclear"

    # --- what the findings are asked ---------------------------------------------------------------------------

    @cached_property
    def _levels(self) -> Levels:
        return Levels(self.cells)

    def _level(self, threat: str, label: str) -> Level:
        return self._levels.of(threat, label).level

    def _holds(self, threat: str, label: str) -> bool:
        return self._level(threat, label) == "holds"

    def _done(self, kind: Kind, label: str | None = None) -> Iterator[Placed]:
        for place, cell in enumerate(self.cells):
            if cell.kind == kind and cell.status == "done" and label in (None, cell.defence):
                yield place, cell

    def _cheapest(self, threat: str) -> str | None:
        """The setting that stops it at the best accuracy."""
        return max(
            (label for label in self.plan.labels if self._holds(threat, label)), key=self._accuracy, default=None
        )

    def _accuracy(self, label: str) -> float:
        found = (cell.scores.get("accuracy", Score(value=None)).value for _, cell in self._done("federation", label))
        return next(found, None) or 0.0

    def _price(self, said: Sentence, label: str) -> None:
        before, after = (next(self._done("federation", each), None) for each in (NO_DEFENCE, label))
        if before and after and "accuracy" in before[1].scores and "accuracy" in after[1].scores:
            said.say("; accuracy ").number(before[0], "accuracy")
            if label != NO_DEFENCE:
                said.say(" → ").number(after[0], "accuracy")

    def _counted(self, label: str) -> bool:
        return any("epsilon" in cell.scores for _, cell in self._done("federation", label))
