"""What BatchNorm's buffers would become for given images: many clients in one pass, differentiable.

The whole round is taken at the weights that it began with. What that leaves out (moved weights, unknown order of the
batches, dropout) is part of the error that is measured on simulated rounds.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from fluoroscope.attacks.common.setup import Setup
from fluoroscope.errors import Unsupported
from fluoroscope.federation.local_training import guessed_schedule

AT_ONCE = 64
"""Images in one pass."""


class _GroupedNorm(nn.Module):
    """Normalises every group of `size` images by its own statistics, as a client does its batch, and notes them."""

    def __init__(self, layer: _BatchNorm, name: str, noted: dict[str, Tensor]) -> None:
        super().__init__()
        self.layer, self.name, self.noted, self.size = layer, name, noted, 1

    def forward(self, x: Tensor) -> Tensor:
        if len(x) % self.size:
            raise Unsupported(
                f"BatchNorm layer {self.name} does not see images one by one: batches cannot be told apart."
            )
        groups = x.reshape(len(x) // self.size, self.size, x.shape[1], -1)
        count = groups.shape[1] * groups.shape[3]
        if count == 1:
            raise Unsupported(
                f"BatchNorm layer {self.name} is left with one value per channel, which has no statistics."
            )
        if f"{self.name}.running_mean" in self.noted:
            raise Unsupported(
                f"BatchNorm layer {self.name} is used twice in one pass: it has no one pair of statistics."
            )
        var, mean = torch.var_mean(groups, dim=(1, 3), correction=0)
        self.noted[f"{self.name}.running_mean"] = mean
        self.noted[f"{self.name}.running_var"] = var * (count / (count - 1))  # the buffer holds the unbiased one
        normal = (groups - mean[:, None, :, None]) * (var + self.layer.eps).rsqrt()[:, None, :, None]
        if self.layer.affine:
            normal = normal * self.layer.weight[:, None] + self.layer.bias[:, None]
        return normal.reshape(x.shape)


class BatchStatisticsModel:
    """From clients' images to the changes of the buffers that an attacker sees.

    Raises:
        Unsupported: no BatchNorm layer trained a buffer that is seen, or its statistics are not those of a batch.
    """

    def __init__(self, setup: Setup, buffers: Iterable[str]) -> None:
        model = setup.model
        model.load_state_dict(setup.state)
        model.requires_grad_(False)
        self._training = setup.training
        self._noted: dict[str, Tensor] = {}
        trained = {
            name: layer for name, layer in model.named_modules() if isinstance(layer, _BatchNorm) and layer.training
        }
        model.eval()  # dropout is chance: its error is measured with the rest
        self._layers = [_GroupedNorm(layer, name, self._noted) for name, layer in trained.items()]
        for layer in self._layers:
            parent, _, leaf = layer.name.rpartition(".")
            setattr(model.get_submodule(parent), leaf, layer)
        tracked = {f"{name}.{kind}" for name in trained for kind in ("running_mean", "running_var")}
        self.buffers = tuple(name for name in buffers if name in tracked)
        if not self.buffers or not self._training.batchnorm_momentum:
            raise Unsupported(
                "this attack reads BatchNorm's statistics, and this client's update shows none.",
                "Use ridge, span or an attack on the gradient.",
            )
        self._model, self._before = model, {name: setup.state[name] for name in self.buffers}

    def changes(self, images: Tensor) -> Tensor:
        """(clients, values) for (clients, images, channels, height, width)."""
        per_pass = max(1, AT_ONCE // images.shape[1])
        return torch.cat([self._changes(each) for each in torch.split(images, per_pass)])

    def _changes(self, images: Tensor) -> Tensor:
        training = self._training
        momentum, steps = training.batchnorm_momentum, guessed_schedule(training)
        batches = {tuple(each.tolist()): each for each in steps}
        measured = {key: self._measured(images[:, chosen]) for key, chosen in batches.items()}
        # r_T - r_0 = m sum_t (1-m)^(T-1-t) (s_t - r_0) over weights that add up to 1 - (1-m)^T
        found = []
        for name in self.buffers:
            change = -(1 - (1 - momentum) ** len(steps)) * self._before[name]
            for t, chosen in enumerate(steps):
                weight = momentum * (1 - momentum) ** (len(steps) - 1 - t)
                change = change + weight * measured[tuple(chosen.tolist())][name]
            found.append(change)
        return torch.cat(found, 1)

    def _measured(self, batches: Tensor) -> dict[str, Tensor]:
        """Per buffer (clients, channels): the statistics of each client's batch."""
        self._noted.clear()
        for layer in self._layers:
            layer.size = batches.shape[1]
        self._model(batches.flatten(0, 1))
        missing = [name for name in self.buffers if name not in self._noted]
        if missing or any(len(each) != len(batches) for each in self._noted.values()):
            raise Unsupported("a BatchNorm layer does not see images one by one: batches cannot be told apart.")
        return dict(self._noted)
