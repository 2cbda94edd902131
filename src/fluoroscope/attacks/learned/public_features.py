"""What a client's network makes of public images in batches of the client's size."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fluoroscope.attacks.common.setup import Setup
from fluoroscope.models.modes import named_buffers


def public_features(setup: Setup, images: Tensor, layer: str, rng: torch.Generator) -> Tensor:
    """The input (n, features) of the convolution `layer` for each image.

    As the client's first step sees it: the global weights, BatchNorm over a random batch of the client's size. Nothing
    beyond the layer is computed.
    """
    size = min(setup.batch_shape[0], len(images))
    order = torch.randperm(len(images), generator=rng)
    batches = list(torch.split(order[: len(order) // size * size], size))
    if len(order) % size:
        batches.append(order[-size:])  # a whole batch again, with some that were seen already
    found: Tensor | None = None
    for chosen in batches:
        features = _input_of(setup, images[chosen], layer).flatten(1)
        found = features.new_zeros(len(images), features.shape[1]) if found is None else found
        found[chosen] = features
    assert found is not None  # a public set is never empty
    return found


def _input_of(setup: Setup, images: Tensor, layer: str) -> Tensor:
    found: list[Tensor] = []

    def stop(module: nn.Module, inputs: Sequence[Tensor]) -> None:
        found.append(inputs[0])
        raise _Reached

    handle = setup.model.get_submodule(layer).register_forward_pre_hook(stop)
    try:
        with torch.no_grad():
            functional_call(setup.model, {**setup.state, **named_buffers(setup.model, setup.state)}, (images,))
    except _Reached:
        pass
    finally:
        handle.remove()
    return found[0]


class _Reached(Exception):
    """The pass came to the layer: the rest of the network need not run."""
