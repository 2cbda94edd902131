"""Shadow trainings: the attacker plays the victim with its own images, with each candidate in half of the plays."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from fluoroscope.defences import NO_DEFENCE, Chain
from fluoroscope.errors import Misconfigured
from fluoroscope.federation.client_round import client_round
from fluoroscope.types import LabelledImages, LocalTraining, Network, PrivateBatch, State

Train = Callable[[LabelledImages, torch.Generator], State]
"""A client's round on these records: the model as it would be sent."""


def client(network: Network, state: State, training: LocalTraining, defence: Chain = NO_DEFENCE) -> Train:
    """A client that starts from the global `state`, behind its defence: both seats know all of this."""

    def train(records: LabelledImages, rng: torch.Generator) -> State:
        batch = PrivateBatch(records.images, records.labels, ("",) * len(records))
        settings = replace(training, images=len(records))
        return {**state, **client_round(network, state, batch, settings, rng, defence).sent}

    return train


def halves(candidates: int, shadows: int, rng: torch.Generator) -> Tensor:
    """(shadows, candidates), bool: a random half and the other half by turns, so each candidate is in half of them."""
    if shadows < 4 or shadows % 2:
        raise Misconfigured(f"shadows must be an even number from 4 on, not {shadows}: they come in pairs.")
    orders = [torch.randperm(candidates, generator=rng) for _ in range(shadows // 2)]
    firsts = torch.stack(
        [torch.zeros(candidates, dtype=torch.bool).scatter(0, o[: candidates // 2], True) for o in orders]
    )
    return torch.stack([firsts, ~firsts], 1).flatten(0, 1)


def shadow_sets(
    candidates: LabelledImages, pool: LabelledImages, inside: Tensor, images: int, rng: torch.Generator
) -> Iterator[LabelledImages]:
    """For each shadow the candidates that are in it, filled up to the victim's number of `images` from the pool."""
    for chosen in inside:
        missing = images - int(chosen.sum())
        if not 0 <= missing <= len(pool):
            raise Misconfigured(
                f"a shadow of {images} images cannot hold {int(chosen.sum())} candidates and {missing} of the "
                f"{len(pool)} images in the pool; ask of fewer candidates, or give a larger pool."
            )
        filling = torch.randperm(len(pool), generator=rng)[:missing]
        yield LabelledImages(
            torch.cat([candidates.images[chosen], pool.images[filling]]),
            torch.cat([candidates.labels[chosen], pool.labels[filling]]),
        )
