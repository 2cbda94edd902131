"""The normal hospital: 500 images, batches of 16, three epochs of AdamW, 20 rounds. What leaks where images do not."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Generator, Tensor

from fluoroscope.attacks.inference import (
    INFERENCE_ATTACKS,
    LABEL_COUNT_ATTACKS,
    PROPERTY_ATTACKS,
    InferenceAttack,
    Share,
)
from fluoroscope.attacks.inference.gradient_alignment import GradientAlignment
from fluoroscope.attacks.inference.label_counts import whole_counts
from fluoroscope.attacks.inference.learned_counts import LearnedCounts, random_mix
from fluoroscope.attacks.inference.learned_share import LearnedShare
from fluoroscope.cells import CellContext, Result
from fluoroscope.federation.plan import Plan, parse_plan
from fluoroscope.federation.run import federate
from fluoroscope.federation.store import RecordStore
from fluoroscope.federation.task import Task, load_task
from fluoroscope.rng import generator
from fluoroscope.scenarios.canary_records import one_run_games
from fluoroscope.scenarios.candidates import matched_case
from fluoroscope.scenarios.stand_ins import stand_in_round
from fluoroscope.scores.empirical_epsilon import one_run_epsilon
from fluoroscope.scores.label_counts import MixScore, score_mixes
from fluoroscope.scores.roc import Roc, roc, true_positives_at
from fluoroscope.threat_models import THREATS, observe
from fluoroscope.types import Observation, PrivateBatch, UpdateRecord

Asked = Literal["label counts", "prevalence", "exposure", "membership", "canaries"]
"""Prevalence is of the last class; exposure of images brighter than the median public one, which no label tells."""
Scale = Literal["small", "paper"]
VICTIM = "client-1"
ROUNDS = 20
DELTA = 1e-5

SCALES: Mapping[Scale, dict[str, Any]] = {
    # Sets of 1000 images, half of them the hospital's: cxr-nih-64.
    "small": {"train": [[300, 200], [25, 35], [30, 30]], "validation": 4, "test": 110, "auxiliary": 150},
    # Sets of several thousand, such as PneumoniaMNIST: the attacker need not show a patient twice in one round.
    "paper": {"train": [[200, 300], [60, 140], [90, 210]], "validation": 10, "test": 700, "auxiliary": 700},
}
IMAGES: Mapping[Scale, int] = {"small": 1000, "paper": 5000}


def hospital_plan(scale: Scale, data: str, seed: int) -> Plan:
    """The federation: the hospital and two smaller ones."""
    return parse_plan(
        {
            "seed": seed,
            "rounds": ROUNDS,
            "evaluate_every": ROUNDS,
            "model": {"name": "small-cnn"},
            "data": {"source": data, "size": 64, "channels": 1, "images": IMAGES[scale]},
            "partition": {"name": "counts", **SCALES[scale]},
            "training": {"optimiser": "adamw", "lr": 1e-3, "batch_size": 16, "epochs": 3},
            "records": {"clients": [VICTIM]},
        }
    )


@dataclass(frozen=True)
class Hospital:
    """One question about the hospital, asked by one attack."""

    asked: Asked
    attack_name: str
    round: int = ROUNDS
    """Whose update is read; of `trajectory` the last one of those that are."""
    scale: Scale = "small"
    stand_ins: int = 6
    """Held-out images of random mixes in the hospital's place: what an interval and a null are made of."""
    simulations: int = 36
    """Rounds that an attack which learns plays."""
    canaries: int = 64
    """Of the hospital's 500 images, in each of `runs` rounds."""
    runs: int = 4
    data: str = "phantom/chest"

    @property
    def settings(self) -> dict[str, Any]:
        return {"data": self.data, "asked": self.asked, "attack": self.attack_name, "round": self.round}

    @property
    def attack(self) -> tuple[str, int]:
        """By name: an attack that holds a function has no fingerprint."""
        return self.attack_name, self.simulations

    def run(self, context: CellContext) -> Result:
        plan = hospital_plan(self.scale, self.data, context.seed)
        store = federate(plan, context.folder / "federations" / plan.fingerprint[:16])
        case = _Case(self, load_task(plan), store, context.seed)
        return _ASKED[self.asked](case, generator(context.seed, "hospital", self.asked, self.attack_name))


