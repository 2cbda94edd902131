"""What the guard says of a model: yes or no, with reasons that a privacy officer can read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["refuse", "note"]


@dataclass(frozen=True)
class Reason:
    """One finding of one check."""

    check: str
    layer: str
    """The layer's name in the state dict; empty where the whole model is meant."""
    severity: Severity
    sentence: str
    """In plain words, with what follows from it."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """What was measured."""

    def plain(self) -> dict[str, Any]:
        return {
            "check": self.check,
            "layer": self.layer,
            "severity": self.severity,
            "sentence": self.sentence,
            "numbers": dict(self.numbers),
        }


@dataclass(frozen=True)
class Verdict:
    """Refused if any reason says so."""

    digest: str
    """SHA-256 of every array: clients that compare it know whether all were sent the same model.

    Empty where the model holds something else than arrays of plain numbers; it is not accepted then.
    """
    reasons: tuple[Reason, ...]
    seconds: float
    ran: bool
    """Whether a batch went through the network and its gradient came back; without, what it does was not judged."""
    measured: Mapping[str, float] = field(default_factory=dict)
    """What was measured of the model, without any image: what `History` keeps from round to round."""

    @property
    def refused(self) -> bool:
        return any(reason.severity == "refuse" for reason in self.reasons)

    @property
    def accepted(self) -> bool:
        """It ran, and nothing speaks against it. A model that could not be run is neither refused nor accepted."""
        return self.ran and not self.refused

    @property
    def summary(self) -> str:
        """One line: the verdict and the sentences that led to it."""
        if self.refused:
            return "refused: " + " ".join(r.sentence for r in self.reasons if r.severity == "refuse")
        if not self.ran:
            why = " ".join(r.sentence for r in self.reasons if r.check == "not judged")
            return f"not judged: its weights show nothing, but it could not be run. {why}".strip()
        return "accepted: nothing in this model looks crafted."

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "refused": self.refused,
            "accepted": self.accepted,
            "digest": self.digest,
            "seconds": self.seconds,
            "ran": self.ran,
            "measured": dict(self.measured),
            "reasons": [reason.plain() for reason in self.reasons],
        }
