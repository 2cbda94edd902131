"""A filter of task results: updates on disk, to be audited later."""

from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable

from fluoroscope.errors import Refused
from fluoroscope.integrations.nvflare.filters import ResultFilter
from fluoroscope.integrations.nvflare.reading import outgoing
from fluoroscope.integrations.nvflare.received import needed
from fluoroscope.integrations.recorded import RecordedUpdates
from fluoroscope.integrations.site_filter import check_path, opened


class Record(ResultFilter):
    """Writes down each update and the model before it; what cannot be written down does not leave.

    Args:
        folder: of the updates; each run needs one of its own. A relative path begins at the site's workspace.
        policy: path of the site's `appetite.toml`, whose model and training are then written down too.
    """

    def __init__(self, folder: str, policy: str | None = None) -> None:
        super().__init__()
        self.folder = check_path(folder, "folder")
        self.policy = None if policy is None else check_path(policy)

    def released(self, result: Shareable, fl_ctx: FLContext) -> Shareable:
        received = needed(fl_ctx)
        after = outgoing(result).after(received.state)
        subject = None if self.policy is None else opened(self.policy).subject
        try:
            RecordedUpdates(self.folder).write(
                str(fl_ctx.get_identity_name()),
                received.round,
                received.state,
                after,
                None if subject is None else subject.training,
                None if subject is None else subject.network,
            )
            return result
        except Exception as problem:
            kind = type(problem).__name__
        raise Refused(f"it could not be written down ({kind}): is there room, and is the folder of this run alone")
