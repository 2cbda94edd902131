"""April as an attack: a linear system, so there is nothing to draw, to iterate or to resume."""

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from fluoroscope.attacks.closed_form.patches.embedding import PatchEmbedding, patch_embeddings, unnormalised
from fluoroscope.attacks.common.gradients import gradient_of
from fluoroscope.attacks.common.running import Kept, Observations, OnIteration, silent
from fluoroscope.attacks.common.setup import SIMULATION, Setup
from fluoroscope.attacks.registry import ATTACKS
from fluoroscope.errors import Unsupported
from fluoroscope.threat_models.needs import require
from fluoroscope.types import Adam, Capability, Observation, Reconstruction

MISFIT = 0.05
"""Of the embedding's gradient, what one image may leave unexplained: beyond it, it is noised, or another network's."""
SMALLEST = 1e-6
"""Singular values of the positions' gradients below this share of the largest are rounding."""


@dataclass(frozen=True)
class April:
    """One image; its objective is the share of the embedding's gradient that the image leaves unexplained."""

    name: str = "april"

    @property
    def needs(self) -> frozenset[Capability]:
        return SIMULATION | {Capability.UPDATE}

    def check(self, observation: Observation) -> None:
        training = observation.training
        if training is None:
            return
        if training.images > 1 or isinstance(training.optimiser, Adam):
            raise Unsupported(
                f"{self.name} inverts one image's gradients, summed over any steps of SGD, and this client has "
                f"{training.images} and trains by {training.optimiser}.",
                "Use an attack that learns, such as ridge.",
            )

    def run(
        self, observations: Observations, rng: Generator, on_iteration: OnIteration = silent, checkpoint: Kept = None
    ) -> list[Reconstruction]:
        """Every observation by itself, in a fraction of a second."""
        found = []
        for i, observation in enumerate(observations):
            require(self.name, observation, sorted(self.needs))
            self.check(observation)
            found.append(_one(observation))
            on_iteration(i, len(observations))
        return found


def _one(observation: Observation) -> Reconstruction:
    setup = Setup.of(observation)
    shape, gradients = setup.network.input_shape, gradient_of(setup) or {}
    best, objective = None, math.inf
    for embedding in patch_embeddings(setup):
        for positions in embedding.positions:
            patches, misfit = solved(embedding, gradients, positions)
            if misfit < objective:
                best, objective = embedding.image(patches, shape[0] * shape[1] * shape[2]), misfit
    if best is None or objective > MISFIT:
        grey = torch.full(shape, 0.5) if observation.public_mean is None else observation.public_mean
        return Reconstruction(grey[None], None, math.inf, nothing=_nothing(objective))
    images = unnormalised(best.view(1, *shape), setup).float().clamp(0, 1)
    return Reconstruction(images, None, objective, restarts=(objective,), trace=(objective,))


def solved(embedding: PatchEmbedding, gradients: dict[str, Tensor], positions: str) -> tuple[Tensor, float]:
    """The patches (patches, values) behind the gradients of an embedding and of its positions, and what they leave.

    With G the positions' gradients (patches, dim), the embedding's gradient is G' X: least squares in X.
    """
    weight = gradients[embedding.weight].flatten(1).double()
    tokens = gradients[positions].double().reshape(-1, len(weight))[-len(embedding.places) :]
    patches = torch.linalg.lstsq(tokens.T, weight, rcond=SMALLEST, driver="gelsd").solution
    misfit = float((weight - tokens.T @ patches).norm() / weight.norm().clamp_min(1e-30))
    return patches, misfit if len(embedding.places) < len(weight) else math.inf


def _nothing(misfit: float) -> str:
    if math.isinf(misfit):
        return (
            "this network has no embedding of patches whose positions are trained, with fewer patches than dimensions."
        )
    return (
        f"no one image explains this update: {misfit:.0%} of the patch embedding's gradient is left, and {MISFIT:.0%} "
        "at most counts as found; it is noised, or positions or embedding were kept."
    )


ATTACKS.add("april", April())
