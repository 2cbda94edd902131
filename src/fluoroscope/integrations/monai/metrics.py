"""A filter of an evaluation's metrics: a few plain numbers leave, and nothing else."""

from typing import Any

from monai.fl.utils.exchange_object import ExchangeObject
from monai.fl.utils.filters import Filter

from fluoroscope.errors import Misconfigured, Refused
from fluoroscope.integrations.monai.guard import Guard, stop
from fluoroscope.integrations.plain_values import check_plain
from fluoroscope.integrations.site_filter import enter, sentence


class Metrics(Filter):
    """Withholds what an evaluation would send beside a few numbers and short texts.

    Args:
        guard: the pre-filter of the same client, `"@guard"` in its file: it names the policy and its ledger.
    """

    def __init__(self, guard: Guard) -> None:
        if not isinstance(guard, Guard):
            raise Misconfigured(f"guard is the Guard among the pre_filters, '@guard' in their file, not {guard!r}.")
        self.guard = guard

    def __call__(self, data: ExchangeObject, extra: dict[str, Any] | None = None) -> ExchangeObject:
        """The metrics alone.

        Raises:
            Refused: nothing leaves.
        """
        guard = self.guard
        try:
            if not isinstance(data, ExchangeObject):
                raise Refused(f"it is a {type(data).__name__}, not an ExchangeObject")
            if data.weights or data.optim or data.statistics or len(data):
                raise Refused("it carries something beside the metrics")
            check_plain(data.metrics, "metrics")
            return ExchangeObject(metrics=data.metrics)
        except Exception as problem:
            why = sentence(problem)
            enter(problem, guard.policy, guard.ledger, "out", run=guard.run, round=guard.round)
        stop("withheld these metrics", why)
