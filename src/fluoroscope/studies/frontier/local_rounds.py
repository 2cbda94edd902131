"""One round as hospitals train: optimisers, epochs, networks, augmentation; what an attack reads of it."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from matplotlib.figure import Figure
from torch import Tensor

from fluoroscope.attacks import ATTACKS, Attack, check_applies
from fluoroscope.cells import CellContext, Result
from fluoroscope.federation.client_round import client_round
from fluoroscope.federation.run import federate
from fluoroscope.federation.task import Task, load_task
from fluoroscope.report.figures import Bar, bars
from fluoroscope.rng import generator, seeded_globals
from fluoroscope.scenarios.playing import shared
from fluoroscope.scenarios.stand_ins import held_out_indices
from fluoroscope.scores.null import against_others
from fluoroscope.scores.reconstruction import score
from fluoroscope.studies.frontier.adaptive import LEAK
from fluoroscope.studies.frontier.variants import ARCHITECTURES, TRAININGS, VARIANTS, Variant
from fluoroscope.studies.p1.federation import STAGES, Federation, Scale
from fluoroscope.studies.study import Rows, Size, Study, enter
from fluoroscope.studies.timed_attack import timed_attack
from fluoroscope.threat_models import THREATS, observe
from fluoroscope.types import (
    AdamW,
    Capability,
    LocalTraining,
    Network,
    Observation,
    PrivateBatch,
    Sgd,
    State,
)

SCALE: dict[Size, Scale] = {"small": "small-public", "paper": "paper"}
ADAMW = AdamW(1e-3)
SLOW = 3
"""Clients where an attack takes minutes for one."""


@dataclass(frozen=True)
class LocalRound:
    """Clients of held-out patients in the last round of a federation, and an attack on each."""

    attack_name: str
    variant: str = "resnet18"
    optimiser: Literal["sgd", "adamw"] = "sgd"
    images: int = 4
    batch_size: int = 4
    epochs: int = 1
    clients: int = 6
    scale: Scale = "small-public"
    data: str = "phantom/chest"

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "data": self.data,
            "variant": self.variant,
            "attack": self.attack_name,
            "optimiser": self.optimiser,
            "images": self.images,
            "batch size": self.batch_size,
            "epochs": self.epochs,
            "clients": self.clients,
        }

    @property
    def attack(self) -> Attack:
        return ATTACKS.get(self.attack_name)

    def run(self, context: CellContext) -> Result:
        variant = VARIANTS[self.variant]
        plan = Federation(self.scale, self.data, model=variant.model).plan(context.seed)
        task = load_task(plan)
        store = federate(plan, context.folder / "federations" / plan.fingerprint[:16])
        last = STAGES[self.scale][-1]
        usual = task.local_training(0, task.round_config(last))
        training = replace(
            usual,
            optimiser=ADAMW if self.optimiser == "adamw" else Sgd(usual.optimiser.lr),
            images=self.images,
            batch_size=self.batch_size,
            epochs=self.epochs,
            frozen=variant.frozen,
            normalisation=variant.normalisation,
        )
        network, state = _network(task, variant, store.global_state(last - 1))
        clients = [task.images.batch.subset(each) for each in held_out_indices(task, self.clients, self.images)]
        seen, trained = [], []
        for number, victim in enumerate(clients):
            rng = generator(context.seed, "local rounds", number)
            observation, images = _seen(task, variant, network, state, victim, training, rng)
            seen.append(observation)
            trained.append(images)
        check_applies(self.attack, seen[0])
        learned = Capability.PUBLIC_IMAGES in self.attack.needs
        kept = shared(context.folder / "learned") if learned else None
        guesses, seconds = timed_attack(self.attack, seen, generator(context.seed, "attack"), context, kept)
        prior = task.public_mean
        assert prior is not None  # the scale has auxiliary images
        guessed, truths = [guess.images for guess in guesses], [victim.images for victim in clients]
        gave_up = [bool(guess.nothing) for guess in guesses]
        found = against_others(guessed, truths, prior, generator(context.seed, "null"), gave_up=gave_up)
        as_trained = against_others(guessed, trained, prior, generator(context.seed, "null"), gave_up=gave_up)
        rows = [row for guess, truth in zip(guessed, truths, strict=True) for row in score(guess, truth, prior)]
        return Result(
            {
                **found.numbers(),
                "leak_as_trained": as_trained.leak.mean,
                "beyond_null": sum(int(each.sum()) for each in found.found),
                "of": self.clients * self.images,
                "ssim": sum(row.ssim for row in rows) / len(rows),
                "gave_up": sum(gave_up),
                "seconds": seconds,
            },
            images={"originals": torch.cat(truths)[:6], "reconstructions": torch.cat(guessed)[:6]},
        )


def _network(task: Task, variant: Variant, state: State) -> tuple[Network, dict[str, Tensor]]:
    """What the client trains, and the state that it begins with: new parts as they are initialised."""
    if variant.wrap is None:
        return task.network, dict(state)
    with seeded_globals(0):
        module = variant.wrap(task.network.build())
    begun = {**module.state_dict(), **state}
    module.load_state_dict(begun)
    return Network.of(module, task.network.input_shape), begun


def _seen(
    task: Task,
    variant: Variant,
    network: Network,
    state: State,
    victim: PrivateBatch,
    training: LocalTraining,
    rng: torch.Generator,
) -> tuple[Observation, Tensor]:
    """What a curious server sees of a client's round, and the images that it trained on."""
    images = victim.images if variant.images is None else variant.images(victim.images, rng)
    batch = replace(victim, images=images)
    record = client_round(network, state, batch, training, rng).record
    if variant.sent is not None:
        record = variant.sent(record)
    if variant.secret:
        record = replace(record, network=task.network)
    known = THREATS.get("curious-server")
    public, defence = task.public_images, task.defence
    return observe(record, known, task.public_mean, public_images=public, defence=defence), images


