"""Flower's strategies by the names that P3 uses, and what each remembers between rounds.

| name | rule on the server |
|---|---|
| fedavg | mean weighted by the number of images |
| fedavgm | g = w - mean, m = beta m + g, w = w - lr m |
| fedmedian | coordinate-wise median, unweighted |
| fedprox | as fedavg; clients train with + mu/2 ||w - w_global||^2 |
| fedopt | as fedavg: P3 ran Flower's class FedOpt by itself, which overrides no aggregation |
| fedadam | Adam on the mean update: what "FedOpt" means in Reddi et al. |
| fedyogi | Yogi on the mean update |
"""

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from flwr.serverapp.strategy import (
    FedAdam,
    FedAvg,
    FedAvgM,
    FedMedian,
    FedProx,
    FedYogi,
    Strategy,
)
from flwr.serverapp.strategy.fedopt import FedOpt
from torch import Tensor

from fluoroscope.errors import Misconfigured
from fluoroscope.federation.sections import MOST_NUMBER
from fluoroscope.federation.wrapper import innermost, layers
from fluoroscope.registry import Registry

STRATEGIES: Registry[Callable[..., Strategy]] = Registry("strategies")
for _name, _strategy in {
    "fedavg": FedAvg,
    "fedavgm": FedAvgM,
    "fedmedian": FedMedian,
    "fedprox": FedProx,
    "fedopt": FedOpt,
    "fedadam": FedAdam,
    "fedyogi": FedYogi,
}.items():
    STRATEGIES.add(_name, _strategy)


@runtime_checkable
class Remembers(Protocol):
    """A wrapper with a memory of its own, such as a sealed sum."""

    def state(self) -> dict[str, Tensor]: ...

    def restore(self, kept: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Takes what is its own, and gives back the rest."""
        ...


DEFAULTS: dict[str, dict[str, float]] = {
    # Flower ships momentum 0 and mu 0, with which these two are FedAvg; P3 does not say what it used.
    "fedavgm": {"server_momentum": 0.9},
    "fedprox": {"proximal_mu": 0.1},
}


def build_strategy(name: str, settings: Mapping[str, object], clients: int, fraction: float = 1.0) -> Strategy:
    """The named strategy over this many clients; `settings` are its own keywords, as Flower spells them."""
    factory = STRATEGIES.get(name)
    # Whom to sample is the federation's business, so only what the strategy adds to FedAvg can be set.
    own = sorted(set(inspect.signature(factory).parameters) - set(inspect.signature(FedAvg).parameters))
    for key, value in settings.items():
        if key not in own:
            raise Misconfigured(f"strategy {name} has no setting {key!r}; it takes: {', '.join(own) or 'none'}.")
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise Misconfigured(f"strategy.{key} must be a number, not {value!r}.")
        if not 0 <= value <= MOST_NUMBER:
            raise Misconfigured(f"strategy.{key} must be between 0 and {MOST_NUMBER:g}, not {value:g}.")
    sampled = max(1, int(clients * fraction))
    return factory(
        fraction_train=fraction,
        fraction_evaluate=1.0,
        min_train_nodes=sampled,
        min_evaluate_nodes=clients,
        min_available_nodes=clients,
        **{**DEFAULTS.get(name, {}), **settings},
    )


def proximal_mu(strategy: Strategy) -> float:
    """FedProx's weight, as its messages tell the clients; 0 of every other strategy."""
    return float(getattr(innermost(strategy), "proximal_mu", 0.0))


def server_state(strategy: Strategy) -> dict[str, Tensor]:
    """What the strategy has to remember to go on after a stop: momentum and second moments."""
    core = innermost(strategy)
    kept: dict[str, Tensor] = {}
    for slot in ("m_t", "v_t"):
        moments: dict[str, np.ndarray] = getattr(core, slot, None) or {}
        kept |= {f"{slot}/{name}": torch.from_numpy(np.array(value)) for name, value in moments.items()}
    for i, value in enumerate(getattr(core, "momentum_vector", None) or []):
        kept[f"momentum_vector/{i:06d}"] = torch.from_numpy(np.array(value))
    for layer in layers(strategy):
        if isinstance(layer, Remembers):
            kept |= layer.state()
    return kept


def restore_server_state(strategy: Strategy, kept: Mapping[str, Tensor]) -> None:
    """Puts back what `server_state` took out."""
    for layer in layers(strategy):
        if isinstance(layer, Remembers):
            kept = layer.restore(kept)
    core = innermost(strategy)
    slots: dict[str, dict[str, np.ndarray]] = {}
    for key, value in kept.items():
        slot, name = key.split("/", 1)
        slots.setdefault(slot, {})[name] = value.numpy()
    for slot, values in slots.items():
        setattr(core, slot, [values[i] for i in sorted(values)] if slot == "momentum_vector" else values)
