"""The model that a task brought, kept in the task's context until its update is compared with it."""

from dataclasses import dataclass

from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.app_common.app_constant import AppConstants
from torch import Tensor

from fluoroscope.errors import Refused
from fluoroscope.integrations.nvflare.reading import incoming, round_of
from fluoroscope.integrations.weights import tensors

_KEY = "fluoroscope.received"


@dataclass(frozen=True, eq=False)
class Received:
    """A model as it came, in memory of its own: training may change the arrays in place."""

    state: dict[str, Tensor]
    run: str
    round: int
    task: object
    """The task's number: an update is compared with the model of its own task alone."""
    evaluated: bool
    """Whether the model came to be evaluated (`validate`), so that metrics are the whole answer."""

    @classmethod
    def of(cls, task: Shareable, fl_ctx: FLContext) -> "Received":
        """Read a task.

        Raises:
            Refused: it holds no model that can be looked at.
        """
        found = incoming(task)
        evaluated = fl_ctx.get_prop(FLContextKey.TASK_NAME) == AppConstants.TASK_VALIDATION
        return cls(tensors(found.arrays), run_of(fl_ctx), round_of(task), _task(fl_ctx), evaluated)

    def keep(self, fl_ctx: FLContext) -> None:
        """Private: it is not sent along. Not sticky: it is gone with the task."""
        fl_ctx.set_prop(_KEY, self, private=True, sticky=False)


def run_of(fl_ctx: FLContext) -> str:
    """The job's number."""
    return str(fl_ctx.get_job_id())


def kept(fl_ctx: FLContext) -> Received | None:
    """The model that came with this task, where one was kept."""
    found = fl_ctx.get_prop(_KEY)
    return found if isinstance(found, Received) and found.task == _task(fl_ctx) else None


def needed(fl_ctx: FLContext) -> Received:
    """The same, where nothing can be said without it.

    Raises:
        Refused: none was kept.
    """
    found = kept(fl_ctx)
    if found is None:
        raise Refused("the model that came with this task was not kept, so there is nothing to compare it with")
    return found


def _task(fl_ctx: FLContext) -> object:
    return fl_ctx.get_prop(FLContextKey.TASK_ID)
