"""A filter of weights that leave: an update is measured first."""

from monai.fl.utils.constants import WeightType
from monai.fl.utils.exchange_object import ExchangeObject

from fluoroscope.errors import Refused
from fluoroscope.integrations.monai.guard import LOG
from fluoroscope.integrations.monai.outgoing import Outgoing
from fluoroscope.integrations.plain_values import check_plain
from fluoroscope.integrations.site_filter import check_passes, opened
from fluoroscope.integrations.weights import Weights


class Meter(Outgoing):
    """Measures what a server could read of an update, and withholds it where the site's policy says so.

    Where the policy names a defence, what leaves is the defended update.
    """

    what = "this update"

    def _released(self, data: ExchangeObject) -> ExchangeObject:
        round, received = self.guard.round, self.guard.taken()
        weights = _outgoing(data)
        control = opened(self.guard.policy, self.guard.ledger)
        before = control.subject.whole(received)
        out = control.release(before, weights.after(before), run=self.guard.run, round=round)
        check_passes(out.decision)
        for reason in out.decision.reasons:
            LOG.warning("fluoroscope lets this update leave, but: %s", reason)
        LOG.info("fluoroscope lets the update of round %d leave.", round)
        return ExchangeObject(
            weights=weights.holding(out.state, before),
            metrics=data.metrics,
            weight_type=data.weight_type,
            statistics=data.statistics,
        )


def _outgoing(data: object) -> Weights:
    """The weights of a message, with nothing but plain numbers beside them."""
    if not isinstance(data, ExchangeObject):
        raise Refused(f"it is a {type(data).__name__}, not an ExchangeObject")
    if data.weight_type not in (WeightType.WEIGHTS, WeightType.WEIGHT_DIFF):
        raise Refused("it does not say whether it carries weights or differences")
    if data.optim or len(data):
        raise Refused("it carries something beside the weights")
    check_plain(data.metrics, "metrics")
    check_plain(data.statistics, "statistics")
    return Weights(data.weights or {}, data.weight_type == WeightType.WEIGHT_DIFF)
