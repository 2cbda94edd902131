"""Clients that an attacker makes up from its public images, to try on them what it would do to a real one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from fluoroscope.defences import Chain, chain
from fluoroscope.errors import Unsupported
from fluoroscope.federation.client_round import client_round
from fluoroscope.threat_models import observe
from fluoroscope.threat_models.needs import require
from fluoroscope.types import Capability, LabelledImages, Observation, PrivateBatch, UpdateRecord

_FEWEST = 2
"""Victims: one alone cannot be told apart from anybody."""
NEEDED = (Capability.ARCHITECTURE, Capability.TRAINING, Capability.GLOBAL_STATE, Capability.PUBLIC_IMAGES)
"""What a round is simulated from. Of a defence that is not known, none is simulated."""


@dataclass(frozen=True, eq=False)
class SplitPublic:
    """Public images, split by patient."""

    learning: LabelledImages
    """What the attacker may learn from when it attacks the others."""
    victims: tuple[PrivateBatch, ...]
    """One simulated client each; every image is of another patient."""


def split_public(public: LabelledImages, victims: int, images: int, rng: torch.Generator) -> SplitPublic:
    """Give so many victims so many images, and the attacker all those of other patients.

    The victims take at most half of the patients. Where those do not suffice, there are fewer victims first, down to
    two, and then fewer images per victim.

    Args:
        public: images with labels, and patients where they are known; without, each is another patient.
        victims: simulated clients at most.
        images: per client.
        rng: who is a victim.

    Raises:
        Unsupported: there are fewer than four patients.

    Example:
        >>> import torch
        >>> public = LabelledImages(torch.rand(10, 1, 8, 8), torch.zeros(10, dtype=torch.int64))
        >>> found = split_public(public, 3, 1, torch.Generator())
        >>> len(found.learning), len(found.victims)
        (7, 3)
    """
    names = public.patients or tuple(map(str, range(len(public))))
    places: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        places.setdefault(name, []).append(place)
    most = len(places) // 2
    if most < _FEWEST:
        raise Unsupported(
            f"a rehearsal needs public images of at least {2 * _FEWEST} patients, and there are {len(places)}: raise "
            "partition.auxiliary in the plan, or give others with --public."
        )
    victims = max(min(victims, most // images), _FEWEST)
    each = min(images, most // victims)
    patients = list(places)
    order = [patients[i] for i in torch.randperm(len(patients), generator=rng).tolist()]
    batches = tuple(
        _batch(public, names, [places[name][0] for name in order[i * each : (i + 1) * each]]) for i in range(victims)
    )
    rest = sorted(place for name in order[victims * each :] for place in places[name])
    chosen = torch.tensor(rest)
    learning = LabelledImages(public.images[chosen], public.labels[chosen], tuple(names[i] for i in rest))
    return SplitPublic(learning, batches)


def patients_for(images: int) -> int:
    """Public patients that `split_public` needs for victims of so many images.

    Example:
        >>> patients_for(32)
        128
    """
    return 2 * _FEWEST * images


def simulated_round(seen: Observation, victim: PrivateBatch, rng: torch.Generator, defence: Chain) -> UpdateRecord:
    """What a client with these images would have sent in the round that was seen, behind this defence."""
    require("the simulation of a client", seen, NEEDED)
    assert seen.network is not None
    assert seen.training is not None
    assert seen.state_before is not None
    state = {**seen.state_before, **(seen.buffers_before or {})}
    training = replace(seen.training, images=len(victim))
    name = seen.cohort[0] if seen.cohort else "client"
    done = client_round(seen.network, state, victim, training, rng, defence, server_round=seen.round, client=name)
    return done.record


def seen_of_victim(seen: Observation, split: SplitPublic, victim: PrivateBatch, rng: torch.Generator) -> Observation:
    """What the same attacker would have seen of this victim, whose images are not among those that it has."""
    known = seen.knowledge.capabilities
    defence = chain(*(() if seen.defence is None else seen.defence.parts))
    return observe(
        simulated_round(seen, victim, rng, defence),
        seen.knowledge,
        split.learning.images.mean(0) if Capability.PRIOR in known else None,
        victim.labels if Capability.LABELS in known else None,
        public_images=split.learning,
        defence=seen.defence,
    )


def _batch(public: LabelledImages, names: Sequence[str], places: Sequence[int]) -> PrivateBatch:
    chosen = torch.tensor(places)
    return PrivateBatch(public.images[chosen], public.labels[chosen], tuple(names[i] for i in places))
