"""Rehearsal: an attacker chooses among its attacks by how they do on clients that it simulates from public images.

It needs no truth, and no score of a real guess. The simulated clients train and are defended as the real one is, so
that an attack is tried in the form in which it would be played; what is learned is learned from other patients.
"""

import math
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypedDict, Unpack

import torch
from torch import Tensor

from fluoroscope.attacks import Attack, check_applies
from fluoroscope.attacks.common.checkpoint import Checkpoint
from fluoroscope.digest import digest
from fluoroscope.errors import Unsupported
from fluoroscope.rng import generator
from fluoroscope.scenarios.auto_attacks import cut_to, iterations
from fluoroscope.scenarios.isolation import run_isolated
from fluoroscope.scenarios.playing import form_for, shared
from fluoroscope.scenarios.rehearsed import KeptRehearsals, Rehearsed
from fluoroscope.scenarios.simulated_victims import NEEDED, SplitPublic, seen_of_victim, split_public
from fluoroscope.scores.null import against_others
from fluoroscope.threat_models.needs import require
from fluoroscope.types import LabelledImages, Observation, PrivateBatch, Reconstruction

_BACK_AND_FORTH = 2.5
"""What an attack's iteration costs in training steps (python -m benchmarks pullback)."""
_PATIENCE = 10
"""Times its share that an attack may take by the clock: a process that hangs is ended."""
_LEAST = 20
"""Iterations below which a descent shows nothing of what it can do."""


class Effort(NamedTuple):
    """How much is spent on a rehearsal."""

    victims: int = 6
    """Public patients in the client's place."""
    iterations: int = 60
    """Of a descent at most; the attack that is chosen is played with all of its own."""
    seconds: float = 600.0
    """Of processors, for all attacks together: a busy machine leaves none out. Each may take half of what the ones
    before it left, so the cheap ones come first."""


@dataclass(frozen=True)
class Rehearsal:
    """Every attack that was asked, in that order."""

    rows: tuple[Rehearsed, ...]
    victims: int
    images: int
    """Of each victim: fewer than the real client's where public images are few."""
    learning: int
    """Public images that the attacks had, which are other patients'."""

    @property
    def ranking(self) -> tuple[str, ...]:
        """Those that made a guess, by what it leaked beyond the null."""
        scored = [(row.leak.mean, row.name) for row in self.rows if row.leak is not None]
        return tuple(name for _, name in sorted(scored, key=lambda each: -each[0]))

    @property
    def best(self) -> str | None:
        """None where no attack applies, or all gave up."""
        return self.ranking[0] if self.ranking else None

    @property
    def runner_up(self) -> str | None:
        return self.ranking[1] if len(self.ranking) > 1 else None

    @property
    def chosen(self) -> tuple[str, ...]:
        """The best and the runner-up, where there are any."""
        return self.ranking[:2]

    def why_none(self) -> str:
        """For a result that no attack was behind."""
        return "; ".join(f"{row.name} {row.reason}".rstrip(".") for row in self.rows) or "there was none to try"


@dataclass(frozen=True, eq=False)
class Stage:
    """Simulated clients, and what the attacker would see of each."""

    seen: tuple[Observation, ...]
    victims: tuple[PrivateBatch, ...]
    learning: LabelledImages
    """What the attacker has."""
    others: tuple[Tensor, ...] = ()
    """Images of further patients, a set each, about whom nothing is guessed."""
    step_seconds: float = 0.0
    """Of processors, for one training step."""

    @property
    def round_seconds(self) -> float:
        """Of processors, for one simulated round."""
        return self.step_seconds * _steps_at_once(self.seen[:1])


class Limits(TypedDict, total=False):
    """What an attack may be given beside what it sees."""

    checkpoint: Checkpoint | None
    seconds: float | None


class Run(Protocol):
    """How an attack is run: `run_isolated`, as everywhere the truth may be at hand."""

    def __call__(
        self, attack: Attack, observations: list[Observation], rng: torch.Generator, **limits: Unpack[Limits]
    ) -> list[Reconstruction]: ...


def rehearse(
    seen: Observation,
    attacks: Mapping[str, Attack],
    seed: int,
    effort: Effort | None = None,
    run: Run = run_isolated,
    on_progress: Callable[[int, int], None] = lambda done, attacks: None,
    kept: Path | None = None,
) -> Rehearsal:
    """Try the attacks on clients simulated from the public images that this observation brings.

    Args:
        seen: what the attacker saw of the real client. Of its update nothing is used.
        attacks: by name, the cheap ones first.
        seed: of who is a victim, of the simulated rounds and of all that the attacks draw.
        effort: how much is spent.
        run: how an attack is run.
        on_progress: told how many attacks of how many are done.
        kept: a folder where one that was killed goes on.

    Raises:
        Unsupported: the attacker knows too little to simulate a client, or has images of too few patients.
    """
    effort = effort or Effort()
    require("a rehearsal", seen, NEEDED)
    assert seen.public_images is not None
    assert seen.training is not None
    split = split_public(
        seen.public_images, effort.victims, seen.training.images, generator(seed, "rehearsal", "patients")
    )
    stage = staged(seen, split, len(split.victims), seed)
    left, rows = effort.seconds, []
    done = KeptRehearsals(kept, digest(seen, effort, seed))
    with tempfile.TemporaryDirectory(prefix="fluoroscope-rehearsal-") as folder:
        simulated = shared(Path(folder))
        for number, (name, attack) in enumerate(attacks.items()):
            share = left / 2 if number + 1 < len(attacks) else left
            one = partial(_timed, name, attack, stage, effort, share, seed, partial(run, checkpoint=simulated))
            rows.append(done.once(name, attack, one))
            left -= rows[-1].seconds
            on_progress(number + 1, len(attacks))
    return Rehearsal(tuple(rows), len(split.victims), len(split.victims[0]), len(split.learning))


