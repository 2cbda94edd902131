"""P4's experiment, once: one gradient of one image, its reconstruction, and when that counts as converged."""

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from fluoroscope.attacks import ATTACKS
from fluoroscope.attacks.common.engine import Budget
from fluoroscope.attacks.common.initialisation import Initialisation, Normal, TransformedGaussian, Uniform
from fluoroscope.attacks.common.lbfgs import BatchedLbfgs
from fluoroscope.attacks.common.optimisers import Adam
from fluoroscope.attacks.gradient_inversion.attack import Inversion
from fluoroscope.attacks.gradient_inversion.distances import AdaptiveGaussian, Distance, Gaussian, SquaredL2
from fluoroscope.attacks.gradient_inversion.label_handling import Optimised
from fluoroscope.attacks.gradient_inversion.objective import Objective
from fluoroscope.cells import CellContext, Result
from fluoroscope.data import Request, load
from fluoroscope.models import Architecture
from fluoroscope.models.modes import client_mode
from fluoroscope.rng import generator
from fluoroscope.scores.baselines import random_image
from fluoroscope.scores.intervals import bootstrap_mean
from fluoroscope.scores.similarity import mse, ssim
from fluoroscope.studies.p4.variance_gaussian import VarianceGaussian
from fluoroscope.studies.timed_attack import timed_attack
from fluoroscope.threat_models import THREATS
from fluoroscope.types import LocalTraining, Observation, PrivateBatch, Reconstruction, Sgd

SIDE = 32
SHOWN = 4
"""Images that are kept for the figure."""
CURVE = 20
"""Points of a curve after its start."""
TOO_FAR = 2.0
"""P4: an MSE from here on is no reconstruction, whatever it began with."""

INITS: dict[str, Initialisation] = {"TG": TransformedGaussian(), "Unif": Uniform(), "Normal": Normal()}
Init = Literal["TG", "Unif", "Normal"]
Measure = Literal["Eucl", "AG", "Gaussian", "SAPAG"]


