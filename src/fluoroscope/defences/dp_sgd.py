"""DP-SGD by Opacus: every image's gradient is clipped and noised while the client trains (P1 section III-E)."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from fluoroscope.defences.accounting import DELTA
from fluoroscope.defences.contract import Participation, buffers_void, dp_claim
from fluoroscope.defences.mechanism import SampledGaussian
from fluoroscope.defences.range_checks import FORMER, check_gaussian
from fluoroscope.defences.registry import DEFENCES
from fluoroscope.errors import Unsupported
from fluoroscope.models.modes import client_mode
from fluoroscope.rng import seeded_globals
from fluoroscope.types import Adam, AdamW, LocalTraining, PrivacyClaim, PrivateBatch, Sgd, State


@DEFENCES.register("dp-sgd")
@dataclass(frozen=True)
class DpSgd:
    """Per-image clipping to `clip_norm`, noise of noise_multiplier * clip_norm, batches drawn by Poisson sampling.

    The claim counts such batches, so that is how they are drawn: their size varies, and some are empty.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> import fluoroscope as fl
        >>> network = fl.Network.of(nn.Sequential(nn.Flatten(), nn.Linear(16, 2)), (1, 4, 4))
        >>> batch = fl.PrivateBatch(torch.rand(8, 1, 4, 4), torch.arange(8) % 2, ("",) * 8)
        >>> training = fl.LocalTraining(fl.Sgd(0.1), images=8, batch_size=4)
        >>> private = fl.chain(fl.DpSgd(clip_norm=1.0, noise_multiplier=1.0))
        >>> done = fl.client_round(network, network.build().state_dict(), batch, training, fl.generator(0), private)
        >>> done.record.claim.unit
        'record'
    """

    clip_norm: float
    """C of Abadi et al. 2016, algorithm 1: the L2 norm that no image's gradient exceeds."""
    noise_multiplier: float
    """sigma of the same: the noise's standard deviation in units of `clip_norm`."""
    delta: float = DELTA
    OLD_NAMES: ClassVar[Mapping[str, str]] = FORMER

    def __post_init__(self) -> None:
        check_gaussian(self.clip_norm, self.noise_multiplier, self.delta, noiseless=True)

    def claim(self, participation: Participation) -> PrivacyClaim:
        if not self.noise_multiplier:
            return PrivacyClaim(statement="not differential privacy: there is no noise")
        if participation.open_buffers:
            return buffers_void("are sent")
        spent = self.mechanism(participation).epsilon(self.delta)
        # Rate, steps and divisor follow from the number of images, which the server is told anyway, to weigh the update
        # by. So neighbours have the same number, and one image's clipped gradient is zero in one of them: then they
        # share rate, steps, divisor and noise, also where a client has fewer images than a batch (opacus#571, #819).
        told = "DP-SGD, for an image, of the client's update; the number of images counts as public"
        return dp_claim(spent, self.delta, "record", "zero-out", "local", told)

    def mechanism(self, participation: Participation) -> SampledGaussian:
        training = participation.training
        # An image enters each step with probability batch / images.
        return SampledGaussian(self.noise_multiplier, _rate(training), training.steps).over(participation.rounds)

    def check(self, model: nn.Module) -> None:
        from opacus.validators import ModuleValidator  # Opacus' import sets up logging: only where it is used

        network = copy.deepcopy(model).train()
        if any(isinstance(layer, _BatchNorm) for layer in network.modules()):
            raise Unsupported(
                "dp-sgd cannot train BatchNorm: a batch's statistics mix patients. Use a model without it, such as "
                "resnet18-gn or lenet5, or the defence percentile-gaussian."
            )
        if problems := ModuleValidator.validate(network, strict=False):
            raise Unsupported(f"dp-sgd cannot train this network: {problems[0]}. Use another, such as resnet18-gn.")

    def train(
        self, model: nn.Module, state: State, data: PrivateBatch, training: LocalTraining, rng: torch.Generator
    ) -> tuple[dict[str, Tensor], float]:
        from opacus.optimizers import DPOptimizer

        self.check(model)
        if training.clip_norm is not None:
            raise Unsupported("dp-sgd clips each image's gradient itself: leave training.clip_norm out.")
        device = next(iter(state.values())).device
        network = _private(model, state, training, device)
        own = [value for value in network.parameters() if value.requires_grad]
        start = [value.detach().clone() for value in own]
        optimiser = DPOptimizer(
            _optimiser(own, training),
            noise_multiplier=self.noise_multiplier,
            max_grad_norm=self.clip_norm,
            expected_batch_size=max(1, round(_rate(training) * training.images)),
            generator=torch.Generator(device).manual_seed(int(torch.randint(2**62, (), generator=rng))),
        )
        total, seen = 0.0, 0
        with seeded_globals(int(torch.randint(2**62, (), generator=rng))):  # dropout knows no other generator
            for _ in range(training.steps):
                chosen = torch.rand(training.images, generator=rng) < _rate(training)
                images, labels = data.images[chosen].to(device), data.labels[chosen].to(device)
                optimiser.zero_grad()
                # An empty batch has no loss, and still its noise.
                # Opacus' hooks want an input that is differentiated.
                outputs = network(images.requires_grad_())
                # A sum over images: a mean that weighs them by one another would let one image scale another's part.
                loss = training.loss.per_image(outputs, labels).sum() / max(len(images), 1)
                loss.backward()  # type: ignore[no-untyped-call]
                if optimiser.pre_step():
                    # FedProx's pull looks at weights alone, so it comes after the noise: post-processing.
                    for value, begun in zip(own, start, strict=True):
                        value.grad += training.proximal_mu * (value.detach() - begun)
                    optimiser.original_optimizer.step()
                total += float(loss.detach()) * len(images)
                seen += len(images)
        after = {name: value.detach() for name, value in network._module.state_dict().items()}
        return after, total / max(seen, 1)


def _rate(training: LocalTraining) -> float:
    return min(1.0, training.batch_size / training.images)


def _private(model: nn.Module, state: State, training: LocalTraining, device: torch.device) -> Any:  # noqa: ANN401  # Opacus gives its classes no types
    from opacus import GradSampleModule

    network = client_mode(model, training)
    network.load_state_dict(dict(state))
    for name, value in network.named_parameters():
        value.requires_grad_(training.trains(name))
    return GradSampleModule(network.to(device), loss_reduction="mean")


def _optimiser(parameters: list[nn.Parameter], training: LocalTraining) -> torch.optim.Optimizer:
    kind = training.optimiser
    if isinstance(kind, Sgd):
        return torch.optim.SGD(
            parameters, kind.lr, kind.momentum, weight_decay=kind.weight_decay, nesterov=kind.nesterov
        )
    if isinstance(kind, Adam):
        named = torch.optim.AdamW if isinstance(kind, AdamW) else torch.optim.Adam
        return named(parameters, kind.lr, kind.betas, kind.eps, kind.weight_decay)
    return torch.optim.SGD(parameters, kind.lr)
