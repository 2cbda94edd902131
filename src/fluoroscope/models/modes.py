"""A network as it is run: by a client that trains it, or by whoever uses it. The network itself stays as it is."""

import copy

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from fluoroscope.rng import seeded_globals
from fluoroscope.types import LocalTraining, Normalisation, State


def client_mode(model: nn.Module, training: LocalTraining) -> nn.Module:
    """A copy as the client sets it up: normalised images, training mode, BatchNorm as configured."""
    network = _normalising(copy.deepcopy(model), training.normalisation).train()
    for module in network.modules():
        if isinstance(module, _BatchNorm):
            module.train(training.batchnorm == "train")
            module.momentum = training.batchnorm_momentum
    return network


def use_mode(model: nn.Module, normalisation: Normalisation | None) -> nn.Module:
    """A copy as its users run it: normalised images, evaluation mode."""
    return _normalising(copy.deepcopy(model), normalisation).eval()


def trained_names(network: nn.Module, training: LocalTraining) -> list[str]:
    """The parameters that the client trains, in the order of the network."""
    names = [name for name, _ in network.named_parameters()]
    training.check_frozen(names)
    return [name for name in names if training.trains(name)]


def named_buffers(network: nn.Module, state: State) -> dict[str, Tensor]:
    """Copies of the buffers that a pass may change. Those that no state dict holds are the network's own."""
    return {name: state.get(name, value).detach().clone() for name, value in network.named_buffers()}


def moving_buffers(model: nn.Module, training: LocalTraining, images: Tensor) -> frozenset[str]:
    """The buffers of numbers that a client's pass over `images` changes: what leaves beside its update."""
    network = client_mode(model, training)
    before = {name: value.clone() for name, value in network.named_buffers() if value.is_floating_point()}
    with torch.no_grad(), seeded_globals(0):  # dropout knows no other generator
        network(images)
    after = dict(network.named_buffers())
    return frozenset(name for name, value in before.items() if not torch.equal(value, after[name]))


class _Normalise:
    """A hook before the network: pixels stay in [0, 1] for everybody, and what it computes on is normalised."""

    def __init__(self, normalisation: Normalisation) -> None:
        self.normalisation = normalisation

    def __call__(self, module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        images, *others = inputs
        self.normalisation.check_channels(images.shape[-3])
        mean, std = (images.new_tensor(v)[:, None, None] for v in (self.normalisation.mean, self.normalisation.std))
        return (images - mean) / std, *others


def _normalising(network: nn.Module, normalisation: Normalisation | None) -> nn.Module:
    hooks = network._forward_pre_hooks
    for number in [number for number, hook in hooks.items() if isinstance(hook, _Normalise)]:
        del hooks[number]  # a copy of a network that was in a mode already
    if normalisation is not None:
        # Before every other: a hook of the network's own expects what the network is given.
        network.register_forward_pre_hook(_Normalise(normalisation), prepend=True)
    return network