def drawn(title: str, rows: Rows) -> Figure:
    """A bar per attack and round."""
    shown = [row for row in rows if not row.failed]
    return bars(title, [Bar(_told(row), row["leak"], row["leak_low"], row["leak_high"]) for row in shown], LEAK)


def _told(row: Any) -> str:  # noqa: ANN401
    steps = f"{row['images']} images in batches of {row['batch size']}, {row['epochs']} epochs of {row['optimiser']}"
    return f"{row['variant']}, {steps}: {row['attack']}"


def _epochs(scale: Scale) -> list[LocalRound]:
    decoder = LocalRound("feature-decoder", scale=scale)
    several = [(4, 4, 2), (8, 4, 2), (4, 4, 4), (8, 8, 1)]
    cells = [replace(decoder, images=n, batch_size=b, epochs=e) for n, b, e in several]
    adam = replace(decoder, images=8, batch_size=8, optimiser="adamw", clients=SLOW)
    descent = replace(decoder, attack_name="surrogate", epochs=2, clients=SLOW)
    return [*cells, adam, descent, replace(descent, attack_name="epochwise")]


def _architectures(scale: Scale) -> list[LocalRound]:
    closed = [
        cell
        for variant in ARCHITECTURES
        for cell in (
            *(
                LocalRound(name, variant, images=1, batch_size=1, clients=8, scale=scale)
                for name in ("span", "april", "cocktail-party")
            ),
            *(LocalRound(name, variant, scale=scale) for name in ("feature-decoder", "cocktail-party")),
        )
    ]
    # Last, as it plays a round for each public image.
    return closed + [
        LocalRound("ridge", variant, images=1, batch_size=1, clients=8, scale=scale) for variant in ARCHITECTURES
    ]


def _augmented(scale: Scale) -> list[LocalRound]:
    return [LocalRound("feature-decoder", variant, scale=scale) for variant in TRAININGS]


for _name, _title, _claim, _cells in (
    (
        "frontier/epochs",
        "Epochs and AdamW: images read of one round of local training",
        "P1 and those after it hold clients with several images and steps for safe.",
        _epochs,
    ),
    (
        "frontier/architectures",
        "Networks: which attack reads what of one image and of four",
        "Attacks are shown on the network that they were made for.",
        _architectures,
    ),
    (
        "frontier/augmentation",
        "Augmentation, normalisation, dropout and precision: what each takes from the leak of four images in one step",
        "Augmentation and mixed precision are often named as what spoils gradient inversion in practice.",
        _augmented,
    ),
):
    _grid = {size: _cells(scale) for size, scale in SCALE.items()}
    enter(Study(_name, _title, _claim, _grid, drawn, parallel=True))
