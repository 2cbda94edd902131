"""What learned attacks share: clients that look alike are learned for once, and what was simulated is kept."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from fluoroscope.atomic_write import make_folder, write_tensors
from fluoroscope.attacks.common.checkpoint import Checkpoint
from fluoroscope.attacks.common.running import OnIteration
from fluoroscope.attacks.common.setup import SIMULATION, Setup
from fluoroscope.attacks.learned.evidence import Evidence
from fluoroscope.attacks.learned.simulated_rounds import SimulatedRounds, learnt_from, simulate
from fluoroscope.digest import digest
from fluoroscope.errors import Unsupported
from fluoroscope.threat_models.needs import require
from fluoroscope.types import Capability, Observation, Reconstruction

NEEDS = SIMULATION | {Capability.PUBLIC_IMAGES, Capability.DEFENCE}
"""Of the update itself they take whatever is seen of it."""
FORMAT = 2
"""Of what is kept: rounds of another one are simulated again."""
TICKS = 100
"""Iterations that the simulation of a group counts for."""


_LAST: dict[tuple[str, int], SimulatedRounds] = {}
"""What this process simulated last: attacks that are given clients one by one ask for the same again."""


@dataclass(frozen=True, eq=False)
class Lesson:
    """Observations that the same simulated rounds tell about."""

    places: tuple[int, ...]
    """In the list of all observations."""
    observations: tuple[Observation, ...]
    setup: Setup
    evidence: Evidence
    rounds: SimulatedRounds
    report: Callable[[int], None]
    """Told the iteration after the simulation."""

    def seen(self) -> dict[str, torch.Tensor]:
        """Per kind of evidence (observations, values)."""
        read = [self.evidence.read(observation) for observation in self.observations]
        return {kind: torch.stack([each[kind] for each in read]) for kind in read[0]}


def lessons(
    attack: str,
    observations: Sequence[Observation],
    rng: torch.Generator,
    on_iteration: OnIteration,
    checkpoint: Checkpoint | None,
    needs: frozenset[Capability] = NEEDS,
    iterations: int = 0,
) -> Iterator[Lesson]:
    """Simulated rounds for each group of observations of the same global model, training, defence and public images.

    Args:
        attack: its name, for errors.
        observations: what it was given.
        rng: a single seed is drawn from it, so that a guess does not depend on its neighbours.
        on_iteration: told of TICKS iterations per group here, and of `iterations` more by `Lesson.report`.
        checkpoint: where simulated rounds are kept.
        needs: what the attack cannot do without.
        iterations: that the attack itself takes per group.
    """
    seed = int(torch.randint(2**62, (), generator=rng))
    groups: dict[str, list[int]] = {}
    for place, observation in enumerate(observations):
        require(attack, observation, sorted(needs))
        evidence = Evidence.of(observation)
        if not evidence.shapes and not evidence.buffers:
            raise Unsupported(f"{attack} learns from what is seen of an update, and of this one nothing is seen.")
        groups.setdefault(_key(observation, evidence), []).append(place)
    each = TICKS + iterations
    for number, (key, places) in enumerate(groups.items()):
        tell = partial(_tell, on_iteration, number * each, len(groups) * each)
        first = observations[places[0]]
        setup, evidence = Setup.of(first, needs, attack), Evidence.of(first)
        public, defence = learnt_from(first)
        made = _LAST.get((key, seed)) or _kept(checkpoint, key, seed)
        if made is None:
            made = simulate(setup, public, defence, evidence, seed, partial(_tick, tell))
            _keep(made, checkpoint, key, seed)
        else:
            tell(TICKS - 1)
        _LAST.clear()
        _LAST[key, seed] = made
        seen = tuple(observations[place] for place in places)
        yield Lesson(tuple(places), seen, setup, evidence, made, partial(_after, tell))


def guessed(asked: Iterable[Lesson], guess: Callable[[Lesson], Sequence[Reconstruction]]) -> list[Reconstruction]:
    """What `guess` makes of each lesson, in the order of all observations."""
    found: dict[int, Reconstruction] = {}
    for lesson in asked:
        found |= zip(lesson.places, guess(lesson), strict=True)
    return [found[place] for place in sorted(found)]


def _key(observation: Observation, evidence: Evidence) -> str:
    return digest(
        FORMAT,
        observation.knowledge.capabilities,
        observation.network,
        observation.training,
        observation.state_before,
        observation.buffers_before,
        observation.public_images,
        observation.defence,
        evidence,
    )


def _tell(on_iteration: OnIteration, done: int, iterations: int, iteration: int) -> None:
    if iteration >= 0:
        on_iteration(done + iteration, iterations)


def _tick(tell: Callable[[int], None], client: int, clients: int) -> None:
    tell((client + 1) * TICKS // clients - 1)


def _after(tell: Callable[[int], None], iteration: int) -> None:
    tell(TICKS + iteration)


def _keep(rounds: SimulatedRounds, checkpoint: Checkpoint | None, key: str, seed: int) -> None:
    if checkpoint is not None:
        path = checkpoint.folder / f"simulated-{digest(key, seed)[:24]}.safetensors"
        make_folder(path.parent)
        arrays = {"images": rounds.images, "folds": rounds.folds}
        write_tensors(path, arrays | {f"evidence.{kind}": value for kind, value in rounds.evidence.items()})


def _kept(checkpoint: Checkpoint | None, key: str, seed: int) -> SimulatedRounds | None:
    """What an earlier run simulated; a file that cannot be read counts as not there."""
    if checkpoint is None:
        return None
    path = checkpoint.folder / f"simulated-{digest(key, seed)[:24]}.safetensors"
    try:
        read = load_file(path)
        evidence = {name.removeprefix("evidence."): v for name, v in read.items() if name.startswith("evidence.")}
        return SimulatedRounds(read["images"], evidence, read["folds"])
    except (OSError, SafetensorError, KeyError):
        return None
