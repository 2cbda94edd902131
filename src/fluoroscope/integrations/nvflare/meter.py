"""A filter of task results: an update is measured before it leaves."""

from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable

from fluoroscope.integrations.nvflare.filters import ResultFilter
from fluoroscope.integrations.nvflare.reading import holding, metrics, outgoing, round_of
from fluoroscope.integrations.nvflare.received import needed, run_of
from fluoroscope.integrations.site_filter import check_passes, check_path, enter, opened


class Meter(ResultFilter):
    """Measures what a server could read of an update, and withholds it where the site's policy says so.

    Where the policy names a defence, what leaves is the defended update. A few metrics leave by themselves where a
    model that the guard let in was sent to be evaluated: there is no update in them to measure.

    Args:
        policy: path of the site's `appetite.toml`.
        ledger: path of the ledger; by default where the policy says.
    """

    def __init__(self, policy: str, ledger: str | None = None) -> None:
        super().__init__()
        self.policy = check_path(policy)
        self.ledger = None if ledger is None else check_path(ledger, "ledger")

    def released(self, result: Shareable, fl_ctx: FLContext) -> Shareable:
        received = needed(fl_ctx)
        if received.evaluated and (alone := metrics(result)) is not None:
            self.log_info(fl_ctx, f"fluoroscope lets the metrics of round {received.round} leave.")
            return alone
        weights = outgoing(result)
        control = opened(self.policy, self.ledger)
        before = control.subject.whole(received.state)
        out = control.release(before, weights.after(before), run=received.run, round=received.round)
        check_passes(out.decision)
        for reason in out.decision.reasons:
            self.warn(fl_ctx, f"fluoroscope lets this update leave, but: {reason}")
        self.log_info(fl_ctx, f"fluoroscope lets the update of round {received.round} leave.")
        return holding(result, weights.holding(out.state, before))

    def enter(self, problem: Exception, message: object, fl_ctx: FLContext) -> None:
        enter(problem, self.policy, self.ledger, "out", run=run_of(fl_ctx), round=round_of(message))
