"""A filter of an evaluation's metrics: a few plain numbers leave, and nothing else."""

from monai.fl.utils.exchange_object import ExchangeObject

from fluoroscope.errors import Refused
from fluoroscope.integrations.monai.outgoing import Outgoing
from fluoroscope.integrations.plain_values import check_plain


class Metrics(Outgoing):
    """Withholds what an evaluation would send beside a few numbers and short texts."""

    what = "these metrics"

    def _released(self, data: ExchangeObject) -> ExchangeObject:
        if not isinstance(data, ExchangeObject):
            raise Refused(f"it is a {type(data).__name__}, not an ExchangeObject")
        if data.weights or data.optim or data.statistics or len(data):
            raise Refused("it carries something beside the metrics")
        check_plain(data.metrics, "metrics")
        return ExchangeObject(metrics=data.metrics)
