"""What leaks at one setting: how far each attacker came, and how the attackers were chosen."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from fluoroscope.errors import BadInput
from fluoroscope.scores.intervals import Interval

SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Leak:
    """What one attack reached, over all victims."""

    attack: str
    leak: Interval
    """RDLV beyond the null."""
    p_value: float
    rdlv: Interval
    ssim: Interval
    told_apart: Interval
    """Of all victims; at chance `chance`."""
    chance: float
    line_up: Interval
    """In line-ups of four; at chance `line_up_chance`."""
    line_up_chance: float
    gave_up: int
    """Victims of whom it says itself that it has nothing."""
    victims: int

    @property
    def leaks(self) -> bool:
        """Above its null (95 %)."""
        return self.leak.low > 0 and self.p_value <= SIGNIFICANT


@dataclass(frozen=True)
class Measured:
    """One setting under all attackers that were played."""

    played: tuple[Leak, ...]
    """The attackers that the rehearsal at this setting chose, and the best one without the defence."""
    rehearsed: Mapping[str, str]
    """Of every attack what the rehearsal said, in words."""

    @property
    def tested(self) -> bool:
        """Whether any attack had something to say."""
        return any(each.gave_up < each.victims for each in self.played)

    @property
    def worst(self) -> Leak | None:
        """Of the attack that came furthest."""
        return max(self.played, key=lambda each: _or_least(each.leak.high), default=None)

    @property
    def leaks(self) -> bool:
        return any(each.leaks for each in self.played)

    def plain(self) -> dict[str, Any]:
        """As data; `from_plain` reads it."""
        return {"played": [asdict(each) for each in self.played], "rehearsed": dict(self.rehearsed)}


def from_plain(content: Any) -> Measured:  # noqa: ANN401  # JSON is any of its own types
    """What `plain` wrote; a number that JSON could not hold is NaN again.

    Raises:
        BadInput: it is something else.
    """
    try:
        return Measured(
            tuple(
                Leak(**{field.name: _read(each[field.name]) for field in fields(Leak)}) for each in content["played"]
            ),
            {str(name): str(said) for name, said in content["rehearsed"].items()},
        )
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as problem:
        raise BadInput(f"this is no measurement of a setting ({problem!r}).") from problem


def _read(value: Any) -> Any:  # noqa: ANN401  # a number, a name or an interval
    if isinstance(value, dict):
        mean, low, high = (math.nan if value[end] is None else float(value[end]) for end in ("mean", "low", "high"))
        return Interval(mean, low, high, int(value["n"]))
    return math.nan if value is None else value


def _or_least(value: float) -> float:
    return -math.inf if math.isnan(value) else value
