"""What counts as safe: the upper ends of an attacker's intervals stay at or below a bound."""

import math
import re
from dataclasses import dataclass
from typing import Literal

from fluoroscope.calibration.measured import SIGNIFICANT, Leak
from fluoroscope.errors import Misconfigured
from fluoroscope.scores.intervals import Interval

Metric = Literal["holds", "leak", "told-apart", "rdlv", "ssim"]
SMALL_LEAK = 0.02
TIMES_CHANCE = 2.0


@dataclass(frozen=True)
class Target:
    """Such as leak<=.02: no more than that beyond the null, in the upper 95 % bound. `holds` is what a verdict asks."""

    metric: Metric
    bound: float = math.nan
    """Of told-apart, how many times as often as chance."""

    def met_by(self, found: Leak) -> bool:
        """A score that could not be measured meets nothing."""
        if self.metric == "holds" and found.p_value <= SIGNIFICANT:
            return False
        return all(math.isfinite(interval.high) and interval.high <= bound for interval, bound in self._bounds(found))

    def needed(self, found: Leak) -> int | None:
        """About how many victims would show it, where the means meet it and the intervals are too wide; else None."""
        wide = [(i, bound) for i, bound in self._bounds(found) if i.mean < bound < i.high]
        if not wide or self.met_by(found) or any(not i.mean < bound for i, bound in self._bounds(found)):
            return None
        # The width of an interval falls with the root of the number of cases.
        return max(math.ceil(found.victims * ((i.high - i.mean) / (bound - i.mean)) ** 2) for i, bound in wide)

    def _bounds(self, found: Leak) -> list[tuple[Interval, float]]:
        apart = (found.line_up, found.line_up_chance)
        match self.metric:
            case "holds":
                return [(found.leak, SMALL_LEAK), (apart[0], TIMES_CHANCE * apart[1])]
            case "told-apart":
                return [(apart[0], self.bound * apart[1])]
            case "leak":
                return [(found.leak, self.bound)]
            case "rdlv":
                return [(found.rdlv, self.bound)]
            case "ssim":
                return [(found.ssim, self.bound)]

    def __str__(self) -> str:
        if self.metric == "holds":
            return "holds"
        return f"{self.metric}<={self.bound:g}{'x' if self.metric == 'told-apart' else ''}"


def parse_target(text: str) -> Target:
    """From `holds`, `leak<=.02`, `told-apart<=2x`, `rdlv<=0` or `ssim<=0.5`."""
    if text.strip() == "holds":
        return Target("holds")
    number = r"([-+]?(?:\d+\.?\d*|\.\d+))"
    if found := re.fullmatch(rf"\s*told-apart\s*<=\s*{number}\s*x\s*", text):
        return Target("told-apart", float(found[1]))
    for metric in ("leak", "rdlv", "ssim"):
        if found := re.fullmatch(rf"\s*{metric}\s*<=\s*{number}\s*", text):
            return Target(metric, float(found[1]))
    raise Misconfigured(
        f"--target must read like holds, leak<=.02, told-apart<=2x, rdlv<=0 or ssim<=0.5, not {text!r}."
    )
