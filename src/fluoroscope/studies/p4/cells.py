"""P4's experiment, once: one gradient of one image, its reconstruction, and when that counts as converged.

P4's text leaves open what its public code decides, and its tables are of the code: the weights are drawn afresh for
every image, a fixed lambda^2 has one exponential over all layers, and AG half of the exponent of eq. 7. The defaults
here are the code's; `p4/differences` shows what each of them does.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from scipy.stats import binomtest
from torch import Tensor, nn

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
from fluoroscope.rng import derive, generator, seeded_globals
from fluoroscope.scores.baselines import random_image
from fluoroscope.scores.intervals import bootstrap_mean
from fluoroscope.scores.similarity import mse, ssim
from fluoroscope.studies.p4.one_by_one import OneByOne
from fluoroscope.studies.p4.variance_gaussian import VarianceGaussian
from fluoroscope.studies.timed_attack import timed_attack
from fluoroscope.threat_models import THREATS
from fluoroscope.types import LocalTraining, Observation, PrivateBatch, Reconstruction, Sgd

SIDE = 32
SHOWN = 4
"""Images that are kept for the figure."""
CURVE = 20
"""Points of a curve after its start."""
REACH = 5.0
"""P4's 5000 steps of .001 can move a soft label's logit so far. Fewer and longer steps that cannot must move labels at
a pace of their own, or none is found, and with a wrong label no image is."""
QUICK = 15.0
"""How far those may move it, so that the label is found in a third of them; by the objective on one phantom."""
TOO_FAR = 2.0
"""P4: an MSE from here on is no reconstruction, whatever it began with."""

INITS: dict[str, Initialisation] = {"TG": TransformedGaussian(), "Unif": Uniform(), "Normal": Normal()}
Init = Literal["TG", "Unif", "Normal"]
Measure = Literal["Eucl", "AG", "Gaussian", "SAPAG"]
Loop = Literal["side by side", "P4's", "P4's, line search"]
Weights = Literal["each", "one", "torch"]
"""U(-.5, .5) drawn for each image, or once for all; or torch's own initial weights, drawn for each."""


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
    dataset: str = "X-ray"
    """P4's, in whose place `data` stands."""
    classes: int = 100
    """Outputs of the network, at least as many as the data has labels. P4's parameter counts mean 100. With two, the
    untrained network is sure of one class, whose images then have next to no gradient."""
    weights: Weights = "each"
    form: Literal["paper", "code"] = "code"
    """Of the Gaussian measures."""
    loop: Loop = "side by side"

    @property
    def settings(self) -> dict[str, Any]:
        names = ("data", "dataset", "images", "iterations", "model", "classes", "weights", "form", "loop")
        return {name: getattr(self, name) for name in (*names, "init", "distance", "lr", "lambda2")}

    @property
    def attack(self) -> Inversion | OneByOne:
        usual = ATTACKS.get("eucl-tg")
        assert isinstance(usual, Inversion)
        start = INITS[self.init]
        if self.loop != "side by side":
            return OneByOne(self._distance, start, self.iterations, self.lr, self.loop == "P4's, line search")
        # P4 attacks the small network with L-BFGS and the large one with AdamW, whose weight decay is torch's default.
        optimiser = BatchedLbfgs(self.lr) if self.model == "lenet5" else Adam(self.lr, weight_decay=0.01)
        return replace(
            usual,
            objective=Objective(self._distance),
            start=start,
            labels=Optimised(start),
            optimiser=optimiser,
            label_pace=self._label_pace,
            budget=Budget(self.iterations),
            snapshots=1 if self.model == "lenet5" else max(1, self.iterations // CURVE),
        )

    @property
    def _label_pace(self) -> float:
        reach = self.iterations * self.lr
        return 1.0 if self.model == "lenet5" or reach >= REACH else QUICK / reach

    @property
    def _distance(self) -> Distance:
        if self.lambda2 is not None:
            return Gaussian(self.lambda2, self.form)
        adaptive = AdaptiveGaussian(self.form)
        named: dict[str, Distance] = {"Eucl": SquaredL2(), "AG": adaptive, "SAPAG": VarianceGaussian()}
        return named[self.distance]

    def run(self, context: CellContext) -> Result:
        found = load(self.data, Request(size=SIDE, images=self.images, seed=context.seed))
        originals = found.batch.images
        classes = max(self.classes, len(found.classes))
        seen = gradients(self.model, classes, found.batch, context.seed, self.weights)
        guesses, seconds = timed_attack(self.attack, seen, generator(context.seed, "p4"), context)
        good = torch.tensor([converged(g, x[None]) for g, x in zip(guesses, originals, strict=True)])
        last = torch.cat([_last(guess) for guess in guesses])
        best = torch.cat([guess.images for guess in guesses]).clamp(0, 1)
        # Wilson's, which is not of width 0 where all of a few images converge.
        ends = binomtest(int((~good).sum()), len(good)).proportion_ci(method="wilson")
        others = load(self.data, Request(size=SIDE, images=200, seed=context.seed)).batch.images
        baseline = random_image(others, generator(context.seed, "p4", "random image"))
        curves = _curves(guesses, originals, good, context.seed)
        ended = {name: values[-1] for name, values in curves.items() if name.endswith(("_low", "_high")) and values}
        return Result(
            {
                "mse": _mean(mse(last, originals)[good]),
                "ssim": _mean(ssim(last, originals)[good]),
                **ended,
                "non_converging": int((~good).sum()),
                "non_converging_low": float(len(good) * ends.low),
                "non_converging_high": float(len(good) * ends.high),
                "worse_than_first": sum(worse_than_first(g, x[None]) for g, x in zip(guesses, originals, strict=True)),
                "ssim_all": _mean(ssim(best, originals)),
                "seconds": seconds,
                "mse_random": baseline.mse.mean,
                "ssim_random": baseline.ssim.mean,
            },
            curves,
            {
                "originals": originals[:SHOWN],
                "starts": torch.cat([_start(guess) for guess in guesses[:SHOWN]]),
                "last": last[:SHOWN],
                "by iteration": torch.cat([_at(guesses[0], iteration) for iteration in _shown(guesses)]),
            },
        )


def gradients(
    model: str, classes: int, victims: PrivateBatch, seed: int, weights: Weights = "one"
) -> list[Observation]:
    """What P4's client sends: the gradient itself, once for each image. An SGD step of lr 1, and exactly that."""
    architecture = Architecture(model, victims.images.shape[1], classes, victims.images.shape[-1])
    training = LocalTraining(Sgd(1.0), images=1, batch_size=1)
    threat = THREATS.get("curious-server")
    found = []
    for number, (image, label) in enumerate(zip(victims.images, victims.labels, strict=True)):
        if number == 0 or weights != "one":
            network = client_mode(
                _drawn(architecture, derive(seed, "p4", number) if number else seed, weights), training
            )
            buffers = {name: value.clone() for name, value in network.named_buffers()}
            parameters = dict(network.named_parameters())
            state = {name: value.detach() for name, value in parameters.items()}
        logits = torch.func.functional_call(network, {n: v.clone() for n, v in buffers.items()}, (image[None],))
        loss = nn.functional.cross_entropy(logits, label[None])
        gradient = torch.autograd.grad(loss, list(parameters.values()))
        update = {name: -value for name, value in zip(parameters, gradient, strict=True)}
        found.append(Observation(threat, 1, ("client-1",), architecture, training, state, update, buffers))
    return found


def _drawn(architecture: Architecture, seed: int, weights: Weights) -> nn.Module:
    network = architecture.build(seed)
    if weights == "torch":
        with seeded_globals(derive(seed, "p4", "torch's weights")):
            for layer in network.modules():
                if isinstance(layer, nn.Conv2d | nn.Linear):
                    layer.reset_parameters()
    return network


def converged(guess: Reconstruction, original: Tensor) -> bool:
    """P4: the MSE after the last iteration is below the one at the start, and below 2."""
    before, after = (float(mse(images, original)) for images in (_start(guess), _last(guess)))
    return not guess.diverged and after < before and after < TOO_FAR


def worse_than_first(guess: Reconstruction, original: Tensor) -> bool:
    """As P4's code counts what does not converge: it looks first when an iteration is over, and not at the start."""
    first, after = (float(mse(images, original)) for images in (_at(guess, min(guess.snapshots)), _last(guess)))
    return guess.diverged or not (after < first and after < TOO_FAR)


def _shown(guesses: list[Reconstruction]) -> list[int]:
    """The iterations of a curve: the start, and some twenty after it."""
    iterations = sorted(guesses[0].snapshots)
    return [0, *iterations[:: -max(1, len(iterations) // CURVE)][::-1]]


def _at(guess: Reconstruction, iteration: int) -> Tensor:
    return guess.snapshots.get(iteration, _last(guess)) if iteration else _start(guess)


def _curves(guesses: list[Reconstruction], originals: Tensor, good: Tensor, seed: int) -> dict[str, list[float | None]]:
    """MSE and SSIM by iteration with their intervals, over the images that converged, as P4's captions have it."""
    kept = [guess for guess, ok in zip(guesses, good.tolist(), strict=True) if ok]
    iterations = _shown(guesses)
    curves: dict[str, list[float | None]] = {"iteration": list(map(float, iterations))}
    for name, measure in (("mse", mse), ("ssim", ssim)):
        intervals = []
        for iteration in iterations if kept else []:
            values = measure(torch.cat([_at(guess, iteration) for guess in kept]), originals[good])
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