@dataclass(frozen=True)
class Configuration:
    """An attack configuration of P4 on the gradients of some images."""

    init: Init
    distance: Measure
    """SAPAG: the Gaussian with lambda^2 = Var(g), as its authors have it."""
    images: int
    iterations: int
    lr: float = 0.1
    lambda2: float | None = None
    """Of the Gaussian."""
    model: Literal["lenet5", "resnet18-sigmoid"] = "lenet5"
    data: str = "phantom/chest"
    classes: int = 10
    """Outputs of the network, at least as many as the data has labels. P4's parameter counts mean 100. With two, the
    untrained network is sure of one class, whose images then have next to no gradient."""

    @property
    def settings(self) -> dict[str, Any]:
        names = ("data", "images", "iterations", "model", "classes", "init", "distance", "lr", "lambda2")
        return {name: getattr(self, name) for name in names}

    @property
    def attack(self) -> Inversion:
        usual = ATTACKS.get("eucl-tg")
        assert isinstance(usual, Inversion)
        start = INITS[self.init]
        # P4 attacks the small network with L-BFGS and the large one with AdamW, whose weight decay is torch's default.
        optimiser = BatchedLbfgs(self.lr) if self.model == "lenet5" else Adam(self.lr, weight_decay=0.01)
        return replace(
            usual,
            objective=Objective(self._distance),
            start=start,
            labels=Optimised(start),
            optimiser=optimiser,
            budget=Budget(self.iterations),
            snapshots=max(1, self.iterations // CURVE),
        )

    @property
    def _distance(self) -> Distance:
        if self.lambda2 is not None:
            return Gaussian(self.lambda2)
        named: dict[str, Distance] = {"Eucl": SquaredL2(), "AG": AdaptiveGaussian(), "SAPAG": VarianceGaussian()}
        return named[self.distance]

    def run(self, context: CellContext) -> Result:
        found = load(self.data, Request(size=SIDE, images=self.images, seed=context.seed))
        originals = found.batch.images
        seen = gradients(self.model, max(self.classes, len(found.classes)), found.batch, context.seed)
        guesses, seconds = timed_attack(self.attack, seen, generator(context.seed, "p4"), context)
        good = torch.tensor([converged(g, x[None]) for g, x in zip(guesses, originals, strict=True)])
        last = torch.cat([_last(guess) for guess in guesses])
        others = load(self.data, Request(size=SIDE, images=200, seed=context.seed)).batch.images
        baseline = random_image(others, generator(context.seed, "p4", "random image"))
        return Result(
            {
                "mse": _mean(mse(last, originals)[good]),
                "ssim": _mean(ssim(last, originals)[good]),
                "non_converging": int((~good).sum()),
                "seconds": seconds,
                "mse_random": baseline.mse.mean,
                "ssim_random": baseline.ssim.mean,
            },
            _curves(guesses, originals, good, context.seed),
            {
                "originals": originals[:SHOWN],
                "starts": torch.cat([_start(guess) for guess in guesses[:SHOWN]]),
                "last": last[:SHOWN],
                "by iteration": torch.cat([_start(guesses[0]), *guesses[0].snapshots.values()]),
            },
        )


def gradients(model: str, classes: int, victims: PrivateBatch, seed: int) -> list[Observation]:
    """What P4's client sends: the gradient itself, once for each image. An SGD step of lr 1, and exactly that."""
    architecture = Architecture(model, victims.images.shape[1], classes, victims.images.shape[-1])
    training = LocalTraining(Sgd(1.0), images=1, batch_size=1)
    network = client_mode(architecture.build(seed), training)
    buffers = {name: value.clone() for name, value in network.named_buffers()}
    parameters = dict(network.named_parameters())
    state = {name: value.detach() for name, value in parameters.items()}
    found = []
    for image, label in zip(victims.images, victims.labels, strict=True):
        logits = torch.func.functional_call(network, {n: v.clone() for n, v in buffers.items()}, (image[None],))
        loss = torch.nn.functional.cross_entropy(logits, label[None])
        gradient = torch.autograd.grad(loss, list(parameters.values()))
        update = {name: -value for name, value in zip(parameters, gradient, strict=True)}
        threat = THREATS.get("curious-server")
        found.append(Observation(threat, 1, ("client-1",), architecture, training, state, update, buffers))
    return found


def converged(guess: Reconstruction, original: Tensor) -> bool:
    """P4: the MSE after the last iteration is below the one at the start, and below 2."""
    before, after = (float(mse(images, original)) for images in (_start(guess), _last(guess)))
    return not guess.diverged and after < before and after < TOO_FAR


def _curves(guesses: list[Reconstruction], originals: Tensor, good: Tensor, seed: int) -> dict[str, list[float | None]]:
    """MSE and SSIM by iteration with their intervals, over the images that converged, as P4's captions have it."""
    kept = [guess for guess, ok in zip(guesses, good.tolist(), strict=True) if ok]
    iterations = [0, *guesses[0].snapshots]
    curves: dict[str, list[float | None]] = {"iteration": list(map(float, iterations))}
    for name, measure in (("mse", mse), ("ssim", ssim)):
        intervals = []
        for iteration in iterations if kept else []:
            images = [g.snapshots.get(iteration, _last(g)) if iteration else _start(g) for g in kept]
            values = measure(torch.cat(images), originals[good])
            intervals.append(bootstrap_mean(values, generator(seed, "p4", name, iteration)))
        curves[name] = [interval.mean for interval in intervals]
        curves[f"{name}_low"] = [interval.low for interval in intervals]
        curves[f"{name}_high"] = [interval.high for interval in intervals]
    return curves


def _mean(values: Tensor) -> float | None:
    """None of none: an average over no image is no number."""
    mean = float(values.double().mean()) if len(values) else math.nan
    return mean if math.isfinite(mean) else None


def _start(guess: Reconstruction) -> Tensor:
    assert guess.start is not None
    return guess.start


def _last(guess: Reconstruction) -> Tensor:
    assert guess.last is not None
    return guess.last