@dataclass(frozen=True, eq=False)
class _Case:
    cell: Hospital
    task: Task
    store: RecordStore
    seed: int

    @property
    def victim(self) -> PrivateBatch:
        return self.task.train_batch(0)

    def seen(self, record: UpdateRecord) -> Observation:
        task = self.task
        known = THREATS.get("curious-server")
        return observe(record, known, task.public_mean, public_images=task.public_images, defence=task.defence)

    def others(self, sides: list[Tensor]) -> list[tuple[PrivateBatch, Observation]]:
        """Stand-ins for the hospital, mixed at random of these places in the set; and what the server sees of each."""
        found = []
        for number in range(self.cell.stand_ins):
            rng = generator(self.seed, "hospital", "stand-in", self.cell.asked, number)
            batch = self.task.images.batch.subset(random_mix(sides, len(self.victim), 1.0, rng))
            before = self.store.global_state(self.cell.round - 1)
            size = self.task.plan.training.batch_size
            record = stand_in_round(self.task, before, self.cell.round, batch, size, rng, VICTIM)
            found.append((batch, self.seen(record)))
        return found


def _label_counts(case: _Case, rng: Generator) -> Result:
    """The hospital's counts first, then those of the stand-ins; of an attack that has intervals, these too."""
    cell, task = case.cell, case.task
    attack = LABEL_COUNT_ATTACKS.get(cell.attack_name)
    own = case.seen(case.store.load(cell.round, VICTIM))
    if not isinstance(attack, LearnedCounts):
        attack.run([own], rng)  # one that cannot read such an update says so before others are trained
    labels, test = task.images.batch.labels, torch.tensor(task.partition.test)
    classes = len(task.images.classes)
    others = case.others([test[labels[test] == c] for c in range(classes)])
    batches = [case.victim, *(batch for batch, _ in others)]
    truth = torch.stack([batch.labels.bincount(minlength=classes) for batch in batches])
    images, seen = len(case.victim), [own, *(seen for _, seen in others)]
    told: dict[str, float | int] = {}
    curves = {"truth": (truth[:, -1] / images).tolist()}
    if isinstance(attack, LearnedCounts):
        shares = replace(attack, simulations=cell.simulations).shares(seen, rng)
        counts = torch.stack([whole_counts(torch.tensor([s.value for s in row]), images) for row in shares])
        last = [row[-1] for row in shares]
        told, ends = _intervals(last, truth[:, -1] / images, images)
        curves |= ends
    else:
        counts = attack.run(seen, rng)
    assert task.public_images is not None
    public = task.public_images.labels.bincount(minlength=classes).double()
    found = _scored(counts / images, truth / images, public / public.sum(), rng)
    return Result(
        {
            **_errors(found, len(counts)),
            "guess": int(counts[0, -1]),
            **told,
            "truth": int(truth[0, -1]),
            "off": float(((counts[0] - truth[0]).abs() / truth[0]).max()),
        },
        curves={**curves, "guess": (counts[:, -1] / images).tolist()},
    )


def _share(case: _Case, rng: Generator) -> Result:
    """The share of a property that the attacker can see in its public images, with the attacker's own interval."""
    cell, task = case.cell, case.task
    attack = PROPERTY_ATTACKS.get(cell.attack_name)
    if isinstance(attack, LearnedShare):
        attack = replace(attack, simulations=cell.simulations)
    public = task.public_images
    assert public is not None
    having = _property(case)
    test = torch.tensor(task.partition.test)
    marked = having(task.images.batch.subset(test.tolist()))
    others = case.others([test[~marked], test[marked]])
    own = case.seen(case.store.load(cell.round, VICTIM))
    mark = having(PrivateBatch(public.images, public.labels, ("",) * len(public)))
    shares = attack.run([own, *(seen for _, seen in others)], mark, rng)
    truth = torch.tensor([float(having(b).double().mean()) for b in [case.victim, *(batch for batch, _ in others)]])
    guess = torch.tensor([share.value for share in shares])
    prior = torch.tensor([float(mark.double().mean())])
    guessed, true = (torch.stack([1 - share, share], -1) for share in (guess, truth))
    found = _scored(guessed, true, torch.cat([1 - prior, prior]), rng)
    told, ends = _intervals(shares, truth)
    return Result(
        {**_errors(found, len(shares)), "guess": shares[0].value, **told, "truth": float(truth[0])},
        curves={"truth": truth.tolist(), "guess": guess.tolist(), **ends},
    )


