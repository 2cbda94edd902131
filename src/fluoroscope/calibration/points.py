"""How a calibration measures, and what it found: settings with what leaks at them and what they cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fluoroscope.calibration.attackers import Attackers
from fluoroscope.calibration.candidates import Candidate
from fluoroscope.calibration.measured import Leak, Measured
from fluoroscope.calibration.target import Target

Parts = tuple[tuple[str, Mapping[str, Any]], ...]
"""Defences by name with their settings, in the order in which an update meets them."""


@dataclass(frozen=True)
class Settings:
    """How calibration measures."""

    target: Target
    attackers: Attackers
    client: str | None = None
    victims: int = 48
    """Simulated clients at each setting."""
    draws: int | None = None
    """Defended updates of the real client in their place: the choice then looks at private updates."""
    public: str | None = None
    """The attackers' images, and the simulated clients'; None takes the plan's auxiliary ones."""
    precision: float = 0.5
    seed: int = 0
    margin: float = 2.0
    """How many times as strong as the weakest setting that nobody read: for who has more public images, or rounds."""


@dataclass(frozen=True)
class Point:
    """One setting of one candidate: what leaks, and, where a federation was trained with it, what it costs."""

    defence: str
    parts: tuple[tuple[str, Mapping[str, Any]], ...]
    found: Measured
    safe: bool
    why_not: str
    """Of a setting that is not safe; else empty."""
    accuracy: float | None = None
    epsilon: float | None = None

    def plain(self) -> dict[str, Any]:
        """As data."""
        worst = self.found.worst
        numbers = {} if worst is None else _numbers(worst)
        return {
            "defence": self.defence,
            **{key: value for _, settings in self.parts for key, value in settings.items()},
            **numbers,
            "safe": self.safe,
            "why_not": self.why_not or None,
            "test_accuracy": self.accuracy,
            "epsilon": self.epsilon,
        }


@dataclass(frozen=True)
class Calibrated:
    """A search that is over."""

    candidate: Candidate
    least: float | None
    """With its margin. None where the strongest setting does not meet the target, or where there is no strength."""
    tried: tuple[Point, ...]
    """In the order in which they were asked."""
    trained: tuple[Point, ...] = ()
    """Those that a federation was trained with: the edge without a margin, then what was chosen, last."""
    confirmed: Point | None = None
    """The setting that the search ended with, under all attackers that apply."""
    unread: float | None = None
    """The weakest setting that no attacker read, before the margin."""

    @property
    def setting(self) -> str | None:
        return None if self.candidate.knob is None else self.candidate.knob.setting

    @property
    def chosen(self) -> Point | None:
        """The weakest setting that is safe, and that no other attacker reads."""
        safe = [point for point in self.trained if point.safe]
        return safe[-1] if safe and (self.confirmed is None or self.confirmed.safe) else None


def front(points: Sequence[Point]) -> list[Point]:
    """Those that no other beats: in the upper bound of the leak, in accuracy and in epsilon."""

    def costs(point: Point) -> tuple[float, float, float]:
        accuracy = -1.0 if point.accuracy is None else point.accuracy
        worst = point.found.worst
        high = float("inf") if worst is None else worst.leak.high
        return high, -accuracy, float("inf") if point.epsilon is None else point.epsilon

    def beaten(point: Point) -> bool:
        mine = costs(point)
        return any(
            all(a <= b for a, b in zip(costs(other), mine, strict=True)) and costs(other) != mine for other in points
        )

    return [point for point in points if not beaten(point)]


def _numbers(worst: Leak) -> dict[str, Any]:
    return {
        "leak": worst.leak.mean,
        "leak_low": worst.leak.low,
        "leak_high": worst.leak.high,
        "p_value": worst.p_value,
        "told_apart": worst.told_apart.mean,
        "chance": worst.chance,
        "line_up": worst.line_up.mean,
        "line_up_high": worst.line_up.high,
        "rdlv": worst.rdlv.mean,
        "rdlv_low": worst.rdlv.low,
        "rdlv_high": worst.rdlv.high,
        "ssim": worst.ssim.mean,
        "by": worst.attack,
    }
