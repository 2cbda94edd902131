"""What the findings say, in sentences whose numbers point to findings."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fluoroscope.audit.plan import AuditPlan
from fluoroscope.findings import GUARD, NO_DEFENCE
from fluoroscope.findings.pointer import pointer

Finding = dict[str, Any]
Text = dict[str, Any]
_KINDS = {"curious-server": "reconstruction", "curious-client": "client-inference"}
"""What a setting can stop; the malicious server is the guard's."""
_SIGNIFICANT = 0.05
_LIMITS = {"reconstruction": ("rdlv", 0.0), "client-inference": ("auc", 0.5)}


class _Sentence:
    """Words and numbers, in turn."""

    def __init__(self) -> None:
        self._words: list[str] = []
        self._numbers: list[dict[str, str]] = []

    def say(self, words: str) -> "_Sentence":
        self._words.append(words.replace("{", "{{").replace("}", "}}"))
        return self

    def number(self, place: int, metric: str, end: str = "value", how: str = ".2f") -> "_Sentence":
        self._words.append(f"{{{len(self._numbers)}}}")
        self._numbers.append({"pointer": pointer("cells", place, "scores", metric, end), "format": how})
        return self

    def interval(self, place: int, cell: Finding, metric: str) -> "_Sentence":
        """A score and how sure it is; one value alone has no interval, and says so."""
        self.number(place, metric)
        if cell["scores"][metric]["low"] is None:
            return self.say(" (one value: no interval)")
        self.say(" (95 % interval ").number(place, metric, "low").say(" to ")
        return self.number(place, metric, "high").say(")")

    @property
    def text(self) -> Text:
        return {"text": "".join(self._words), "numbers": self._numbers}


