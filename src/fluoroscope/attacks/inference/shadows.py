"""Shadow trainings: the attacker plays the victim with its own images, with each candidate in half of the plays."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from fluoroscope.attacks.common.setup import SIMULATION, Setup
from fluoroscope.attacks.inference.likelihood_ratio import Shadows, confidences
from fluoroscope.attacks.inference.seen_model import SeenModel
from fluoroscope.defences import NO_DEFENCE, Chain
from fluoroscope.errors import Misconfigured
from fluoroscope.federation.client_round import client_round
from fluoroscope.types import Capability, LabelledImages, LocalTraining, Network, Observation, PrivateBatch, State

Train = Callable[[LabelledImages, torch.Generator], State]
"""A client's round on these records: the model as it would be sent."""
Places = Callable[[int, int, torch.Generator], Tensor]
"""(candidates, shadows, rng) to (shadows, candidates), bool: which candidates are put into which training."""


def client(network: Network, state: State, training: LocalTraining, defence: Chain = NO_DEFENCE) -> Train:
    """A client that starts from the global `state`, behind its defence: both seats know all of this."""

    def train(records: LabelledImages, rng: torch.Generator) -> State:
        batch = PrivateBatch(records.images, records.labels, ("",) * len(records))
        settings = replace(training, images=len(records))
        return {**state, **client_round(network, state, batch, settings, rng, defence).sent}

    return train


def told_defence(observation: Observation) -> Chain:
    """The victim's defence, where the attacker is told it (Kerckhoffs); otherwise none."""
    return NO_DEFENCE if observation.defence is None else Chain(observation.defence.parts)


def halves(candidates: int, shadows: int, rng: torch.Generator) -> Tensor:
    """(shadows, candidates), bool: a random half and the other half by turns, so each candidate is in half of them."""
    if shadows < 4 or shadows % 2:
        raise Misconfigured(f"shadows must be an even number from 4 on, not {shadows}: they come in pairs.")
    orders = [torch.randperm(candidates, generator=rng) for _ in range(shadows // 2)]
    firsts = torch.stack(
        [torch.zeros(candidates, dtype=torch.bool).scatter(0, o[: candidates // 2], True) for o in orders]
    )
    return torch.stack([firsts, ~firsts], 1).flatten(0, 1)


def nowhere(candidates: int, shadows: int, rng: torch.Generator) -> Tensor:
    """(shadows, candidates), all False: the offline attack trains without any of them."""
    return torch.zeros(shadows, candidates, dtype=torch.bool)


def shadow_sets(
    candidates: LabelledImages, pool: LabelledImages, inside: Tensor, images: int, rng: torch.Generator
) -> Iterator[LabelledImages]:
    """For each shadow the candidates that are in it, filled up to the victim's number of `images` from the pool.

    Where the pool is too small its images come again: a shadow must take as many steps as the victim.
    """
    for chosen in inside:
        missing = images - int(chosen.sum())
        if missing < 0 or (missing and not len(pool)):
            raise Misconfigured(
                f"a shadow of {images} images cannot hold {int(chosen.sum())} candidates and {missing} of the "
                f"{len(pool)} images in the pool; ask of fewer candidates, or give a larger pool."
            )
        times = -(-max(1, missing) // max(1, len(pool)))
        filling = torch.cat([torch.randperm(len(pool), generator=rng) for _ in range(times)])[:missing]
        yield LabelledImages(
            torch.cat([candidates.images[chosen], pool.images[filling]]),
            torch.cat([candidates.labels[chosen], pool.labels[filling]]),
        )


@dataclass(frozen=True)
class ClientShadows:
    """Rounds of a client in the victim's place, as the server sees them: each starts where the victim's did."""

    needs: ClassVar[frozenset[Capability]] = SIMULATION | {Capability.UPDATE}

    shadows: int = 16
    places: Places = halves
    defence: Chain | None = None
    """What the attacker takes the victim to send behind; None: what the observation tells, and nothing otherwise."""

    def play(
        self, observation: Observation, candidates: LabelledImages, pool: LabelledImages, rng: torch.Generator
    ) -> Shadows:
        """What the shadow models make of the candidates."""
        setup, model = Setup.of(observation), SeenModel.of(observation)
        defence = told_defence(observation) if self.defence is None else self.defence
        train = client(setup.network, setup.state, setup.training, defence)
        inside = self.places(len(candidates), self.shadows, rng)
        sets = shadow_sets(candidates, pool, inside, setup.training.images, rng)
        found = [confidences(replace(model, state=train(records, rng)), candidates) for records in sets]
        return Shadows(torch.stack(found), inside)