def staged(seen: Observation, split: SplitPublic, victims: int, seed: int) -> Stage:
    """Play the round of the first so many clients of the split; the rest are the others."""
    shown, taken = [], []
    for i, victim in enumerate(split.victims[:victims]):
        began = time.process_time()
        shown.append(seen_of_victim(seen, split, victim, generator(seed, "rehearsal", "victim", i)))
        taken.append(time.process_time() - began)
    steps = 1 if seen.training is None else seen.training.steps
    return Stage(
        tuple(shown),
        split.victims[:victims],
        split.learning,
        tuple(victim.images for victim in split.victims[victims:]),
        min(taken) / max(steps, 1),  # the first one warms up
    )


def _processor_seconds() -> float:
    """Of this process and of those that it started and that have ended."""
    now = os.times()
    return now.user + now.system + now.children_user + now.children_system


def _timed(name: str, attack: Attack, *how: Any) -> Rehearsed:  # noqa: ANN401  # as `tried` takes them
    began = _processor_seconds()
    return replace(tried(name, attack, *how), seconds=_processor_seconds() - began)


def tried(
    name: str, attack: Attack, stage: Stage, effort: Effort, share: float, seed: int, run: Run = run_isolated
) -> Rehearsed:
    """How one attack does on the simulated clients, in at most this share of processor seconds."""
    if reason := inapplicable(name, attack, stage.seen[0]):
        return reason
    shown = [form_for(attack)(each) for each in stage.seen]
    cut, said = _cut(attack, effort, share, stage.step_seconds * _steps_at_once(shown))
    if cut is None:
        return Rehearsed(name, False, said)
    try:
        guesses = run(cut, shown, generator(seed, "rehearsal", "attack"), seconds=_PATIENCE * max(share, 1.0))
    except Unsupported as problem:
        return _not_applying(name, problem)
    except Exception as problem:  # a plug-in may fail in any way: that is said, and the others go on
        return Rehearsed(name, False, f"failed: {problem or type(problem).__name__}")
    gave_up = [guess.nothing for guess in guesses if guess.nothing]
    if len(gave_up) == len(guesses):
        return Rehearsed(name, True, f"gave up: {gave_up[0]}")
    if gave_up:
        said = "; ".join(filter(None, (f"gave up on {len(gave_up)} of {len(guesses)}: {gave_up[0]}", said)))
    scored = against_others(
        [guess.images.cpu() for guess in guesses],
        [victim.images for victim in stage.victims],
        stage.learning.images.mean(0),
        generator(seed, "rehearsal", "bootstrap"),
        stage.others,
    )
    return Rehearsed(name, True, said, scored.leak, scored.told_apart, scored.chance, scored.p_value)


def inapplicable(name: str, attack: Attack, seen: Observation) -> Rehearsed | None:
    """The row of an attack that can tell without being run that it does not apply; None where it may."""
    try:
        check_applies(attack, form_for(attack)(seen))
    except Unsupported as problem:
        return _not_applying(name, problem)
    return None


def _not_applying(name: str, problem: Unsupported) -> Rehearsed:
    """Nobody chose this attack, so what to choose instead is left out."""
    return Rehearsed(name, False, f"does not apply: {problem.why.removeprefix(name).strip()}")


def _cut(attack: Attack, effort: Effort, share: float, pass_seconds: float) -> tuple[Attack | None, str]:
    """The attack within its share, with what was cut; None and the reason where that would leave too little of it."""
    whole = iterations(attack)
    if whole is None:
        return attack, ""
    each = attack.budget.iterations  # type: ignore[attr-defined]  # it has iterations, so it has a budget
    descents = whole / each
    affordable = math.floor(share / max(_BACK_AND_FORTH * pass_seconds * descents, 1e-9))
    most = min(each, effort.iterations, affordable)
    if most < min(each, _LEAST):
        forecast = _BACK_AND_FORTH * pass_seconds * descents * min(each, _LEAST)
        return (
            None,
            f"left out: {min(each, _LEAST)} iterations would take about {forecast:.0f} s, its share is {share:.0f} s",
        )
    return cut_to(attack, most), f"cut to {most} of {each} iterations" if most < each else ""


def _steps_at_once(stage: Sequence[Observation]) -> int:
    """Training steps that one iteration of a descent over all victims goes through."""
    return sum(each.training.steps for each in stage if each.training is not None)
