"""P1's experiment, once: clients with a few held-out images each, an attack on what they send, and its scores."""

import statistics
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor

from fluoroscope.attacks import ATTACKS, Attack
from fluoroscope.attacks.common.initialisation import Normal
from fluoroscope.attacks.gradient_inversion.attack import Inversion
from fluoroscope.attacks.gradient_inversion.label_handling import Inferred, Known
from fluoroscope.attacks.gradient_inversion.objective import Objective
from fluoroscope.cells import CellContext, Result
from fluoroscope.data import Request, load
from fluoroscope.data.phantoms.font import glyph
from fluoroscope.defences.percentile_gaussian import PercentileGaussian
from fluoroscope.rng import derive, generator
from fluoroscope.scenarios.stand_ins import held_out_indices
from fluoroscope.scores.legibility import legibility, read
from fluoroscope.scores.rdlv import mean_rdlv
from fluoroscope.scores.reconstruction import ImageScore, score
from fluoroscope.studies.p1.federation import SCALES, Federation, Scale, Trained
from fluoroscope.studies.timed_attack import timed_attack
from fluoroscope.threat_models import THREATS, observe
from fluoroscope.types import Capability, Observation, PrivateBatch, Reconstruction, UpdateRecord, split_state

SHOWN = 2
"""Clients whose first image is kept for the figure."""

Without = Literal["nothing", "bn loss", "prior", "right prior", "checkpoint", "unrolling"]
"""What the attack is deprived of. `right prior`: it starts from the mean of another kind of image."""

Labels = Literal["own", "inferred", "known"]
"""As the attack has them, read from the update, or granted."""


