"""One setting under attack: by all attackers that apply, the best of whom a rehearsal chooses at this very setting."""

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fluoroscope.attacks import Attack
from fluoroscope.attacks.common.checkpoint import Checkpoint
from fluoroscope.calibration.measured import Measured
from fluoroscope.calibration.stage import Stage
from fluoroscope.defences import Chain
from fluoroscope.errors import Unsupported
from fluoroscope.rng import generator
from fluoroscope.scenarios.auto_attacks import iterations
from fluoroscope.scenarios.isolation import run_isolated
from fluoroscope.scenarios.playing import at_once, chunks, form_for, shared
from fluoroscope.scenarios.rehearsal import Effort, rehearse
from fluoroscope.scenarios.rehearsed import Rehearsed
from fluoroscope.types import Capability, Observation, Reconstruction

SHORT = 200
"""Iterations of the longest descent that is played at every setting of a search."""


@dataclass(frozen=True)
class Attackers:
    """Who attacks, and how they are chosen."""

    attacks: Mapping[str, Attack]
    rehearsed: bool = True
    """Whether the best two are chosen among them; else all of them are played."""
    effort: Effort = field(default_factory=Effort)


def screening(attackers: Attackers, bare: Measured) -> tuple[str, ...]:
    """Who is played at every setting of a search: who learns the defence, and the best ones without it, but for long
    descents. Who is named rather than chosen is played anyway. The setting that a search ends with meets everybody."""
    if not attackers.rehearsed:
        return tuple(attackers.attacks)
    adapt = [name for name, attack in attackers.attacks.items() if Capability.DEFENCE in attack.needs]
    asked = dict.fromkeys([*adapt, *(each.attack for each in bare.played)])
    return tuple(name for name in asked if (iterations(attackers.attacks[name]) or 0) <= SHORT)


def measure(stage: Stage, defence: Chain, attackers: Attackers, seed: int, kept: Path | None = None) -> Measured:
    """Rehearse the attackers behind this defence, and play the best two on every victim; or play those that are named.

    Args:
        stage: the victims.
        defence: what stands between each of them and the server; the attackers know it.
        attackers: who is rehearsed, or played.
        seed: of the victims' rounds, of what the defence draws and of the attacks.
        kept: a folder where a rehearsal that was killed goes on.
    """
    said: dict[str, str] = {}
    chosen = tuple(attackers.attacks)
    if attackers.rehearsed:
        known = stage.round_of(defence)
        rehearsal = rehearse(known, attackers.attacks, seed, attackers.effort, run_isolated, kept=kept)
        said = {row.name: in_words(row) for row in rehearsal.rows}
        chosen = rehearsal.chosen
    with tempfile.TemporaryDirectory(prefix="fluoroscope-calibration-") as folder:
        found = [play(stage, defence, name, attackers.attacks[name], seed, Path(folder)) for name in chosen]
    played = tuple(each for one in found for each in one.played)
    return Measured(played, said | {name: words for one in found for name, words in one.rehearsed.items()})


def play(stage: Stage, defence: Chain, name: str, attack: Attack, seed: int, folder: Path) -> Measured:
    """One attack on every victim; what it simulates is kept in `folder`, for the next one at the same setting."""
    guesses: list[Reconstruction] = []
    first = stage.seen(defence, 0, seed)
    try:
        for numbers in chunks(stage.victims, at_once(first.update or {})):  # updates are large
            shown = [stage.seen(defence, number, seed) for number in numbers]
            guesses += _guessed(attack, shown, seed, shared(folder))
    except Unsupported as problem:
        return Measured((), {name: f"does not apply: {problem}"})
    return Measured((stage.score(name, guesses, seed),), {})


def in_words(row: Rehearsed) -> str:
    """What a rehearsal said of one attack."""
    if row.leak is None:
        return row.reason
    found = f"leak {row.leak.mean:.3f} ({row.leak.low:.3f} to {row.leak.high:.3f})"
    return f"{found}; {row.reason}" if row.reason else found


def _guessed(attack: Attack, shown: Sequence[Observation], seed: int, kept: Checkpoint) -> list[Reconstruction]:
    form, rng = form_for(attack), generator(seed, "calibration", "attack")
    return run_isolated(attack, [form(each) for each in shown], rng, checkpoint=kept)
