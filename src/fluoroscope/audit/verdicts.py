"""What the findings say, in sentences whose numbers point to findings."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fluoroscope.audit.plan import AuditPlan
from fluoroscope.audit.sentence import Sentence
from fluoroscope.findings import GUARD, NO_DEFENCE, Cell, Kind, Level, Recommendation, Score, Text, Verdict
from fluoroscope.findings.metrics import metric_of

Placed = tuple[int, Cell]
"""A cell with its position in the findings."""
_KINDS: dict[str, Kind] = {"curious-server": "reconstruction", "curious-client": "client-inference"}
"""What a setting can stop; the malicious server is the guard's."""
_SIGNIFICANT = 0.05
_LIMITS: dict[Kind, tuple[str, float]] = {"reconstruction": ("rdlv", 0.0), "client-inference": ("auc", 0.5)}
"""The score that says whether an attack of this kind gained something, and what it is where nothing is gained."""


@dataclass(frozen=True)
class Verdicts:
    """One for each threat, and what follows from them together."""

    plan: AuditPlan
    cells: Sequence[Cell]

    def all(self) -> tuple[Verdict, ...]:
        """In the order of the plan's threats."""
        made = {
            "curious-server": self._curious_server,
            "malicious-server": self._malicious_server,
            "curious-client": self._curious_client,
        }
        return tuple(made[threat]() for threat in self.plan.audit.threats)

    def recommendation(self) -> Recommendation:
        """The setting that stops whatever leaks, at the least cost."""
        verdicts = {each.threat: each for each in self.all()}
        leaking = [threat for threat, verdict in verdicts.items() if verdict.level == "leaks"]
        if not leaking:
            return Recommendation(defence=None, text=_nothing_leaks({verdict.level for verdict in verdicts.values()}))
        kinds = [_KINDS[threat] for threat in leaking if threat in _KINDS]
        labels = [label for label in self.plan.labels if all(self._stops(kind, label) for kind in kinds)]
        guarded = "malicious-server" in leaking and verdicts["malicious-server"].stopped_by
        if not labels or ("malicious-server" in leaking and not guarded):
            words = (
                "No setting that was tried stops everything that leaks. Try stronger ones: `fluoroscope calibrate` "
                "finds how much noise is needed."
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
        found = []
        for place, cell in self._done("federation"):
            if "epsilon" in cell.scores:
                said = Sentence().say(f"With “{cell.defence}” no client's epsilon exceeds ")
                found.append(said.number(place, "epsilon", how=".3g").say(" after all rounds.").text)
        for verdict in self.all():
            if verdict.stopped_by:
                who = verdict.threat.replace("-", " ")
                words = f"In this audit “{verdict.stopped_by}” stopped the attacks of the {who}."
                found.append(Sentence().say(words).text)
        return tuple(found)

    def not_safe_to_say(self) -> tuple[Text, ...]:
        """What they do not, however often one hears it."""
        words = [
            "That other attacks would fail too: an audit finds what leaks by the attacks that it has, and bounds none "
            "that it has not.",
            "That other hospitals, other images or more rounds leak as little: the numbers are of this plan.",
        ]
        noisy = [label for label, parts in self.plan.labels.items() if parts and not self._counted(label)]
        if noisy:
            named = ", ".join(f"“{label}”" for label in noisy)
            words.append(f"That {named} would be differential privacy: no epsilon is counted.")
        if self.plan.task.images.synthetic:
            words.append("That patients' images would leak alike: these are phantoms.")
        return tuple(Sentence().say(each).text for each in words)

    # --- threat by threat ------------------------------------------------------------------------------------

    def _curious_server(self) -> Verdict:
        worst = self._worst("reconstruction", NO_DEFENCE)
        if worst is None:
            return self._not_tested("curious-server", "reconstruction")
        place, cell = worst
        said = Sentence().say("A curious server recovers recognisable images from ")
        said.say(f"{cell.settings['client']}: ").number(place, "recognised", how=".0f").say(" of ")
        said.number(place, "images", how=".0f").say("; RDLV ").interval(place, cell, "rdlv")
        leaks, holds = _leaks(cell), not _may_leak(cell)
        stop = self._cheapest("reconstruction") if leaks else None
        if stop:
            there, found = self._worst("reconstruction", stop) or (place, cell)
            said.say(f". With “{stop}”: ").number(there, "recognised", how=".0f").say(", RDLV ")
            said.interval(there, found, "rdlv")
            self._price(said, stop)
        elif leaks and len(self.plan.labels) > 1:
            said.say(". No setting that was tried stops it")
        return _verdict("curious-server", _level(leaks, holds), said, stop)

    def _malicious_server(self) -> Verdict:
        crafted = next(self._done("crafted-model"), None)
        if crafted is None:
            return self._not_tested("malicious-server", "crafted-model")
        place, cell = crafted
        said = Sentence().say("A malicious server takes ").number(place, "recovered", how=".0f").say(" of ")
        said.number(place, "images", how=".0f").say(f" images of {cell.settings['client']} out of the secure sum of ")
        said.say("one round; rate ").interval(place, cell, "rate")
        leaks = (cell.scores["recovered"].value or 0) > 0
        steps = cell.settings.get("steps")
        if not leaks and isinstance(steps, int) and steps > 1:
            said.say(
                f" (it trains in {steps} steps, whose differences the secure sum rounds away; a hospital that trains "
            )
            said.say("in one step is not hidden by that)")
        guard = next(self._done("guard"), None)
        stop = None
        if guard is not None:
            there, looked = guard
            said.say(". With the guard ").number(there, "refused", how=".0f").say(" of ")
            said.number(there, "clients", how=".0f").say(" clients refuse the model, and it takes ")
            said.number(there, "recovered", how=".0f")
            refused, got = looked.scores["refused"].value, looked.scores["recovered"].value
            stop = GUARD if leaks and refused and not got else None
        return _verdict("malicious-server", "leaks" if leaks else "holds", said, stop)

    def _curious_client(self) -> Verdict:
        worst = self._worst("client-inference", NO_DEFENCE)
        if worst is None:
            return self._not_tested("curious-client", "client-inference")
        place, cell = worst
        said = Sentence().say(f"A curious hospital tells whether {cell.settings['client']} takes part: AUC ")
        said.interval(place, cell, "auc").say(" over ").number(place, "auc", "n", ".0f").say(
            " federations, 0.5 being chance"
        )
        leaks = _leaks(cell)
        stop = self._cheapest("client-inference") if leaks else None
        if stop:
            there, found = self._worst("client-inference", stop) or (place, cell)
            said.say(f". With “{stop}” it cannot be told from chance: AUC ").interval(there, found, "auc")
            self._price(said, stop)
        elif leaks and len(self.plan.labels) > 1:
            said.say(". No setting that was tried stops it")
        elif not leaks:
            said.say(": it cannot be told from chance")
        return _verdict("curious-client", _level(leaks, False), said, stop)

    # --- what the findings are asked ---------------------------------------------------------------------------

    def _done(self, kind: Kind, label: str | None = None) -> Iterator[Placed]:
        for place, cell in enumerate(self.cells):
            if cell.kind == kind and cell.status == "done" and label in (None, cell.defence):
                yield place, cell

    def _worst(self, kind: Kind, label: str) -> Placed | None:
        """The leakiest of a setting's cells; none where one of them has no value: what was not tried is not known."""
        asked = [cell for cell in self.cells if cell.kind == kind and cell.defence == label]
        found = list(self._done(kind, label))
        known = [cell for _, cell in found if _score(cell, _LIMITS[kind][0]).value is not None]
        if not found or (label != NO_DEFENCE and len(known) < len(asked)):
            return None
        return max(found, key=lambda placed: _leak(placed[1]))

    def _stops(self, kind: Kind, label: str) -> bool:
        worst = self._worst(kind, label)
        if worst is None:
            return False
        # A leak is excluded where even the interval's worse end shows none; a game is lost where chance is within it.
        if (_may_leak if kind == "reconstruction" else _leaks)(worst[1]):
            return False
        chance = _score(worst[1], "p_value").value
        return chance is None or chance > _SIGNIFICANT

    def _cheapest(self, kind: Kind) -> str | None:
        """The setting that stops it at the best accuracy."""
        found = [label for label in self.plan.labels if label != NO_DEFENCE and self._stops(kind, label)]
        return max(found, key=self._accuracy, default=None)

    def _accuracy(self, label: str) -> float:
        return next((_score(cell, "accuracy").value or 0.0 for _, cell in self._done("federation", label)), 0.0)

    def _price(self, said: Sentence, label: str) -> None:
        before, after = (next(self._done("federation", each), None) for each in (NO_DEFENCE, label))
        if before and after and "accuracy" in before[1].scores and "accuracy" in after[1].scores:
            said.say("; accuracy ").number(before[0], "accuracy")
            if label != NO_DEFENCE:
                said.say(" → ").number(after[0], "accuracy")

    def _counted(self, label: str) -> bool:
        return any("epsilon" in cell.scores for _, cell in self._done("federation", label))

    def _not_tested(self, threat: str, kind: Kind) -> Verdict:
        reasons = [cell.reason for cell in self.cells if cell.kind == kind and cell.defence == NO_DEFENCE]
        why = next((reason for reason in reasons if reason), "the plan has no such cell")
        return _verdict(threat, "not tested", Sentence().say(f"Not tested ({kind}): {why.rstrip('.')}"), None)


def _score(cell: Cell, name: str) -> Score:
    return cell.scores.get(name) or Score(value=None)


def _leak(cell: Cell) -> float:
    """Grows with the leak, in the direction that the metric declares."""
    name, _ = _LIMITS[cell.kind]
    score = _score(cell, name)
    return -math.inf if score.value is None else metric_of(cell.kind, name, score).leak(score.value)


def _leaks(cell: Cell) -> bool:
    """Whether even the end of the interval that is better for the patients lies beyond the limit.

    A value without an interval may be anything: it shows neither a leak nor that there is none.
    """
    name, limit = _LIMITS[cell.kind]
    score = _score(cell, name)
    metric = metric_of(cell.kind, name, score)
    end = score.end(metric.better_end)
    return end is not None and metric.leak(end) > metric.leak(limit)


def _may_leak(cell: Cell) -> bool:
    """Whether the worse end lies beyond it, or is not known."""
    name, limit = _LIMITS[cell.kind]
    score = _score(cell, name)
    metric = metric_of(cell.kind, name, score)
    end = score.end(metric.worse_end)
    return end is None or metric.leak(end) > metric.leak(limit)


def _nothing_leaks(levels: set[Level]) -> Text:
    if levels == {"holds"}:
        return Sentence().say("No attack that was tried succeeded, so none of the defences was needed.").text
    return Sentence().say("Nothing leaked beyond doubt, and not everything is shown to hold: see the verdicts.").text


def _level(leaks: bool, holds: bool) -> Level:
    return "leaks" if leaks else "holds" if holds else "unclear"


def _verdict(threat: str, level: Level, said: Sentence, stopped_by: str | None) -> Verdict:
    return Verdict(threat=threat, level=level, text=said.say(".").text, stopped_by=stopped_by)
