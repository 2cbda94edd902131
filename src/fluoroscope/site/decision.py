"""What a site's policy answers."""

from dataclasses import dataclass
from typing import Literal

Answer = Literal["send", "warn", "withhold"]
EXIT_CODES: dict[Answer, int] = {"send": 0, "warn": 0, "withhold": 4}
_ORDER: tuple[Answer, ...] = ("send", "warn", "withhold")


@dataclass(frozen=True)
class Decision:
    """Whether something may pass, and why not."""

    answer: Answer
    reasons: tuple[str, ...] = ()
    """One sentence for each thing that is not as the policy wants it; none of an image, a patient or a path."""

    @property
    def passes(self) -> bool:
        return self.answer != "withhold"

    @classmethod
    def strictest(cls, parts: "list[Decision]") -> "Decision":
        """All of them together.

        Example:
            >>> Decision.strictest([Decision("send"), Decision("warn", ("near the limit",))]).answer
            'warn'
        """
        answers: list[Answer] = [part.answer for part in parts]
        answer: Answer = max(answers, key=_ORDER.index, default="send")
        return cls(answer, tuple(reason for part in parts for reason in part.reasons))
