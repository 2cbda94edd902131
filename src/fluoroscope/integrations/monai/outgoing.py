"""What filters of anything that leaves have in common: it leaves as they release it, or not at all."""

from abc import abstractmethod
from typing import Any, ClassVar

from monai.fl.utils.exchange_object import ExchangeObject
from monai.fl.utils.filters import Filter

from fluoroscope.errors import Misconfigured
from fluoroscope.integrations.monai.guard import Guard, stop
from fluoroscope.integrations.site_filter import enter, sentence


class Outgoing(Filter):
    """Withholds what it cannot release, and enters that in the ledger.

    Args:
        guard: the pre-filter of the same client, `"@guard"` in its file: it keeps the model that came, and names the
            policy and its ledger.
    """

    what: ClassVar[str]

    def __init__(self, guard: Guard) -> None:
        if not isinstance(guard, Guard):
            raise Misconfigured(f"guard is the Guard among the pre_filters, '@guard' in their file, not {guard!r}.")
        self.guard = guard

    def __call__(self, data: ExchangeObject, extra: dict[str, Any] | None = None) -> ExchangeObject:
        """What leaves in its place.

        Raises:
            Refused: nothing does. MONAI's `MonaiAlgo` hands the exception on, so there is no reply to send.
        """
        guard, round = self.guard, self.guard.round
        try:
            return self._released(data)
        except Exception as problem:
            why = sentence(problem)
            enter(problem, guard.policy, guard.ledger, "out", run=guard.run, round=round)
        stop(f"withheld {self.what}", why)

    @abstractmethod
    def _released(self, data: ExchangeObject) -> ExchangeObject:
        """What may leave.

        Raises:
            Exception: nothing may, whatever it is.
        """
