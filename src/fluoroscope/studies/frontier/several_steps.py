"""Clients of several images in several steps, which P1 found safe: how many of their images are found, and how well."""

import statistics
from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.figure import Figure

from fluoroscope.attacks import ATTACKS, Attack
from fluoroscope.cells import CellContext, Result
from fluoroscope.federation.task import Task
from fluoroscope.report.figures import Bar, bars
from fluoroscope.rng import generator
from fluoroscope.scenarios.stand_ins import held_out_indices, other_patients
from fluoroscope.scores.intervals import bootstrap_mean, wilson
from fluoroscope.scores.null import against_others
from fluoroscope.scores.reconstruction import score
from fluoroscope.studies.p1.federation import SCALES, STAGES, Federation, Scale
from fluoroscope.studies.study import Rows, Size, Study, enter
from fluoroscope.studies.timed_attack import timed_attack
from fluoroscope.threat_models import THREATS, observe

OTHERS = 8
"""Sets of further patients that a guess is told apart from, where the test set holds as many."""


@dataclass(frozen=True)
class SeveralSteps:
    """One attack on clients whose images, each of another patient, take part in one step each.

    `clients` are at most as many as the test set has patients for.
    """

    images: int
    batch_size: int
    clients: int
    scale: Scale = "small-few"
    attack_name: str = "feature-decoder"
    data: str = "phantom/chest"

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "images": self.images,
            "steps": -(-self.images // self.batch_size),
            "batch_size": self.batch_size,
            "attack": self.attack_name,
            "size": SCALES[self.scale]["data"]["size"],
            "data": self.data,
        }

    @property
    def attack(self) -> Attack:
        return ATTACKS.get(self.attack_name)

    def run(self, context: CellContext) -> Result:
        trained = Federation(self.scale, self.data).trained(context.seed, context.folder)
        task, last = trained.task, STAGES[self.scale][-1]
        chosen = held_out_indices(task, self._fitting(task), self.images)
        victims = [task.images.batch.subset(each) for each in chosen]
        seen = []
        for number, victim in enumerate(victims):
            record = trained.update(last, victim, self.batch_size, generator(context.seed, "several steps", number))
            known = THREATS.get("curious-server")
            told = observe(record, known, trained.prior, public_images=task.public_images, defence=task.defence)
            seen.append(told)
        rng = generator(context.seed, "several steps", "attack")
        guesses, seconds = timed_attack(self.attack, seen, rng, context)
        gave_up = [bool(guess.nothing) for guess in guesses]
        found = against_others(
            [guess.images for guess in guesses],
            [victim.images for victim in victims],
            trained.prior,
            generator(context.seed, "several steps", "null"),
            other_patients(task, victims, OTHERS),
            gave_up,
        )
        pairs = zip(guesses, victims, strict=True)
        rows = [row for guess, victim in pairs for row in score(guess.images, victim.images, trained.prior)]
        ssim = torch.tensor([row.ssim for row in rows])
        alike = bootstrap_mean(ssim, generator(context.seed, "several steps", "ssim"))
        told_images, held = int(torch.cat(found.found).sum()), sum(map(len, victims))
        share = wilson(told_images, held)
        return Result(
            {
                "clients": len(victims),
                "found": share.mean,
                "found_low": share.low,
                "found_high": share.high,
                "ssim": alike.mean,
                "ssim_low": alike.low,
                "ssim_high": alike.high,
                "ssim_prior": statistics.fmean(row.ssim_prior or 0.0 for row in rows),
                **found.numbers(),
                "guesses": sum(len(guess.images) for guess in guesses if not guess.nothing),
                "gave_up": sum(gave_up),
                "seconds": seconds,
            },
            images={"originals": victims[0].images[:6], "reconstructions": guesses[0].images[:6]},
        )

    def _fitting(self, task: Task) -> int:
        patients = len({task.images.batch.patients[i] for i in task.partition.test})
        return max(1, min(self.clients, patients // self.images))


def drawn(title: str, rows: Rows) -> Figure:
    """A bar per kind of client."""
    shown = [row for row in rows if not row.failed]
    named = [(f"{row['images']} images, {row['steps']} steps, {row['size']} px", row) for row in shown]
    return bars(title, [Bar(name, row["found"], row["found_low"], row["found_high"]) for name, row in named], FOUND)


FOUND = "share of the images that a guess is nearest to, of everybody's (95 % interval)"


def _steps(scale: Scale) -> list[SeveralSteps]:
    """P1's clients 1 and 5, and clients of more steps."""
    return [SeveralSteps(*each, scale) for each in ((8, 4, 2), (8, 8, 2), (16, 4, 1), (32, 4, 1))]


def _batches(scale: Scale) -> list[SeveralSteps]:
    """Ten images have 490 positions in layer 4 at 224 pixels, which has 512 channels."""
    return [SeveralSteps(*each, scale) for each in ((4, 4, 2), (10, 10, 1))]


STEPS: dict[Size, list[SeveralSteps]] = {"small": _steps("small-few"), "paper": _steps("paper")}
BATCHES: dict[Size, list[SeveralSteps]] = {"small": _batches("small-224"), "paper": _batches("paper")}

enter(
    Study(
        "frontier/several-steps",
        "Clients of several images in several steps: features in closed form, brought to pixels",
        "P1: only the one-image client leaks; its clients 1 and 5 have eight images in two steps of four and in one.",
        STEPS,
        drawn,
        parallel=True,
    ),
    Study(
        "frontier/batch-224",
        "Batches of images of 224 pixels in one step: features in closed form, brought to pixels",
        "P1: larger batches reduce the leak (with its own attack, fig. 6a).",
        BATCHES,
        drawn,
        parallel=True,
    ),
)
