"""A client's training in one round: a pure function that clients run and attackers differentiate through."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fluoroscope.errors import Unsupported
from fluoroscope.federation.optimisers import Slots, step
from fluoroscope.models.modes import client_mode, named_buffers, trained_names
from fluoroscope.rng import seeded_globals
from fluoroscope.types import LocalTraining, PrivateBatch, State

MiniBatch = tuple[Tensor, Tensor]
"""Images, and their labels as classes or as one probability per class."""


@dataclass(frozen=True, eq=False)
class Trained:
    """Where a client's training ended."""

    state: dict[str, Tensor]
    """Parameters and buffers after the last step."""
    loss: float
    """Mean training loss over all images of all epochs."""


def local_training(
    model: nn.Module, state: State, data: PrivateBatch, training: LocalTraining, rng: torch.Generator
) -> Trained:
    """Train on private data from the global `state`; `model` gives the architecture and is left as it was.

    The work is done on the device of `state`.
    """
    batches = ((data.images[chosen], data.labels[chosen]) for chosen in schedule(training, rng))
    return train_on(model, state, batches, training, rng)


def schedule(training: LocalTraining, rng: torch.Generator) -> list[Tensor]:
    """Which images each step takes: every epoch a new permutation, the last batch as small as it comes."""
    epochs = [torch.randperm(training.images, generator=rng) for _ in range(training.passes)]
    return [chosen for order in epochs for chosen in torch.split(order, training.batch_size)][: training.steps]


def guessed_schedule(training: LocalTraining) -> list[Tensor]:
    """The order that an attacker assumes: the same in every epoch, since nobody knows the true one."""
    return list(torch.split(torch.arange(training.images), training.batch_size) * training.passes)[: training.steps]


def train_on(
    model: nn.Module,
    state: State,
    batches: Iterable[MiniBatch],
    training: LocalTraining,
    rng: torch.Generator,
    create_graph: bool = False,
) -> Trained:
    """Train on these batches; with `create_graph` the result is differentiable with respect to their images."""
    network = client_mode(model, training)
    names = trained_names(network, training)
    device = state[names[0]].device
    start = [state[name].detach() for name in names]
    parameters = [value.clone().requires_grad_() for value in start]
    resting = {name: state[name].detach() for name, _ in network.named_parameters() if not training.trains(name)}
    buffers = named_buffers(network, state)
    slots, total, seen = Slots(), torch.zeros((), device=device), 0
    with seeded_globals(int(torch.randint(2**62, (), generator=rng))):  # dropout knows no other generator
        for images, labels in batches:
            images, labels = images.to(device), labels.to(device)
            if create_graph:  # the graph of the last step holds on to the buffers that it used
                buffers = {name: value.clone() for name, value in buffers.items()}
            outputs = _forward(network, dict(zip(names, parameters, strict=True)) | resting | buffers, images)
            loss = training.loss(outputs, labels)
            gradients = list(torch.autograd.grad(loss, parameters, create_graph=create_graph, materialize_grads=True))
            with torch.set_grad_enabled(create_graph):
                if training.proximal_mu:  # FedProx: the gradient of mu/2 ||w - w_global||^2
                    drift = torch._foreach_sub(parameters, start)
                    gradients = list(torch._foreach_add(gradients, drift, alpha=training.proximal_mu))
                if training.clip_norm is not None:
                    gradients = clipped(gradients, training.clip_norm)
                parameters = step(training.optimiser, parameters, gradients, slots, in_place=not create_graph)
            total += loss.detach() * len(images)
            seen += len(images)
    if not create_graph:
        parameters = [value.detach() for value in parameters]
    after = dict(zip(names, parameters, strict=True)) | {name: value.clone() for name, value in resting.items()}
    return Trained(_whole(network, state, after | buffers), float(total) / max(seen, 1))


def clipped(gradients: list[Tensor], bound: float) -> list[Tensor]:
    """The gradients scaled to an L2 norm of at most `bound`, over all of them, as torch's clip_grad_norm_ does it."""
    total = torch.stack([gradient.square().sum() for gradient in gradients]).sum().sqrt()
    factor = (bound / (total + 1e-6)).clamp(max=1.0)
    return [gradient * factor for gradient in gradients]


def _whole(network: nn.Module, state: State, after: State) -> dict[str, Tensor]:
    """What was trained by every name that the state has, parameters first: tied ones have several."""
    own = {id(value): name for name, value in network.named_parameters()}
    tied = {name: own[id(value)] for name, value in network.named_parameters(remove_duplicate=False)}
    names = [*tied, *(name for name, _ in network.named_buffers())]
    return {name: after[tied.get(name, name)] for name in names if name in state}


def _forward(network: nn.Module, state: State, images: Tensor) -> Tensor:
    try:
        outputs = functional_call(network, dict(state), (images,))
    except ValueError as problem:
        if "more than 1 value per channel" not in str(problem):
            raise
        raise Unsupported(
            f"BatchNorm cannot train on a batch of {len(images)} image of {images.shape[-1]} px: a layer is left with "
            "one value per channel. Use larger images, a batch size that leaves no single image, or a model without "
            "BatchNorm (resnet18-gn)."
        ) from problem
    assert isinstance(outputs, Tensor)
    return outputs
