"""The attacks of a meter, tried on simulated clients and played on the real update in one go, within the time.

Which of the guesses counts is decided by the simulated clients alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Unpack

import torch

from fluoroscope.attacks import Attack
from fluoroscope.attacks.common.checkpoint import Checkpoint
from fluoroscope.errors import FluoroscopeError
from fluoroscope.rng import generator
from fluoroscope.scenarios.auto_attacks import candidates, iterations
from fluoroscope.scenarios.isolation import TookTooLong, run_isolated
from fluoroscope.scenarios.playing import form_for, shared
from fluoroscope.scenarios.rehearsal import Effort, Limits, Rehearsal, Run, inapplicable, tried
from fluoroscope.scenarios.rehearsed import Rehearsed
from fluoroscope.site.learned import Learned, read_learned, write_learned
from fluoroscope.site.reading import left_out_for
from fluoroscope.site.simulated import Simulated
from fluoroscope.site.time_left import TimeLeft
from fluoroscope.types import Capability, Observation, Reconstruction

_QUICK = ("ridge", "map-inversion", "span", "feature-decoder", "r-gap", "decoder")
"""The order in which attacks without a long descent are tried, where a client has few images."""
_QUICK_OF_MANY = ("span", "feature-decoder", "ridge", "r-gap", "map-inversion", "decoder")
"""Of a client with more images than `ridge` tells one by one."""
_FEW = 8
_SURE = 0.05
_START = 3.0
"""Seconds in which the process of an attack starts and says what it found."""
_SHARPENING = 4e-6
"""Seconds per pixel and epoch that `decoder` learns for, on a machine that has other work."""
_LAST_WORD = 0.05
"""Of the budget is kept for scoring what was found."""


@dataclass(frozen=True, eq=False)
class Trials:
    """What the simulated clients showed, and what the best attacks made of the real update."""

    rehearsal: Rehearsal
    guesses: dict[str, Reconstruction]
    left_out: tuple[str, ...]

    @property
    def best(self) -> Rehearsed | None:
        """By the simulated clients, of the attacks that made a guess here too; None where there is none."""
        rows = {row.name: row for row in self.rehearsal.rows}
        made = [name for name in self.rehearsal.ranking if name in self.guesses and not self.guesses[name].nothing]
        return rows[made[0]] if made else None

    @property
    def able(self) -> Rehearsed | None:
        """The best attack of all, whether it made a guess here or not, where it is told from chance."""
        rows = [row for row in self.rehearsal.rows if row.name == self.rehearsal.best]
        return rows[0] if rows and works(rows[0]) else None


def works(row: Rehearsed) -> bool:
    """Whether it is told from chance on simulated clients."""
    return row.leak is not None and row.p_value is not None and row.leak.low > 0 and row.p_value <= _SURE


def play(ground: Simulated, folder: Path, seed: int, time_left: TimeLeft, run: Run = run_isolated) -> Trials:
    """Try all attacks that fit into the time; of what an earlier meter learned in this folder, the best alone."""
    time_left = replace(time_left, seconds=(1 - _LAST_WORD) * time_left.seconds)
    known = read_learned(folder)
    if known is not None and (known.seconds >= time_left.seconds or any(map(works, known.rows))):
        found = _again(ground.learning_from(known.learning), known, folder, seed, time_left, run)
        if found is not None:
            return found
    return _all(ground, folder, seed, time_left, run)


def _again(ground: Simulated, known: Learned, folder: Path, seed: int, time_left: TimeLeft, run: Run) -> Trials | None:
    """None where no attack of then can be played now."""
    rehearsal = _rehearsal(known.rows, ground)
    attacks, guesses, left_out = candidates(), {}, list(known.left_out)
    for name in rehearsal.ranking:
        if name not in attacks:
            return None
        try:
            guesses[name] = _alone(attacks[name], ground.seen, folder, seed, time_left, run)
        except FluoroscopeError as problem:
            left_out.append(left_out_for(name, problem))
            continue
        if not guesses[name].nothing:
            break
    return Trials(rehearsal, guesses, tuple(left_out))


def _all(ground: Simulated, folder: Path, seed: int, time_left: TimeLeft, run: Run) -> Trials:
    assert ground.seen.training is not None
    attacks, kept = candidates(), shared(folder)
    images, affordable = ground.seen.training.images, ground.affordable(time_left.left)
    ground = ground if affordable is None else ground.learning_from(affordable)
    rows: list[Rehearsed] = []
    guesses: dict[str, Reconstruction] = {}
    left_out, simulated = [], False
    for name in _order(attacks, images):
        attack, learned = attacks[name], Capability.PUBLIC_IMAGES in attacks[name].needs
        if (row := inapplicable(name, attack, ground.seen)) is not None:  # before there is no time for it
            left_out.append(left_out_for(name, row.reason))
            rows.append(row)
            continue
        if _descends(name, attack) and any(map(works, rows)):
            left_out.append(f"{name}: not needed, since a quicker attack works on simulated clients")
            continue
        if learned and affordable is None:
            left_out.append(f"{name}: {ground.learning_seconds:.0f} s of simulated rounds do not fit into the time")
            continue
        needed = _START + (ground.learning_seconds if learned and not simulated else 0.0)
        needed += _sharpening(attack, ground)
        if needed > time_left.left:
            left_out.append(f"{name}: takes about {needed:.0f} s, and {time_left.left:.0f} s were left")
            continue
        share = time_left.left * (0.5 if _descends(name, attack) else 1.0)
        both = _Alongside(run, ground.seen, share, kept)
        effort = Effort(victims=len(ground.stage.victims))
        row = tried(name, attack, ground.stage, effort, share, seed, both)
        simulated = simulated or (learned and row.applies)
        if row.leak is None:
            left_out.append(left_out_for(name, row.reason))
        rows.append(row)
        if both.guesses:
            guesses[name] = both.guesses[-1]
    trials = Trials(_rehearsal(tuple(rows), ground), guesses, tuple(left_out))
    write_learned(
        folder,
        Learned(
            tuple(rows),
            len(ground.learning),
            len(ground.stage.victims),
            time_left.seconds,
            tuple(left_out),
        ),
    )
    return _whole(trials, attacks, ground, folder, seed, time_left, run)


def _whole(
    trials: Trials,
    attacks: dict[str, Attack],
    ground: Simulated,
    folder: Path,
    seed: int,
    time_left: TimeLeft,
    run: Run,
) -> Trials:
    """A descent that was cut for the trials is played with all of its iterations, where the time suffices."""
    best = trials.best
    if best is None or not best.reason.startswith("cut to"):
        return trials
    try:
        guess = _alone(attacks[best.name], ground.seen, folder, seed, time_left, run)
    except FluoroscopeError as problem:
        said = f"{best.name}: played on your update {best.reason}, since {problem}".rstrip(".")
        return replace(trials, left_out=(*trials.left_out, said))
    return replace(trials, guesses={**trials.guesses, best.name: guess})


def _alone(attack: Attack, seen: Observation, folder: Path, seed: int, time_left: TimeLeft, run: Run) -> Reconstruction:
    if not time_left.left:
        raise TookTooLong("there was no time left.")
    rng, shown = generator(seed, "rehearsal", "attack"), form_for(attack)(seen)
    return run(attack, [shown], rng, checkpoint=shared(folder), seconds=time_left.left)[0]


@dataclass
class _Alongside:
    """Runs an attack on the simulated clients and the real one in one process, which starts and learns once."""

    run: Run
    seen: Observation
    most: float
    """Seconds by the clock."""
    checkpoint: Checkpoint
    """Where all attacks share what they learn."""
    guesses: list[Reconstruction] = field(default_factory=list)

    def __call__(
        self, attack: Attack, observations: list[Observation], rng: torch.Generator, **limits: Unpack[Limits]
    ) -> list[Reconstruction]:
        seconds = limits.get("seconds")
        most = self.most if seconds is None else min(seconds, self.most)
        everybody = [*observations, form_for(attack)(self.seen)]
        *about, real = self.run(attack, everybody, rng, checkpoint=self.checkpoint, seconds=most)
        self.guesses.append(real)
        return about


def _order(attacks: dict[str, Attack], images: int) -> list[str]:
    quick = _QUICK if images <= _FEW else _QUICK_OF_MANY
    return [*(name for name in quick if name in attacks), *(name for name in attacks if name not in quick)]


def _descends(name: str, attack: Attack) -> bool:
    return name not in _QUICK and iterations(attack) is not None


def _sharpening(attack: Attack, ground: Simulated) -> float:
    """Seconds that a network is trained for before there is a guess."""
    epochs: int = getattr(attack, "epochs", 0)
    pixels: int = ground.learning.images.numel()
    return _SHARPENING * epochs * pixels


def _rehearsal(rows: Sequence[Rehearsed], ground: Simulated) -> Rehearsal:
    stage = ground.stage
    return Rehearsal(tuple(rows), len(stage.victims), len(stage.victims[0]), len(stage.learning))
