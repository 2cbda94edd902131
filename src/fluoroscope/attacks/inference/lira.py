"""The likelihood-ratio attack (Carlini et al., S&P 2022): the victim's model against shadow models."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Generator, Tensor

from fluoroscope.attacks.inference.likelihood_ratio import Shadows, confidences, offline, online
from fluoroscope.attacks.inference.registry import INFERENCE_ATTACKS, Pool, Seen
from fluoroscope.attacks.inference.seen_model import MODEL, seen_models
from fluoroscope.attacks.inference.shadows import ClientShadows, nowhere
from fluoroscope.errors import Misconfigured
from fluoroscope.types import Capability, LabelledImages, Observation


class ShadowGame(Protocol):
    """How an attacker plays the round that it saw, again and again, with images that it has."""

    @property
    def needs(self) -> frozenset[Capability]: ...

    def play(
        self, observation: Observation, candidates: LabelledImages, pool: LabelledImages, rng: torch.Generator
    ) -> Shadows:
        """What the models that would have been seen make of the candidates."""
        ...


@dataclass(frozen=True)
class Lira:
    """How much better the seen model's confidence in a candidate fits the shadows with it than those without it."""

    game: ShadowGame = field(default_factory=ClientShadows)
    ratio: Callable[[Tensor, Shadows], Tensor] = online
    name: str = "lira"

    @property
    def needs(self) -> frozenset[Capability]:
        """A model to ask, and what the game is played with."""
        return MODEL | self.game.needs

    def run(self, observations: Seen, candidates: LabelledImages, rng: Generator, pool: Pool = None) -> Tensor:
        """A row per observation; each is played by itself."""
        models = seen_models(self.name, observations, self.needs)
        if pool is None:
            raise Misconfigured(f"{self.name} trains shadow models on images of its own; give them as pool.")
        return torch.stack(
            [
                self.ratio(confidences(model, candidates), self.game.play(seen, candidates, pool, rng))
                for seen, model in zip(observations, models, strict=True)
            ]
        )


INFERENCE_ATTACKS.add("lira", Lira())
INFERENCE_ATTACKS.add("lira-offline", Lira(ClientShadows(places=nowhere), offline, "lira-offline"))
