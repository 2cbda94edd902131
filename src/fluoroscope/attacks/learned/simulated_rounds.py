"""Rounds of clients whose images the attacker knows: public images, the client's training, the client's defence."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from fluoroscope.attacks.common.setup import Setup
from fluoroscope.attacks.learned.evidence import Evidence
from fluoroscope.defences import Chain
from fluoroscope.errors import Unsupported
from fluoroscope.federation.client_round import client_round
from fluoroscope.rng import generator
from fluoroscope.threat_models import observe
from fluoroscope.types import LabelledImages, Observation, PrivateBatch

FEWEST_CLIENTS = 16
MOST_IMAGES = 2000
"""That pass through training, in all simulated rounds together."""
FOLDS = 5


@dataclass(frozen=True, eq=False)
class SimulatedRounds:
    """What the attacker would have seen of clients that it knows."""

    images: Tensor
    """(clients, images, channels, height, width), each client's from dark to bright: an order that anyone can give."""
    evidence: dict[str, Tensor]
    """Per kind: (clients, values)."""
    folds: Tensor
    """(clients,): clients of one fold share no patient with those of another."""


def simulate(
    setup: Setup,
    public: LabelledImages,
    defence: Chain,
    evidence: Evidence,
    seed: int,
    on_client: Callable[[int, int], None] = lambda client, clients: None,
) -> SimulatedRounds:
    """Play the client's round on public images, one simulated client after another; only its evidence is kept.

    Raises:
        Unsupported: there are too few public patients to learn from.
    """
    members, folds = _clients(public, setup.training.images, generator(seed, "simulated clients"))
    state, knowledge = setup.state, setup.observation.knowledge
    kept: list[dict[str, Tensor]] = []
    for number, chosen in enumerate(members):
        batch = PrivateBatch(public.images[chosen], public.labels[chosen], ("",) * len(chosen))
        rng = generator(seed, "simulated round", number)
        done = client_round(setup.network, state, batch, setup.training, rng, defence)
        kept.append(evidence.read(observe(done.record, knowledge)))
        on_client(number, len(members))
    images = torch.stack([from_dark_to_bright(public.images[chosen]) for chosen in members])
    return SimulatedRounds(images, {kind: torch.stack([each[kind] for each in kept]) for kind in kept[0]}, folds)


def learnt_from(observation: Observation) -> tuple[LabelledImages, Chain]:
    """The public images and the defence that an attack has required."""
    public, defence = observation.public_images, observation.defence
    assert public is not None
    assert isinstance(defence, Chain)
    return public, defence


def from_dark_to_bright(images: Tensor) -> Tensor:
    """In the order of their mean brightness: an update does not say which image was first."""
    return images[images.flatten(1).mean(1).argsort()]


def _clients(public: LabelledImages, images: int, rng: torch.Generator) -> tuple[list[Tensor], Tensor]:
    """Per simulated client its public images, and its fold. Each client's images are of one fold's patients."""
    patients = public.patients or tuple(map(str, range(len(public))))
    numbers = {patient: i for i, patient in enumerate(dict.fromkeys(patients))}
    if len(numbers) < 2 * FOLDS:
        raise Unsupported(
            f"a learned attack needs public images of at least {2 * FOLDS} patients to learn from, not {len(numbers)}."
        )
    fold_of = torch.randperm(len(numbers), generator=rng) % FOLDS
    folds = torch.stack([fold_of[numbers[patient]] for patient in patients])
    count = max(FEWEST_CLIENTS, min(len(public), MOST_IMAGES // images))
    if images == 1:
        chosen = torch.randperm(len(public), generator=rng)[:count]
        return list(chosen[:, None]), folds[chosen]
    members, owner = [], torch.arange(count) % FOLDS
    for fold in owner.tolist():
        own = (folds == fold).nonzero()[:, 0]
        drawn = torch.cat([own[torch.randperm(len(own), generator=rng)] for _ in range(-(-images // len(own)))])
        members.append(drawn[:images])
    return members, owner
