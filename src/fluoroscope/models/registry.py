"""Architectures by name: a builder takes an Architecture and gives a module with torch's default randomness.

`build` seeds that randomness from its argument, so the same (architecture, seed) is the same network anywhere.
"""

from collections.abc import Callable
from dataclasses import replace

from torch import nn

from fluoroscope.models.front import behind_front
from fluoroscope.registry import Registry
from fluoroscope.rng import derive, seeded_globals
from fluoroscope.types import Architecture

Builder = Callable[[Architecture], nn.Module]
MODELS: Registry[Builder] = Registry("models")


def build(architecture: Architecture, seed: int = 0) -> nn.Module:
    """The network with its initial weights, in training mode."""
    with seeded_globals(derive(seed, "initial weights", architecture.name)):
        network = MODELS.get(architecture.name)(replace(architecture, front=None))
        return network if architecture.front is None else behind_front(architecture, architecture.front, network)
