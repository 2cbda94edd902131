"""The ground that both readings stand on: public patients, some to learn from, some in the client's place, some beside.

Who learns has seen none of the others, so that no guess leans towards them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fluoroscope.attacks.learned.simulated_rounds import FEWEST_CLIENTS, FOLDS, MOST_IMAGES
from fluoroscope.defences import Chain
from fluoroscope.errors import Unsupported
from fluoroscope.rng import generator
from fluoroscope.scenarios.curious_server import THREAT, seen_by
from fluoroscope.scenarios.rehearsal import Stage, staged
from fluoroscope.scenarios.simulated_victims import patients_for, split_public
from fluoroscope.site.time_left import TimeLeft
from fluoroscope.threat_models import THREATS
from fluoroscope.types import LabelledImages, Observation, PrivateBatch, UpdateRecord

VICTIMS = 6
"""Simulated clients that attacks are tried on."""
OTHERS = 60
"""Images of other patients that a guess is told apart from, at least; in sets of the client's size."""
_SETS = 8
"""Sets of them at least: of fewer, chance cannot be told to one in twenty."""
_FEWEST_LEARNED = 40
"""Public images below which learning shows nothing of what it can do."""
_OF_SIMULATING = 0.4
"""Of the time that is left may be spent on rounds to learn from."""
_ON_TRIAL = 0.2
"""The same, of those that attacks are tried on."""
_ODD = 8.0
"""Times as large as the largest, or as small as the smallest of the simulated updates: of another training."""


@dataclass(frozen=True, eq=False)
class Simulated:
    """The client as a server sees it, beside clients of public images that trained and were defended alike.

    `seen` is of the real client, `stage` of the others; both hold the public images to learn from.
    """

    seen: Observation
    stage: Stage
    patients: tuple[PrivateBatch, ...]
    """Public images that nobody learns from, in sets of the client's size; some of them are those clients."""
    round_seconds: float
    """By the clock, for one simulated round."""

    @property
    def others(self) -> tuple[Tensor, ...]:
        """Images of patients whom nobody learned from, in sets."""
        return tuple(each.images for each in self.patients)

    @property
    def learning(self) -> LabelledImages:
        """Public images that attacks learn from."""
        return self.stage.learning

    @property
    def learning_seconds(self) -> float:
        """About what simulating all rounds to learn from takes."""
        assert self.seen.training is not None
        return _rounds(len(self.learning), self.seen.training.images) * self.round_seconds

    def learning_from(self, images: int) -> "Simulated":
        """The same with so many images to learn from at most."""
        if images >= len(self.learning):
            return self
        some = _sampled(self.learning, images)
        mean = some.images.mean(0)

        def taught(seen: Observation) -> Observation:
            return replace(seen, public_images=some, public_mean=mean)

        stage = replace(self.stage, learning=some, seen=tuple(map(taught, self.stage.seen)))
        return replace(self, seen=taught(self.seen), stage=stage)

    def affordable(self, left: float) -> int | None:
        """Images to learn from that leave time for learning; None where those would be too few."""
        assert self.seen.training is not None
        each, rounds = self.seen.training.images, math.floor(_OF_SIMULATING * left / max(self.round_seconds, 1e-6))
        all_of_them = len(self.learning)
        if _rounds(all_of_them, each) <= rounds:
            return all_of_them
        least = max(_FEWEST_LEARNED, FOLDS * each)
        return rounds if least <= rounds < all_of_them else None

    def smaller(self) -> str:
        """Why an attack that works on the simulated clients may not on this one; empty where they are alike.

        Fewer images per client are easier to tell apart, so that finding nothing among more of them says nothing.
        """
        assert self.seen.training is not None
        own, each = self.seen.training.images, len(self.patients[0])
        if each >= own:
            return ""
        return (
            f"the public images make simulated clients of {each} images, and yours holds {own}: give those of "
            f"{patients_for(own)} patients at least"
        )

    def oddity(self) -> str:
        """Why this update cannot be of the training that was told; empty where it can."""
        sizes = [_size(each) for each in self.stage.seen]
        own, low, high = _size(self.seen), min(sizes), max(sizes)
        if not high or low / _ODD <= own <= high * _ODD:
            return ""
        middle = sorted(sizes)[len(sizes) // 2]
        return (
            f"this update is {own / middle:.2g} times as large as those of simulated clients that train as was told: "
            "check the learning rate, the epochs, the batch size, the normalisation and the two models"
        )


def simulated(
    record: UpdateRecord, public: LabelledImages, defence: Chain, seed: int, time_left: TimeLeft
) -> Simulated:
    """Divide the public images, and play the round of those in the client's place.

    Raises:
        Unsupported: there are too few public patients, or no time for two simulated rounds.
    """
    images = record.training.images
    sets = max(_SETS, -(-OTHERS // images))
    split = split_public(public, sets, images, generator(seed, "meter", "patients"))
    mean = split.learning.images.mean(0)
    seen = seen_by(record, THREATS.get(THREAT), mean, None, split.learning, defence)
    staged(seen, split, 1, seed)  # warms up
    clock = TimeLeft(math.inf)
    staged(seen, split, 1, seed)
    each = clock.spent
    count = min(VICTIMS, len(split.victims), math.floor(_ON_TRIAL * time_left.left / max(each, 1e-6)))
    if count < 2:
        raise Unsupported(f"one simulated round takes {each:.1f} s, and {time_left.seconds:.0f} s are too few for it.")
    return Simulated(seen, staged(seen, split, count, seed), split.victims, each)


def without_own(public: LabelledImages, own: PrivateBatch) -> LabelledImages:
    """The public images without the site's own: by the picture itself, and by the patient's name."""
    pictures = {image.numpy().tobytes() for image in own.images}
    names = public.patients or ("",) * len(public)
    mine = set(own.patients) - {""}
    kept = [
        i
        for i, (image, name) in enumerate(zip(public.images, names, strict=True))
        if name not in mine and image.numpy().tobytes() not in pictures
    ]
    if len(kept) == len(public):
        return public
    chosen = torch.tensor(kept, dtype=torch.int64)
    patients = tuple(names[i] for i in kept) if public.patients else ()
    return LabelledImages(public.images[chosen], public.labels[chosen], patients)


def pooled(victims: Sequence[PrivateBatch]) -> PrivateBatch:
    """All of them together."""
    return PrivateBatch(
        torch.cat([each.images for each in victims]),
        torch.cat([each.labels for each in victims]),
        tuple(name for each in victims for name in each.patients),
    )


def _rounds(learning: int, images: int) -> int:
    """Rounds that learned attacks simulate; see `simulated_rounds`."""
    return max(FEWEST_CLIENTS, min(learning, MOST_IMAGES // images))


def _sampled(images: LabelledImages, count: int) -> LabelledImages:
    """A sample: evenly from all of them, which lie in the order of their classes."""
    chosen = torch.linspace(0, len(images) - 1, count).round().long().unique()  # type: ignore[no-untyped-call]
    patients = tuple(images.patients[i] for i in chosen.tolist()) if images.patients else ()
    return LabelledImages(images.images[chosen], images.labels[chosen], patients)


def _size(seen: Observation) -> float:
    return math.sqrt(sum(float(value.double().square().sum()) for value in (seen.update or {}).values()))
