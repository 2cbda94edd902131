"""Which attacks a reconstruction cell plays: the one that its plan names, or what a rehearsal chooses among all."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from fluoroscope.attacks import ATTACKS, Attack
from fluoroscope.attacks.common.checkpoint import Checkpoint
from fluoroscope.audit.scored import finite
from fluoroscope.cells import CellContext
from fluoroscope.findings import RehearsedAttack, Role, Score
from fluoroscope.rng import generator
from fluoroscope.scenarios.auto_attacks import AUTO, LEFT_OUT, candidates, iterations
from fluoroscope.scenarios.playing import form_for, shared
from fluoroscope.scenarios.rehearsal import Effort, Rehearsal, rehearse
from fluoroscope.scenarios.rehearsed import Rehearsed
from fluoroscope.scores.intervals import Interval
from fluoroscope.scores.null import AgainstOthers
from fluoroscope.types import Capability, Observation, Reconstruction

Run = Callable[..., list[Reconstruction]]
Attacks = Attack | Mapping[str, Attack]
ScoreGuesses = Callable[[list[Reconstruction]], AgainstOthers | None]
"""Of guesses about the real victims; None where there is nobody to compare with."""
_ROLES: tuple[Role, Role] = ("best", "runner-up")
_START = 2.5
"""Seconds in which the process of an attack starts."""


@dataclass(frozen=True, eq=False)
class Played:
    """Guesses about every victim, and how the attack behind them was chosen."""

    guesses: list[Reconstruction]
    """Of the attack that did best in the rehearsal; where it says that it has nothing, of the runner-up."""
    rehearsal: Rehearsal | None = None
    """None where the plan names the attack."""
    alone: Mapping[str, list[Reconstruction]] = field(default_factory=dict)
    """Those of the best and of the runner-up."""

    def rows(self, score: ScoreGuesses) -> tuple[RehearsedAttack, ...]:
        """All attacks as findings list them."""
        if self.rehearsal is None:
            return ()
        roles = dict(zip(self.rehearsal.chosen, _ROLES, strict=False))
        found = [rehearsed_row(row, roles.get(row.name), self._played(row.name, score)) for row in self.rehearsal.rows]
        asked = {row.name for row in self.rehearsal.rows}
        left_out = {**dict.fromkeys(candidates(), "the plan does not name it"), **LEFT_OUT}
        return (
            *found,
            *(
                RehearsedAttack(attack=name, applies=False, reason=f"not tried: {why}")
                for name, why in left_out.items()
                if name not in asked
            ),
        )

    def _played(self, name: str, score: ScoreGuesses) -> Interval | None:
        guesses = self.alone.get(name)
        found = None if guesses is None else score(guesses)
        return None if found is None else found.leak


def attacks_of(name: str, among: Sequence[str] = ()) -> Attacks:
    """The attack of this name, or all that `auto` chooses among: those that are named, or all that there are."""
    if name != AUTO:
        return ATTACKS.get(name)
    return {each: ATTACKS.get(each) for each in among} or candidates()


def play(attacks: Attacks, seen: Sequence[Observation], context: CellContext, run: Run) -> Played:
    """Attack every observation, each of another victim under the same training and defence."""
    if not isinstance(attacks, Mapping):
        return Played(_guessed(attacks, seen, context, run, Checkpoint(context.checkpoint), 0.0, 1.0))
    rehearsal = rehearse(
        seen[0],
        attacks,
        context.seed,
        run=run,
        on_progress=lambda i, n: context.on_progress(0.5 * i / n),
        kept=context.checkpoint / "rehearsed",
    )
    kept, alone = Checkpoint(context.checkpoint), {}
    for number, name in enumerate(rehearsal.chosen):
        begin = 0.5 + 0.25 * number
        learned = Capability.PUBLIC_IMAGES in attacks[name].needs
        own = shared(context.checkpoint / "learned") if learned else kept.part(name)
        alone[name] = _guessed(attacks[name], seen, context, run, own, begin, begin + 0.25)
    if not alone:
        return Played([_nothing(each, rehearsal.why_none()) for each in seen], rehearsal)
    merged = [
        next((guess for guess in about if not guess.nothing), about[0]) for about in zip(*alone.values(), strict=True)
    ]
    return Played(merged, rehearsal, alone)


def _guessed(
    attack: Attack,
    seen: Sequence[Observation],
    context: CellContext,
    run: Run,
    checkpoint: Checkpoint,
    begin: float,
    end: float,
) -> list[Reconstruction]:
    return run(
        attack,
        [form_for(attack)(each) for each in seen],
        generator(context.seed, "audit", "attack"),
        lambda i, n: context.on_progress(begin + (end - begin) * (i + 1) / n),
        checkpoint,
    )


def _nothing(seen: Observation, why: str) -> Reconstruction:
    assert seen.public_mean is not None
    return Reconstruction(seen.public_mean[None].clone(), None, math.inf, nothing=why)


def rehearsed_row(row: Rehearsed, role: Role | None, played: Interval | None) -> RehearsedAttack:
    """One attack as findings list it; `played` is its leak on the real victims."""
    return RehearsedAttack(
        attack=row.name,
        applies=row.applies,
        reason=row.reason or None,
        role=role,
        leak=_score(row.leak),
        told_apart=_score(row.told_apart, row.chance),
        p_value=row.p_value,
        played=_score(played),
    )


def _score(found: Interval | None, chance: float | None = None) -> Score | None:
    if found is None:
        return None
    value, low, high = map(finite, (found.mean, found.low, found.high))
    return Score(value=value, low=low, high=high, n=found.n, chance=chance)


def expected(attacks: Mapping[str, Attack], victims: int, images: int, public: int) -> tuple[float, float]:
    """About what `auto` costs: seconds beside the work, and the work in images that pass through an iteration."""
    effort = Effort()
    tried = played = 0.0
    for attack in attacks.values():
        # What is learned is learned from a few rounds per public image.
        whole = iterations(attack) or (3 * public / victims if Capability.PUBLIC_IMAGES in attack.needs else 1)
        played = max(played, whole)
        tried += min(whole, effort.iterations) if iterations(attack) else whole
    return _START * (len(attacks) + 2), images * (effort.victims * tried + 2 * victims * played)
