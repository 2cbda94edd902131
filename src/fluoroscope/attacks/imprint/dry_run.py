"""The server tries a front on its own images, trained as the victim trains: how large the update will be, which way."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import functional_call

from fluoroscope.models.modes import client_mode
from fluoroscope.types import LocalTraining, Network, State, blueprint

IMAGES = 32


@dataclass(frozen=True)
class GradientScale:
    """Derivatives of an image's loss by what the front's neurons send on, over a batch."""

    size: float
    """Root mean square."""
    mean: float


def rehearse(
    network: Network, state: State, training: LocalTraining, images: Tensor, labels: Tensor, column: Tensor
) -> GradientScale:
    """One batch in the client's mode: BatchNorm mixes its images, so that a single one says little."""
    model = client_mode(blueprint(network), training)
    images, labels = images[:IMAGES], labels[:IMAGES]
    made: list[Tensor] = []

    def keep(module: object, inputs: object, output: Tensor) -> Tensor:
        made.append(output.detach().requires_grad_())
        return made[0]

    handle = model.get_submodule("front").register_forward_hook(keep)
    try:
        copies = {name: value.clone() for name, value in state.items()}  # BatchNorm writes into its statistics
        loss = training.loss(functional_call(model, copies, (images,)), labels)
    finally:
        handle.remove()
    (slopes,) = torch.autograd.grad(loss, made)
    pushes = len(images) * (slopes.flatten(1).double() @ column.double())
    return GradientScale(float(pushes.square().mean().sqrt()), float(pushes.mean()))
