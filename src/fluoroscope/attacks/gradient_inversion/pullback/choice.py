"""The fast pullback where it can be had."""

from collections.abc import Mapping

from torch import Tensor, nn

from fluoroscope.attacks.gradient_inversion.pullback.autograd import AutogradPullback, AutogradTape
from fluoroscope.attacks.gradient_inversion.pullback.contract import Pullback, Statistics, Tape
from fluoroscope.attacks.gradient_inversion.pullback.tangent import TangentPullback, TangentTape
from fluoroscope.errors import Unsupported
from fluoroscope.types import Loss, State


class ChosenPullback:
    """Tangent sweeps, or autograd where an operation has no rule."""

    def __init__(self, model: nn.Module, loss: Loss) -> None:
        self._tangent, self._autograd = TangentPullback(model, loss), AutogradPullback(model, loss)

    def forward(self, state: State, images: Tensor, labels: Tensor) -> Tape:
        try:
            return self._tangent.forward(state, images, labels)
        except Unsupported:
            return self._autograd.forward(state, images, labels)

    def backward(
        self, tape: Tape, gradients: Mapping[str, Tensor], statistics: Mapping[str, Statistics]
    ) -> tuple[Tensor, Tensor]:
        if isinstance(tape, TangentTape):
            return self._tangent.backward(tape, gradients, statistics)
        assert isinstance(tape, AutogradTape)
        return self._autograd.backward(tape, gradients, statistics)


def pullback_for(model: nn.Module, loss: Loss) -> Pullback[Tape]:
    """The pullback for a module in the client's mode; which one it is shows at the first batch's shape."""
    return ChosenPullback(model, loss)
