"""The linear inverter's guess as the start of a descent: far nearer than the public mean."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fluoroscope.attacks.common.initialisation import INITIALISATIONS, Shape, smooth_noise
from fluoroscope.attacks.gradient_inversion import named
from fluoroscope.attacks.learned.learning import NEEDS
from fluoroscope.attacks.learned.ridge import RidgeInversion
from fluoroscope.attacks.registry import ATTACKS
from fluoroscope.rng import generator
from fluoroscope.types import Capability, Observation


@INITIALISATIONS.register("ridge")
@dataclass(frozen=True)
class FromRidge:
    """Begins where `ridge` ends. Where that tells fewer images than the client has, smooth noise parts the others."""

    noise: float = 0.1
    """Standard deviation."""

    @property
    def needs(self) -> frozenset[Capability]:
        return NEEDS

    def __call__(self, observation: Observation, shape: Shape, rng: torch.Generator) -> Tensor:
        # Not from `rng`: clients of one kind then share what is simulated.
        (guess,) = RidgeInversion().run([observation], generator(0, "start from ridge"))
        told = guess.images[torch.arange(shape[0]) % len(guess.images)]
        if len(guess.images) < shape[0]:
            told = (told + self.noise * smooth_noise(shape, rng)).clamp(0, 1)
        return told


ATTACKS.add("epochwise-from-ridge", replace(named.EPOCHWISE, start=FromRidge(), name="epochwise-from-ridge"))
