"""What a model predicts of public images as a client runs it in training: batches by their own statistics."""

import torch
from torch import Generator, Tensor
from torch.func import functional_call

from fluoroscope.attacks.common.setup import Setup
from fluoroscope.types import LabelledImages, State


@torch.no_grad()
def predicted_in_training(setup: Setup, state: State, public: LabelledImages, rng: Generator) -> Tensor:
    """(images, classes): predictions of the client's network with this state, in batches as the client forms them."""
    size = min(setup.training.batch_size, setup.training.images, len(public))
    order = torch.randperm(len(public), generator=rng)
    order = torch.cat([order, order[: -len(public) % size]])  # no smaller last batch: BatchNorm sees its size
    state = {name: value.clone() for name, value in state.items()}  # a pass in training mode moves buffers
    found = [functional_call(setup.model, state, (public.images[part],)) for part in torch.split(order, size)]
    outputs = torch.zeros(len(public), setup.outputs)
    outputs[order] = torch.cat(found).softmax(1).cpu()
    return outputs
