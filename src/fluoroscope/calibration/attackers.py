"""One setting under attack: by all attackers that apply, the best of whom a rehearsal chooses at this very setting."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fluoroscope.attacks import Attack
from fluoroscope.attacks.common.checkpoint import Checkpoint
from fluoroscope.calibration.measured import Leak, Measured
from fluoroscope.calibration.stage import Stage
from fluoroscope.defences import Chain
from fluoroscope.errors import Unsupported
from fluoroscope.rng import generator
from fluoroscope.scenarios.isolation import run_isolated
from fluoroscope.scenarios.playing import at_once, chunks, form_for, shared
from fluoroscope.scenarios.rehearsal import Effort, Rehearsed, rehearse
from fluoroscope.types import Observation, Reconstruction


@dataclass(frozen=True)
class Attackers:
    """Who attacks, and how they are chosen."""

    attacks: Mapping[str, Attack]
    rehearsed: bool = True
    """Whether the best two are chosen among them; else all of them are played."""
    effort: Effort = field(default_factory=Effort)


def measure(stage: Stage, defence: Chain, attackers: Attackers, seed: int, also: Sequence[str] = ()) -> Measured:
    """Play the attackers on every victim behind this defence.

    Args:
        stage: the victims.
        defence: what stands between each of them and the server; the attackers know it.
        attackers: who is rehearsed, or played.
        seed: of the victims' rounds, of what the defence draws and of the attacks.
        also: attacks to play beside the ones that the rehearsal chooses, such as the best one without the defence.
    """
    said: dict[str, str] = {}
    chosen = list(attackers.attacks)
    if attackers.rehearsed:
        rehearsal = rehearse(stage.round_of(defence), attackers.attacks, seed, attackers.effort, run_isolated)
        said = {row.name: in_words(row) for row in rehearsal.rows}
        applies = {row.name for row in rehearsal.rows if row.applies}
        chosen = list(dict.fromkeys([*rehearsal.chosen, *(name for name in also if name in applies)]))
    guesses: dict[str, list[Reconstruction]] = {name: [] for name in chosen}
    first = stage.seen(defence, 0, seed)
    with tempfile.TemporaryDirectory(prefix="fluoroscope-calibration-") as folder:
        for numbers in chunks(stage.victims, at_once(first.update or {})):  # updates are large
            shown = [stage.seen(defence, number, seed) for number in numbers]
            for name in [name for name in chosen if name in guesses]:
                try:
                    guesses[name] += _guessed(attackers.attacks[name], shown, seed, shared(Path(folder)))
                except Unsupported as problem:
                    said[name] = f"does not apply: {problem}"
                    del guesses[name]
    played: list[Leak] = [stage.score(name, found, seed) for name, found in guesses.items()]
    return Measured(tuple(played), said)


def in_words(row: Rehearsed) -> str:
    """What a rehearsal said of one attack."""
    if row.leak is None:
        return row.reason
    found = f"leak {row.leak.mean:.3f} ({row.leak.low:.3f} to {row.leak.high:.3f})"
    return f"{found}; {row.reason}" if row.reason else found


def _guessed(attack: Attack, shown: Sequence[Observation], seed: int, kept: Checkpoint) -> list[Reconstruction]:
    form, rng = form_for(attack), generator(seed, "calibration", "attack")
    return run_isolated(attack, [form(each) for each in shown], rng, checkpoint=kept)
