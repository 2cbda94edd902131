"""What the four filters share: whatever goes wrong, nothing passes, and the job's log says why in one sentence."""

from abc import abstractmethod

from nvflare.apis.event_type import EventType
from nvflare.apis.filter import ContentBlockedException, Filter
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable

from fluoroscope.errors import Refused
from fluoroscope.integrations.nvflare.reading import bare, failed
from fluoroscope.integrations.nvflare.received import Received, kept
from fluoroscope.integrations.site_filter import sentence


class ClosedFilter(Filter):  # type: ignore[misc]  # NVFlare has no types
    """A filter that fails closed.

    NVFlare answers a `ContentBlockedException` with an error code in the place of a task's result, and runs no filter
    after it: the server learns that something was blocked, and not why.
    """

    SAID = "blocked"
    """What the log says of a message that does not pass."""

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        """What passes in the place of a message.

        Raises:
            ContentBlockedException: nothing does.
        """
        try:
            return self.passed(shareable, fl_ctx)
        except Exception as problem:
            why = sentence(problem)
            self.enter(problem, shareable, fl_ctx)
        # NVFlare writes this exception into error_log.txt, which sites send to their server unless told not to: so
        # why is a warning, which that file does not take, and no other exception hangs on this one.
        self.warn(fl_ctx, f"fluoroscope {self.SAID}: {why}.")
        raise ContentBlockedException(f"fluoroscope {self.SAID}; the site's own log.txt says why")

    def warn(self, fl_ctx: FLContext, text: str) -> None:
        """In the site's own log, and without the event that a job could have sent to the server."""
        self.log_warning(fl_ctx, text, fire_event=False)

    def enter(self, problem: Exception, message: object, fl_ctx: FLContext) -> None:
        """In the ledger, of a filter that has one."""

    @abstractmethod
    def passed(self, message: Shareable, fl_ctx: FLContext) -> Shareable:
        """What passes in the place of a message; an error where nothing does."""


class ResultFilter(ClosedFilter):
    """A filter of what a client sends back."""

    SAID = "withheld this update"

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Keep the model of a task where no Guard did: NVFlare tells a job's filters of events, and a site's not."""
        if event_type == EventType.AFTER_TASK_DATA_FILTER and kept(fl_ctx) is None:
            try:
                Received.of(fl_ctx.get_prop(FLContextKey.TASK_DATA), fl_ctx).keep(fl_ctx)
            except Refused:
                return  # then the update is withheld, and the log says why

    def passed(self, message: Shareable, fl_ctx: FLContext) -> Shareable:
        return bare(message) if failed(message) else self.released(message, fl_ctx)

    @abstractmethod
    def released(self, result: Shareable, fl_ctx: FLContext) -> Shareable:
        """What leaves in the place of a result; an error where nothing does."""
