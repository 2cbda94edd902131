"""The least strength that is safe, by bisection: every question is an attack, so few are asked."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from fluoroscope.errors import Misconfigured


@dataclass(frozen=True)
class Knob:
    """The setting of a defence that is searched: from weak to strong, on a logarithmic scale."""

    setting: str
    weak: float
    strong: float
    whole: bool = False
    """Only whole numbers, of which each is a doubling: bits."""
    a_share: bool = False
    """Of all there is, which is `strong`: what counts is what is left."""

    def at(self, x: float) -> float:
        """The value at x from 0, weak, to 1, strong."""
        value: float = self.weak * (self.strong / self.weak) ** x
        return float(round(value)) if self.whole else value

    def place(self, value: float) -> float:
        return math.log(value / self.weak) / math.log(self.strong / self.weak)

    def firmer(self, value: float, times: float) -> float:
        """The setting so many times as strong, or the strongest there is."""
        if self.a_share:
            return self.strong - (self.strong - value) / times
        up = self.strong > self.weak
        if self.whole:
            steps = math.ceil(math.log2(times))
            found = value + (steps if up else -steps)
        else:
            found = value * times if up else value / times
        return min(found, self.strong) if up else max(found, self.strong)


@dataclass(frozen=True)
class Search:
    """How a search ended."""

    least: float | None
    """The weakest value found safe; None where not even the strongest is."""
    tried: tuple[tuple[float, bool], ...]
    """Every value that was asked, and whether it was safe."""


def weakest_safe(knob: Knob, safe: Callable[[float], bool], precision: float = 0.1) -> Search:
    """To within `precision`: the value below the one found, by that share, was seen or is known to be unsafe.

    Assumes that what is stronger than a safe value is safe.
    """
    _check(precision)
    tried: list[tuple[float, bool]] = []

    def ask(value: float) -> bool:
        tried.append((value, safe(value)))
        return tried[-1][1]

    if not ask(knob.strong):
        return Search(None, tuple(tried))
    if ask(knob.weak):
        return Search(knob.weak, tuple(tried))
    low, high = 0.0, 1.0  # unsafe, safe
    while not _near(knob.at(low), knob.at(high), precision, knob.whole):
        middle = (low + high) / 2
        value = knob.at(middle)
        if knob.whole and value in (knob.at(low), knob.at(high)):  # rounded onto an end: the next whole number
            value = knob.at(low) + (1 if knob.strong > knob.weak else -1)
            middle = knob.place(value)
        low, high = (low, middle) if ask(value) else (middle, high)
    return Search(knob.at(high), tuple(tried))


def questions(knob: Knob, precision: float) -> int:
    """How many values a search asks at most, but for a knob of whole numbers: its ends, then halves."""
    _check(precision)
    steps = math.log(max(knob.strong, knob.weak) / min(knob.strong, knob.weak)) / math.log(1 + precision)
    return 2 + math.ceil(math.log2(max(steps, 1)))


def _check(precision: float) -> None:
    if not 0 < precision < 1:
        raise Misconfigured(f"precision must lie between 0 and 1, not {precision:g}.")


def _near(a: float, b: float, precision: float, whole: bool) -> bool:
    return abs(a - b) <= 1 if whole else max(a, b) / min(a, b) <= 1 + precision