@dataclass(frozen=True)
class Verdicts:
    """One for each threat, and what follows from them together."""

    plan: AuditPlan
    cells: Sequence[Finding]

    def all(self) -> list[dict[str, Any]]:
        made = {
            "curious-server": self._curious_server,
            "malicious-server": self._malicious_server,
            "curious-client": self._curious_client,
        }
        return [{"threat": threat, **made[threat]()} for threat in self.plan.audit.threats]

    def recommendation(self) -> dict[str, Any]:
        """The setting that stops whatever leaks, at the least cost."""
        verdicts = {each["threat"]: each for each in self.all()}
        leaking = [threat for threat, verdict in verdicts.items() if verdict["level"] == "leaks"]
        if not leaking:
            return {"defence": None, "text": _nothing_leaks([verdict["level"] for verdict in verdicts.values()])}
        kinds = [_KINDS[threat] for threat in leaking if threat in _KINDS]
        labels = [label for label in self.plan.labels if all(self._stops(kind, label) for kind in kinds)]
        guarded = "malicious-server" in leaking and verdicts["malicious-server"]["stopped_by"]
        if not labels or ("malicious-server" in leaking and not guarded):
            words = (
                "No setting that was tried stops everything that leaks. Try stronger ones: `fluoroscope calibrate` "
                "finds how much noise is needed."
            )
            return {"defence": None, "text": _Sentence().say(words).text}
        best = max(labels, key=self._accuracy)
        said = _Sentence()
        if best != NO_DEFENCE:
            said.say(f"Use “{best}”")
        if guarded:
            said.say("Let" if best == NO_DEFENCE else ", and let")
            said.say(" every client inspect a model before training it (the guard)")
        self._price(said, best)
        return {"defence": best, "text": said.say(".").text}

    def safe_to_say(self) -> list[Text]:
        found = []
        for place, cell in self._done("federation"):
            if "epsilon" in cell["scores"]:
                said = _Sentence().say(f"With “{cell['defence']}” no client's epsilon exceeds ")
                found.append(said.number(place, "epsilon", how=".3g").say(" after all rounds.").text)
        for threat, stop in ((each["threat"], each["stopped_by"]) for each in self.all()):
            if stop:
                found.append(
                    _Sentence()
                    .say(f"In this audit “{stop}” stopped the attacks of the {threat.replace('-', ' ')}.")
                    .text
                )
        return found

    def not_safe_to_say(self) -> list[Text]:
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
        return [_Sentence().say(each).text for each in words]

    # --- threat by threat ------------------------------------------------------------------------------------

    def _curious_server(self) -> dict[str, Any]:
        worst = self._worst("reconstruction", NO_DEFENCE, "rdlv")
        if worst is None:
            return _not_tested("reconstruction", self._why_not("reconstruction"))
        place, cell = worst
        said = _Sentence().say("A curious server recovers recognisable images from ")
        said.say(f"{cell['settings']['client']}: ").number(place, "recognised", how=".0f").say(" of ")
        said.number(place, "images", how=".0f").say("; RDLV ").interval(place, cell, "rdlv")
        leaks = _end(cell, "rdlv", "low") > 0
        holds = _end(cell, "rdlv", "high") <= 0
        stop = self._cheapest("reconstruction") if leaks else None
        if stop:
            there, found = self._worst("reconstruction", stop, "rdlv") or (place, cell)
            said.say(f". With “{stop}”: ").number(there, "recognised", how=".0f").say(", RDLV ")
            said.interval(there, found, "rdlv")
            self._price(said, stop)
        elif leaks and len(self.plan.labels) > 1:
            said.say(". No setting that was tried stops it")
        return {"level": _level(leaks, holds), "text": said.say(".").text, "stopped_by": stop}

    def _malicious_server(self) -> dict[str, Any]:
        crafted = next(iter(self._done("crafted-model")), None)
        if crafted is None:
            return _not_tested("crafted-model", self._why_not("crafted-model"))
        place, cell = crafted
        said = _Sentence().say("A malicious server takes ").number(place, "recovered", how=".0f").say(" of ")
        said.number(place, "images", how=".0f").say(
            f" images of {cell['settings']['client']} out of the secure sum of "
        )
        said.say("one round; rate ").interval(place, cell, "rate")
        leaks = (cell["scores"]["recovered"]["value"] or 0) > 0
        steps = cell["settings"].get("steps", 1)
        if not leaks and steps > 1:
            said.say(
                f" (it trains in {steps} steps, whose differences the secure sum rounds away; a hospital that trains "
            )
            said.say("in one step is not hidden by that)")
        guard = next(iter(self._done("guard")), None)
        stop = None
        if guard is not None:
            there, looked = guard
            said.say(". With the guard ").number(there, "refused", how=".0f").say(" of ")
            said.number(there, "clients", how=".0f").say(" clients refuse the model, and it takes ")
            said.number(there, "recovered", how=".0f")
            refused, got = looked["scores"]["refused"]["value"], looked["scores"]["recovered"]["value"]
            stop = GUARD if leaks and refused and not got else None
        return {"level": "leaks" if leaks else "holds", "text": said.say(".").text, "stopped_by": stop}

    def _curious_client(self) -> dict[str, Any]:
        worst = self._worst("client-inference", NO_DEFENCE, "auc")
        if worst is None:
            return _not_tested("client-inference", self._why_not("client-inference"))
        place, cell = worst
        said = _Sentence().say(f"A curious hospital tells whether {cell['settings']['client']} takes part: AUC ")
        said.interval(place, cell, "auc").say(" over ").number(place, "auc", "n", ".0f").say(
            " federations, 0.5 being chance"
        )
        leaks = _end(cell, "auc", "low") > 0.5
        stop = self._cheapest("client-inference") if leaks else None
        if stop:
            there, found = self._worst("client-inference", stop, "auc") or (place, cell)
            said.say(f". With “{stop}” it cannot be told from chance: AUC ").interval(there, found, "auc")
            self._price(said, stop)
        elif leaks and len(self.plan.labels) > 1:
            said.say(". No setting that was tried stops it")
        elif not leaks:
            said.say(": it cannot be told from chance")
        return {"level": _level(leaks, False), "text": said.say(".").text, "stopped_by": stop}

    # --- what the findings are asked ---------------------------------------------------------------------------

    def _done(self, kind: str, label: str | None = None) -> Iterator[tuple[int, Finding]]:
        for place, cell in enumerate(self.cells):
            if cell["kind"] == kind and cell["status"] == "done" and label in (None, cell["defence"]):
                yield place, cell

    def _worst(self, kind: str, label: str, metric: str) -> tuple[int, Finding] | None:
        """The leakiest of a setting's cells; none where one of them is missing: what was not tried is not known."""
        asked = [cell for cell in self.cells if cell["kind"] == kind and cell["defence"] == label]
        found = list(self._done(kind, label))
        if not found or (label != NO_DEFENCE and len(found) < len(asked)):
            return None
        return max(found, key=lambda each: _end(each[1], metric, "value"))

    def _stops(self, kind: str, label: str) -> bool:
        metric, limit = _LIMITS[kind]
        worst = self._worst(kind, label, metric)
        # A leak is excluded where even the interval's upper end shows none; a game is lost where chance is within it.
        end = "high" if kind == "reconstruction" else "low"
        if worst is None or _end(worst[1], metric, end) > limit:
            return False
        chance = (worst[1]["scores"].get("p_value") or {}).get("value")
        return chance is None or chance > _SIGNIFICANT

    def _cheapest(self, kind: str) -> str | None:
        """The setting that stops it at the best accuracy."""
        found = [label for label in self.plan.labels if label != NO_DEFENCE and self._stops(kind, label)]
        return max(found, key=self._accuracy, default=None)

    def _accuracy(self, label: str) -> float:
        found = [_end(cell, "accuracy", "value") for _, cell in self._done("federation", label)]
        return found[0] if found else 0.0

    def _price(self, said: _Sentence, label: str) -> None:
        before, after = (next(iter(self._done("federation", each)), None) for each in (NO_DEFENCE, label))
        if before and after and "accuracy" in before[1]["scores"] and "accuracy" in after[1]["scores"]:
            if label == NO_DEFENCE:
                said.say("; accuracy ").number(before[0], "accuracy")
            else:
                said.say("; accuracy ").number(before[0], "accuracy").say(" → ").number(after[0], "accuracy")

    def _counted(self, label: str) -> bool:
        return any("epsilon" in cell["scores"] for _, cell in self._done("federation", label))

    def _why_not(self, kind: str) -> str:
        reasons = [cell["reason"] for cell in self.cells if cell["kind"] == kind and cell["defence"] == NO_DEFENCE]
        return next((reason for reason in reasons if reason), "the plan has no such cell")


def _end(cell: Finding, metric: str, end: str) -> float:
    """Of a score. A value without an interval may be anything: it shows neither a leak nor that there is none."""
    value = (cell["scores"].get(metric) or {}).get(end)
    return {"low": -math.inf, "high": math.inf}.get(end, math.nan) if value is None else float(value)


def _nothing_leaks(levels: list[str]) -> Text:
    if set(levels) == {"holds"}:
        return _Sentence().say("No attack that was tried succeeded, so none of the defences was needed.").text
    return _Sentence().say("Nothing leaked beyond doubt, and not everything is shown to hold: see the verdicts.").text


def _level(leaks: bool, holds: bool) -> str:
    return "leaks" if leaks else "holds" if holds else "unclear"


def _not_tested(kind: str, why: str) -> dict[str, Any]:
    words = f"Not tested ({kind}): {why.rstrip('.')}."
    return {"level": "not tested", "text": _Sentence().say(words).text, "stopped_by": None}
