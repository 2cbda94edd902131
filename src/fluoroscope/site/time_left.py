"""How much of a time budget is left, by the clock: a client waits for its meter."""

import time
from dataclasses import dataclass, field


@dataclass(frozen=True)
class TimeLeft:
    """A budget that began when this was made."""

    seconds: float
    began: float = field(default_factory=time.monotonic)

    @property
    def spent(self) -> float:
        return time.monotonic() - self.began

    @property
    def left(self) -> float:
        return max(0.0, self.seconds - self.spent)
