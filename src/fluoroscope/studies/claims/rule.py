"""The rules that decide about a claim: comparisons of numbers that may have intervals."""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from fluoroscope.errors import BadInput

Verdict = Literal["agrees", "differs", "unclear"]
_COMPARES = re.compile(r"^(\w+) (>=|<=|>|<) (?:([\d.]+) \* )?([\w.-]+)$")
_NEAR = re.compile(r"^(\w+) within ([\d.]+) of ([\w.-]+)$")
_HOLDS: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}


@dataclass(frozen=True)
class Measured:
    """A number, with its 95 % interval where there is one."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def ends(self) -> tuple[float, float]:
        return (self.value if self.low is None else self.low, self.value if self.high is None else self.high)

    def times(self, factor: float) -> "Measured":
        """So many times this, the interval with it; factors are above 0."""
        low, high = (None if end is None else factor * end for end in (self.low, self.high))
        return Measured(factor * self.value, low, high)


@dataclass(frozen=True)
class Rule:
    """`a > b`, `a <= 0.5`, `a > 2 * b`, or `a within 0.1 of b`.

    Example:
        >>> Rule.parse("a > 2 * b").verdict({"a": Measured(5.0), "b": Measured(2.0)})
        'agrees'
        >>> Rule.parse("a > b").verdict({"a": Measured(5.0, 1.0, 9.0), "b": Measured(2.0)})
        'unclear'
    """

    left: str
    how: str
    right: str
    factor: float = 1.0
    within: float = 0.0

    @classmethod
    def parse(cls, text: str) -> "Rule":
        """The rule that the text says.

        Raises:
            BadInput: it says none.
        """
        if found := _COMPARES.match(text):
            left, how, factor, right = found.groups()
            return cls(left, how, right, float(factor or 1))
        if found := _NEAR.match(text):
            left, within, right = found.groups()
            return cls(left, "within", right, within=float(within))
        raise BadInput(f"{text!r} is no rule; write `a > b`, `a <= 0.5`, `a > 2 * b` or `a within 0.1 of b`.")

    @property
    def names(self) -> set[str]:
        """The values that it asks for."""
        return {self.left} | ({self.right} if _number(self.right) is None else set())

    def verdict(self, values: Mapping[str, Measured]) -> Verdict:
        """Whether it holds; unclear where the intervals allow the opposite too."""
        left = values[self.left]
        number = _number(self.right)
        right = (Measured(number) if number is not None else values[self.right]).times(self.factor)
        if self.how == "within":
            return self._near(left, right)
        holds = _HOLDS[self.how]
        (low, high), (right_low, right_high) = left.ends, right.ends
        ways = {holds(low, right_high), holds(high, right_low)}
        if len(ways) > 1:
            return "unclear"
        return "agrees" if ways.pop() else "differs"

    def _near(self, left: Measured, right: Measured) -> Verdict:
        if abs(left.value - right.value) <= self.within:
            return "agrees"
        (low, high), (right_low, right_high) = left.ends, right.ends
        nearest = max(0.0, low - right_high, right_low - high)
        return "unclear" if nearest <= self.within else "differs"


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
