"""What counts as safe: the upper end of a score's interval stays at or below a bound."""

import math
import re
from dataclasses import dataclass
from typing import Literal

from fluoroscope.errors import Misconfigured
from fluoroscope.scores.intervals import Interval


@dataclass(frozen=True)
class Target:
    """Such as rdlv<=0: no better than the public prior, in the upper 95 % bound."""

    metric: Literal["rdlv", "ssim"]
    bound: float

    def met_by(self, interval: Interval) -> bool:
        """A score that could not be measured meets nothing."""
        return math.isfinite(interval.high) and interval.high <= self.bound

    def __str__(self) -> str:
        return f"{self.metric}<={self.bound:g}"


def parse_target(text: str) -> Target:
    """From `rdlv<=0` or `ssim<=0.5`."""
    found = re.fullmatch(r"\s*(rdlv|ssim)\s*<=\s*([-+]?(?:\d+\.?\d*|\.\d+))\s*", text)
    if found is None:
        raise Misconfigured(f"--target must read like rdlv<=0 or ssim<=0.5, not {text!r}.")
    metric: Literal["rdlv", "ssim"] = "rdlv" if found[1] == "rdlv" else "ssim"
    return Target(metric, float(found[2]))
