"""What the meter says of one update: a reading per kind of leak, or why there is none."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fluoroscope.errors import FluoroscopeError, Unsupported

Leak = Literal["reconstruction", "label-counts"]
LEAKS: tuple[Leak, ...] = ("reconstruction", "label-counts")


@dataclass(frozen=True)
class Reading:
    """One kind of leak of one update, as a curious (honest-but-curious) server could read it."""

    leak: Leak
    value: float | None
    """Its size beyond what chance gives; 0 where it is not told from chance, None where nothing could be judged."""
    sentence: str
    """What was read, or why nothing could be, in plain words: no image, no name, no path."""
    attack: str = ""
    """The attack behind it."""
    p_value: float | None = None
    """How often chance does as well."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """What was measured beside it."""

    @property
    def judged(self) -> bool:
        return self.value is not None

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "leak": self.leak,
            "value": self.value,
            "judged": self.judged,
            "sentence": self.sentence,
            "attack": self.attack or None,
            "p_value": self.p_value,
            "numbers": dict(self.numbers),
        }


@dataclass(frozen=True)
class Metered:
    """All readings of one update."""

    readings: tuple[Reading, ...]
    left_out: tuple[str, ...] = ()
    """What was not tried, and why: attacks that do not apply, or for which there was no time."""
    seconds: float = 0.0

    @property
    def in_words(self) -> str:
        """What was read, what was left out and how long it took, in one line for the site's own log."""
        read = " ".join(f"{reading.leak}: {reading.sentence}" for reading in self.readings)
        left_out = f" Left out: {'; '.join(_by_reason(self.left_out))}." if self.left_out else ""
        return f"measured in {self.seconds:.1f} s. {read}{left_out}"

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "readings": [reading.plain() for reading in self.readings],
            "left_out": list(self.left_out),
            "seconds": self.seconds,
        }


def _by_reason(left_out: tuple[str, ...]) -> list[str]:
    """The same with a reason once, however many attacks were left out for it."""
    named: dict[str, list[str]] = {}
    for line in left_out:
        attack, _, why = line.partition(": ")
        named.setdefault(why, []).append(attack)
    return [f"{', '.join(attacks)}: {why}" if why else ", ".join(attacks) for why, attacks in named.items()]


def not_judged(why: str) -> Metered:
    """No leak could be judged, for one reason."""
    return Metered(tuple(Reading(leak, None, why) for leak in LEAKS))


def left_out_for(attack: str, why: str | FluoroscopeError) -> str:
    """One line of `Metered.left_out`, without an error's advice on what to choose: a site chooses no attack."""
    said = (why.why if isinstance(why, Unsupported) else str(why)).removeprefix(attack).strip().rstrip(".")
    return f"{attack}: does not apply: {said}" if isinstance(why, Unsupported) else f"{attack}: {said}"
