"""A pre-filter: a model is inspected before it is trained or evaluated."""

from logging import getLogger
from typing import Any, NoReturn

from monai.fl.utils.constants import WeightType
from monai.fl.utils.exchange_object import ExchangeObject
from monai.fl.utils.filters import Filter
from torch import Tensor

from fluoroscope.defences.guard.digest import digest
from fluoroscope.errors import Refused
from fluoroscope.integrations.site_filter import check_passes, check_path, enter, opened, sentence
from fluoroscope.integrations.weights import tensors
from fluoroscope.types import State

LOG = getLogger("fluoroscope.monai")


class Guard(Filter):
    """Refuses a model that the site's policy does not admit, and keeps the others for the `Meter` beside it.

    MONAI tells a filter neither the run nor the round: rounds are the updates that were asked for since the start.

    Args:
        policy: path of the site's `appetite.toml`.
        ledger: path of the ledger; by default where the policy says.
        run: the federation's name in the ledger.
    """

    def __init__(self, policy: str, ledger: str | None = None, run: str = "monai") -> None:
        self.policy = check_path(policy)
        self.ledger = None if ledger is None else check_path(ledger, "ledger")
        self.run = run
        self.round = 0
        self._came: dict[str, State] = {}

    def __call__(self, data: ExchangeObject, extra: dict[str, Any] | None = None) -> ExchangeObject:
        """The same message.

        Raises:
            Refused: nothing passes, and nothing is trained.
        """
        try:
            state = _incoming(data)
            control = opened(self.policy, self.ledger)
            decision = control.receive(control.subject.whole(state), run=self.run, round=self.round)
            check_passes(decision)
            for reason in decision.reasons:
                LOG.warning("fluoroscope lets this model pass, but: %s", reason)
            self._came[digest(state)] = state
            return data
        except Exception as problem:
            self._came.clear()
            why = sentence(problem)
            enter(problem, self.policy, self.ledger, "in", run=self.run, round=self.round)
        stop("refused this model", why)

    def taken(self) -> State:
        """The model that was trained, for the one update that it is compared with.

        Raises:
            Refused: no model came since the last update, or more than one: MONAI does not tell a filter which of them
                was trained, and which only evaluated.
        """
        came = list(self._came.values())
        self._came = {}
        self.round += 1
        if len(came) != 1:
            raise Refused(f"{len(came)} models came in since the last update, so what it is an update of is not known")
        return came[0]


def _incoming(data: object) -> dict[str, Tensor]:
    if not isinstance(data, ExchangeObject):
        raise Refused(f"it is a {type(data).__name__}, not an ExchangeObject")
    if data.weight_type not in (None, WeightType.WEIGHTS):
        raise Refused("the server sent differences to a model that the site was not shown")
    return tensors(data.weights)


def stop(said: str, why: str) -> NoReturn:
    """Why in the site's own log; the exception that the framework may send on says only that.

    Raises:
        Refused: always.
    """
    LOG.warning("fluoroscope %s: %s.", said, why)
    raise Refused(f"fluoroscope {said}; the site's own log says why.")
