"""A defence is judged by attackers that know it: one update behind each defence, read by those that learn and by those
that do not."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from matplotlib.figure import Figure

from fluoroscope.attacks import ATTACKS, Attack
from fluoroscope.cells import CellContext, Result
from fluoroscope.federation.run import federate
from fluoroscope.federation.task import load_task
from fluoroscope.report.figures import Bar, bars
from fluoroscope.rng import generator
from fluoroscope.scenarios.playing import shared
from fluoroscope.scenarios.stand_ins import held_out_indices, stand_in_round
from fluoroscope.scores.null import against_others
from fluoroscope.scores.reconstruction import score
from fluoroscope.studies.p1.federation import STAGES, Federation, Named, Scale
from fluoroscope.studies.study import Row, Rows, Size, Study, enter
from fluoroscope.studies.timed_attack import timed_attack
from fluoroscope.threat_models import THREATS, observe
from fluoroscope.types import Capability

SCALE: dict[Size, Scale] = {"small": "small-public", "paper": "paper"}


@dataclass(frozen=True)
class Adaptive:
    """The one-image client of a federation that trained without a defence; in its last round it has one."""

    attack_name: str
    defence: tuple[Named, ...]
    scale: Scale = "small-public"
    victims: int = 24
    data: str = "phantom/chest"

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "data": self.data,
            "attack": self.attack_name,
            "defence": " + ".join(_told(*part) for part in self.defence) or "none",
            "victims": self.victims,
        }

    @property
    def attack(self) -> Attack:
        return ATTACKS.get(self.attack_name)

    def run(self, context: CellContext) -> Result:
        plan = Federation(self.scale, self.data).plan(context.seed)
        store = federate(plan, context.folder / "federations" / plan.fingerprint[:16])
        defended = load_task(Federation(self.scale, self.data, defence=self.defence).plan(context.seed))
        last = STAGES[self.scale][-1]
        state, prior, known = store.global_state(last - 1), defended.public_mean, THREATS.get("curious-server")
        assert prior is not None  # the scale has auxiliary images
        clients = [defended.images.batch.subset(each) for each in held_out_indices(defended, self.victims, 1)]
        seen = []
        for number, victim in enumerate(clients):
            rng = generator(context.seed, "adaptive", number)
            record = stand_in_round(defended, state, last, victim, 1, rng, "client-9")
            public, defence = defended.public_images, defended.defence
            seen.append(observe(record, known, prior, public_images=public, defence=defence))
        rng = generator(context.seed, "adaptive", "attack")
        learned = Capability.PUBLIC_IMAGES in self.attack.needs  # then what one of them simulated serves the others
        kept = shared(context.folder / "learned") if learned else None
        guesses, seconds = timed_attack(self.attack, seen, rng, context, kept)
        images, truths = [guess.images for guess in guesses], [victim.images for victim in clients]
        gave_up = [bool(guess.nothing) for guess in guesses]
        found = against_others(images, truths, prior, generator(context.seed, "adaptive", "null"), gave_up=gave_up)
        rows = [row for guess, truth in zip(images, truths, strict=True) for row in score(guess, truth, prior)]
        return Result(
            {
                **found.numbers(),
                "ssim": sum(row.ssim for row in rows) / len(rows),
                "gave_up": sum(gave_up),
                "seconds": seconds,
            },
            images={"originals": torch.cat(truths)[:6], "reconstructions": torch.cat(images)[:6]},
        )


def _told(name: str, settings: tuple[tuple[str, Any], ...]) -> str:
    return f"{name} ({', '.join(f'{key}={value}' for key, value in settings)})" if settings else name


def _noise(scale: float) -> tuple[Named, ...]:
    return (("percentile-gaussian", (("noise_scale", scale),)),)


DEFENCES: tuple[tuple[Named, ...], ...] = (
    (),
    _noise(50.0),
    _noise(385.0),
    _noise(3000.0),
    _noise(10_000.0),
    (("quantisation", (("bits", 4),)),),
    (("pruning", (("sparsity", 0.87),)),),
    (("fed-bn", ()),),
)
ATTACKERS = ("ridge", "decoder", "map-inversion", "span")


def drawn(title: str, rows: Rows) -> Figure:
    """A bar per attack and defence."""
    return bars(title, [Bar(f"{row['defence']}: {row['attack']}", *_leak(row)) for row in rows if not row.failed], LEAK)


LEAK = "leak: RDLV on the own patient less that on others (95 % interval)"


def _leak(row: Row) -> tuple[float, float, float]:
    return row["leak"], row["leak_low"], row["leak_high"]


def entered(name: str, title: str, claim: str, attacks: Sequence[str], defences: Sequence[tuple[Named, ...]]) -> None:
    """Enter a study of each attack on the client behind each defence."""
    cells = {
        size: [Adaptive(attack, defence, scale) for attack in attacks for defence in defences]
        for size, scale in SCALE.items()
    }
    enter(Study(name, title, claim, cells, drawn, parallel=True))


entered(
    "frontier/adaptive",
    "The one-image client behind each defence, to attackers that rehearse it",
    "A defence that stops a descent on pixels does not stop whoever simulates it on public images.",
    ATTACKERS,
    DEFENCES,
)
