"""A filter of task data: a model is inspected before it is trained or evaluated."""

from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable

from fluoroscope.integrations.nvflare.filters import ClosedFilter
from fluoroscope.integrations.nvflare.reading import round_of
from fluoroscope.integrations.nvflare.received import Received, run_of
from fluoroscope.integrations.site_filter import check_passes, check_path, enter, opened


class Guard(ClosedFilter):
    """Refuses a model that the site's policy does not admit, and keeps the others for the filters of the result.

    Args:
        policy: path of the site's `appetite.toml`.
        ledger: path of the ledger; by default where the policy says.
    """

    SAID = "refused this model"

    def __init__(self, policy: str, ledger: str | None = None) -> None:
        super().__init__()
        self.policy = check_path(policy)
        self.ledger = None if ledger is None else check_path(ledger, "ledger")

    def passed(self, message: Shareable, fl_ctx: FLContext) -> Shareable:
        received = Received.of(message, fl_ctx)
        control = opened(self.policy, self.ledger)
        decision = control.receive(control.subject.whole(received.state), run=received.run, round=received.round)
        check_passes(decision)
        for reason in decision.reasons:
            self.warn(fl_ctx, f"fluoroscope lets this model pass, but: {reason}")
        received.keep(fl_ctx)
        return message

    def enter(self, problem: Exception, message: object, fl_ctx: FLContext) -> None:
        enter(problem, self.policy, self.ledger, "in", run=run_of(fl_ctx), round=round_of(message))