def _intervals(
    shares: list[Share], truth: Tensor, of: int = 1
) -> tuple[dict[str, float | int], dict[str, list[float]]]:
    """The attacker's interval for the hospital, of so many images, and how often such intervals hold; and all ends."""
    inside = [share.low <= t <= share.high for share, t in zip(shares, truth.tolist(), strict=True)]
    ends = {"guess_low": of * shares[0].low, "guess_high": of * shares[0].high}
    measures = {**ends, "covered": sum(inside) / len(inside)}
    return measures, {"low": [share.low for share in shares], "high": [share.high for share in shares]}


def _property(case: _Case) -> Callable[[PrivateBatch], Tensor]:
    if case.cell.asked == "prevalence":
        last = len(case.task.images.classes) - 1
        return lambda batch: batch.labels == last
    assert case.task.public_images is not None
    median = case.task.public_images.images.flatten(1).mean(1).median()
    return lambda batch: batch.images.flatten(1).mean(1) > median


def _membership(case: _Case, rng: Generator) -> Result:
    """Training images of the hospital, and as many of each class that nobody trained on."""
    cell, task = case.cell, case.task
    same = generator(case.seed, "hospital", "candidates")  # every attack is asked about the same images
    asked = matched_case(task, task.clients[0].train, task.partition.test, len(task.partition.test), same)
    rounds = range(1, cell.round + 1) if cell.attack_name in ("trajectory", "loss") else [cell.round]
    seen = [case.seen(case.store.load(number, VICTIM)) for number in rounds]
    scores = INFERENCE_ATTACKS.get(cell.attack_name).run(seen, asked.candidates, rng, task.public_images)
    curves = [roc(row[asked.members], row[~asked.members], rng) for row in scores]
    return Result(
        {**_told(curves[-1]), "at_1_percent": true_positives_at(curves[-1], 0.01)},
        curves={
            "round": [float(number) for number in rounds],
            "auc": [curve.auc.mean for curve in curves],
            "auc_low": [curve.auc.low for curve in curves],
            "auc_high": [curve.auc.high for curve in curves],
        },
    )


def _canaries(case: _Case, rng: Generator) -> Result:
    """Rounds in which noise under random labels stands in the place of some images, each by a coin of its own."""
    cell, task = case.cell, case.task
    before, size = case.store.global_state(cell.round - 1), len(case.victim)
    training = replace(task.local_training(0, task.round_config(cell.round)), images=size)
    distinguisher: InferenceAttack = (
        GradientAlignment() if cell.attack_name == "gradient-alignment" else INFERENCE_ATTACKS.get(cell.attack_name)
    )
    found = []
    for _ in range(cell.runs):
        noise = torch.rand((cell.canaries, *task.network.input_shape), generator=rng)
        labels = torch.randint(len(task.images.classes), (cell.canaries,), generator=rng)
        planted = PrivateBatch(noise, labels, ("",) * cell.canaries)
        rest = case.victim.subset(range(size - cell.canaries))
        scores, coins = one_run_games(task.network, before, planted, training, task.defence, rng, rest, distinguisher)
        found.append((scores, coins))
    scores, coins = (torch.cat(parts) for parts in zip(*found, strict=True))
    guesses = len(scores) // 4  # the surest quarter; fixed before any score is seen
    return Result(
        {
            **_told(roc(scores[coins], scores[~coins], rng)),
            "epsilon": one_run_epsilon(scores, coins, DELTA, guesses),
            "epsilon_null": one_run_epsilon(scores, coins[torch.randperm(len(coins), generator=rng)], DELTA, guesses),
        }
    )


_ASKED: Mapping[Asked, Callable[[_Case, Generator], Result]] = {
    "label counts": _label_counts,
    "prevalence": _share,
    "exposure": _share,
    "membership": _membership,
    "canaries": _canaries,
}


def _scored(guess: Tensor, truth: Tensor, public: Tensor, rng: Generator) -> MixScore:
    return score_mixes(guess, truth, public, torch.zeros(len(guess)), rng)


def _errors(found: MixScore, cases: int) -> dict[str, float | int]:
    """Of a class's or a property's share; `null`: of whoever says what public images have."""
    return {
        "error": found.error.mean,
        "error_low": found.error.low,
        "error_high": found.error.high,
        "error_null": found.public.mean,
        "p_value": found.p_value,
        "cases": cases,
    }


def _told(curve: Roc) -> dict[str, float | int]:
    """Against .5, which guessing gives."""
    return {
        "auc": curve.auc.mean,
        "auc_low": curve.auc.low,
        "auc_high": curve.auc.high,
        "p_value": curve.p_value,
        "cases": curve.auc.n,
    }