@dataclass(frozen=True)
class Inverted:
    """One attack on the updates of some clients."""

    attack_name: str
    scale: Scale
    round: int
    victims: int
    """Clients, each attacked by itself."""
    without: Without = "nothing"
    batch_size: int = 1
    local_steps: int = 1
    """Steps of one batch each, on different images."""
    sigma0: float = 0.0
    start: Literal["pretrained", "scratch"] = "pretrained"
    burn_in: bool = False
    labels: Labels = "own"
    iterations: int | None = None
    """None leaves the attack its own budget."""
    data: str = "phantom/chest"

    @property
    def settings(self) -> dict[str, Any]:
        own = asdict(self)
        own["burn_in"] = self.burn_in and self.data.startswith("phantom/")  # nothing can be burned into other images
        names = (
            "data", "start", "without", "round", "batch_size", "local_steps", "sigma0", "labels", "burn_in",
            "iterations", "victims",
        )  # fmt: skip
        size = SCALES[self.scale]["data"]["size"]
        return {"attack": self.attack_name, "client": "client-9", "size": size, **{name: own[name] for name in names}}

    @property
    def attack(self) -> Attack:
        attack = ATTACKS.get(self.attack_name)
        if not isinstance(attack, Inversion):
            return attack
        if self.iterations is not None:
            attack = replace(attack, budget=replace(attack.budget, iterations=self.iterations))
        if self.without == "bn loss":
            bare = attack.bare or replace(attack.objective, batchnorm_weight=0.0)
            attack = replace(attack, objective=bare, bare=None)
        if self.without == "prior":
            attack = replace(attack, start=Normal(0.5, 0.25))
        if self.labels != "own":
            attack = replace(attack, labels=Known() if self.labels == "known" else Inferred())
        if self.without == "unrolling" and isinstance(attack.objective, Objective):
            attack = replace(attack, objective=replace(attack.objective, steps="merged"))
        return attack

    def run(self, context: CellContext) -> Result:
        trained = Federation(self.scale, self.data, self.start).trained(context.seed, context.folder)
        clients = trained.held_out(self.victims, self.batch_size * self.local_steps, self.burn_in)
        seen = []
        for number, victims in enumerate(clients):
            rng = generator(context.seed, "p1", "client", number)
            record = trained.update(self.round, victims, self.batch_size, rng)
            record = PercentileGaussian(self.sigma0).send(record, rng)
            seen.append(self._deprived(self._seen(record, victims, trained.prior), trained, context.seed))
        guesses, seconds = timed_attack(self.attack, seen, generator(context.seed, "p1", "attack"), context)
        scored = [score(g.images, v.images, trained.prior) for g, v in zip(guesses, clients, strict=True)]
        held = sum(len(victims) for victims in clients)
        return Result(
            {**_measures(scored, held, context.seed), **self._legible(trained, guesses, scored), "seconds": seconds},
            images={
                "originals": torch.stack([victims.images[0] for victims in clients[:SHOWN]]),
                "reconstructions": _first(guesses, scored),
                "prior": trained.prior[None],
                "start": seen[0].public_mean[None] if seen[0].public_mean is not None else trained.prior[None],
            },
        )

    def _legible(
        self, trained: Trained, guesses: list[Reconstruction], scored: list[list[ImageScore]]
    ) -> dict[str, float]:
        """How much of the burned-in names and dates can be read, where there are any."""
        if not (self.burn_in and trained.task.images.synthetic):
            return {}
        indices = held_out_indices(trained.task, self.victims, self.batch_size * self.local_steps)
        readings = [
            read(guess.images[image.reconstruction], trained.writing(mine[image.original]), glyph)
            for guess, images, mine in zip(guesses, scored, indices, strict=True)
            for image in images
        ]
        found = legibility(readings)
        return {
            "legible": found.share.mean,
            "legible_low": found.share.low,
            "legible_high": found.share.high,
            "legible_chance": found.chance,
        }

    def _seen(self, record: UpdateRecord, victims: PrivateBatch, prior: Tensor) -> Observation:
        curious = THREATS.get("curious-server")
        if self.labels == "known":
            return observe(record, curious.granted(Capability.LABELS), prior, victims.labels)
        return observe(record, curious, prior)

    def _deprived(self, observation: Observation, trained: Trained, seed: int) -> Observation:
        """Less than the curious server sees, where the cell says so."""
        task = trained.task
        if self.without == "right prior":
            other = "phantom/brain" if "fundus" in self.data else "phantom/fundus"
            images = load(other, Request(task.images.size, task.images.channels, 64, seed)).batch.images
            return replace(observation, public_mean=images.mean(0))
        if self.without == "checkpoint":  # another network of the same architecture stands in for the global model
            state = task.network.build(derive(seed, "another network")).state_dict()
            parameters, buffers = split_state(state, task.buffer_names)
            return replace(observation, state_before=parameters, buffers_before=buffers)
        return observation


def _measures(scored: list[list[ImageScore]], held: int, seed: int) -> dict[str, float | int | None]:
    """Over all images of all clients; RDLV with its bootstrap interval.

    An image that the attack did not find leaked nothing: in RDLV it counts as the prior, 0. The means of SSIM are over
    those that it found.
    """
    images = [image for client in scored for image in client]
    values = [image.rdlv for image in images if image.rdlv is not None] + [0.0] * (held - len(images))
    leaked = torch.tensor(values, dtype=torch.float64)
    interval = mean_rdlv(leaked, generator(seed, "p1", "bootstrap"))
    return {
        "images": held,
        "found": len(images),
        "ssim": statistics.fmean(image.ssim for image in images),
        "ssim_median": statistics.median(image.ssim for image in images),
        "ssim_prior": statistics.fmean(image.ssim_prior or 0.0 for image in images),
        "rdlv": interval.mean,
        "rdlv_low": interval.low,
        "rdlv_high": interval.high,
    }


def _first(guesses: list[Reconstruction], scored: list[list[ImageScore]]) -> Tensor:
    """The guess at each shown client's first image."""
    pairs = list(zip(guesses, scored, strict=True))[:SHOWN]
    return torch.stack([guess.images[client[0].reconstruction] for guess, client in pairs])
