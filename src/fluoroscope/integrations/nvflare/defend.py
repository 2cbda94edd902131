"""A filter of task results: the site's own defence on every update, without a measurement or a decision."""

from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable

from fluoroscope.integrations.nvflare.filters import ResultFilter
from fluoroscope.integrations.nvflare.reading import holding, outgoing
from fluoroscope.integrations.nvflare.received import needed
from fluoroscope.integrations.site_filter import check_path, defended, opened


class Defend(ResultFilter):
    """Puts each update through the defences that the site's policy names; what cannot be defended does not leave.

    Nothing is measured, counted or entered in a ledger: that is what `Meter` does, defences included.

    Args:
        policy: path of an `appetite.toml` with `[model]`, `[training]` and at least one `[[defence]]`.
    """

    def __init__(self, policy: str) -> None:
        super().__init__()
        self.policy = check_path(policy)

    def released(self, result: Shareable, fl_ctx: FLContext) -> Shareable:
        weights, received = outgoing(result), needed(fl_ctx)
        control = opened(self.policy)
        before = control.subject.whole(received.state)
        state = defended(control, before, weights.after(before), run=received.run, round=received.round)
        return holding(result, weights.holding(state, before))
