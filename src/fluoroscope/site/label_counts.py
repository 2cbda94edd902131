"""How many images of each class a server reads from an update, against what the public mix would have told it."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fluoroscope.attacks.inference import LABEL_COUNT_ATTACKS, LabelCountAttack
from fluoroscope.attacks.inference.learned_counts import LearnedCounts, random_mix
from fluoroscope.defences import chain
from fluoroscope.errors import Unsupported
from fluoroscope.rng import generator
from fluoroscope.scenarios.simulated_victims import simulated_round
from fluoroscope.scores.label_counts import MixScore, score_mixes
from fluoroscope.site.reading import Reading, left_out_for
from fluoroscope.site.simulated import Simulated, pooled
from fluoroscope.site.time_left import TimeLeft
from fluoroscope.threat_models import observe
from fluoroscope.types import Observation, PrivateBatch

_CLOSED, _LEARNED = "restored-counts", "learned-counts"
_SHARE = 0.3
"""Of the time that is left."""
_CLIENTS = (8, 20)
"""Simulated clients of random mixes that an attack is tried on: at least, at most."""
_SIMULATIONS = (16, 64)
"""Rounds to learn from."""
_LEARNING, _TIMES = 128, 8
"""Public images that are learned from: so many, or so many times the client's. More take longer and tell no more."""
_SURE = 0.05
_SEVERAL = "the label counts are of one class per image, and these images have several findings each"


@dataclass(frozen=True, eq=False)
class GuessedCounts:
    """A server's guess of one client's class mix, and how its attack does on simulated clients."""

    attack: str
    scored: MixScore
    """Of the simulated clients."""
    shares: Tensor
    """Guessed, of the real client: (classes,)."""
    public: Tensor
    """Among public images: what is known without an update."""
    guesses: Tensor
    """Of the simulated clients, (clients, classes)."""
    truth: Tensor
    """Their own, (clients, classes)."""

    @property
    def clients(self) -> int:
        """That were simulated."""
        return len(self.truth)

    @property
    def works(self) -> bool:
        """Whether the attack is told from chance on simulated clients."""
        return _works(self.scored)


def read_label_counts(
    ground: Simulated, own: PrivateBatch, seed: int, time_left: TimeLeft
) -> tuple[Reading, tuple[str, ...]]:
    """The reading, and what was left out.

    The attack is chosen by how it does on simulated clients; the true counts have no part in that.
    """
    if own.labels.ndim != 1:
        return _not(_SEVERAL), ()
    try:
        guessed, left_out = guess_label_counts(ground, seed, time_left)
    except NoCounts as problem:
        return _not(str(problem).rstrip(".")), problem.left_out
    return _read(guessed, shares(own.labels, len(guessed.public))), left_out


class NoCounts(Unsupported):
    """There is no guess of the counts; what was left out says more."""

    def __init__(self, why: str, left_out: tuple[str, ...] = ()) -> None:
        super().__init__(why)
        self.left_out = left_out


def guess_label_counts(ground: Simulated, seed: int, time_left: TimeLeft) -> tuple[GuessedCounts, tuple[str, ...]]:
    """The guess of the attack that does best on simulated clients, and what was left out. No truth is asked for.

    Raises:
        NoCounts: there are no classes to count, there was no time, or no attack applies.
    """
    training = ground.seen.training
    assert training is not None
    images = training.images
    ground = ground.learning_from(max(_LEARNING, _TIMES * images))
    seen, classes = ground.seen, 0 if ground.seen.network is None else ground.seen.network.outputs
    if training.loss.multi_label:
        raise NoCounts(f"{_SEVERAL}.")
    if classes < 2:
        raise NoCounts("the network has one output, so that there are no classes to count.")
    rounds = int(_SHARE * time_left.left / max(ground.round_seconds, 1e-6))
    if rounds < _CLIENTS[0]:
        short = f"{_CLIENTS[0]} simulated rounds take about {_CLIENTS[0] * ground.round_seconds:.0f} s"
        raise NoCounts(f"there was no time for the label counts: {short}.", (f"label counts: {short}",))
    clients = min(max(rounds // 4, _CLIENTS[0]), _CLIENTS[1])
    cases, truth = _cases(ground, clients, classes, seed)
    public = shares(ground.learning.labels, classes)
    tried: dict[str, GuessedCounts] = {}
    left_out = []
    for name, attack in _attacks(rounds - clients):
        if any(each.works for each in tried.values()):
            left_out.append(f"{name}: not needed, since a quicker attack works on simulated clients")
            continue
        if attack is None:
            left_out.append(f"{name}: {_SIMULATIONS[0]} more simulated rounds did not fit into the time")
            continue
        try:
            guesses = attack.run([*cases, seen], generator(seed, "meter", name)) / images
        except Unsupported as problem:
            left_out.append(left_out_for(name, problem))
            continue
        rng = generator(seed, "meter", "label counts", "bootstrap")
        scored = score_mixes(guesses[:-1], truth, public, torch.zeros(clients), rng)
        tried[name] = GuessedCounts(name, scored, guesses[-1].double(), public, guesses[:-1].double(), truth)
    if not tried:
        raise NoCounts(f"no attack on label counts could be tried: {'; '.join(left_out)}", tuple(left_out))
    return min(tried.values(), key=lambda each: each.scored.error.mean), tuple(left_out)


def _read(guessed: GuessedCounts, truth: Tensor) -> Reading:
    name, scored, clients = guessed.attack, guessed.scored, guessed.clients
    error, known = (float((each - truth).abs().mean()) for each in (guessed.shares, guessed.public))
    numbers = {
        "error": error,
        "error_public": known,
        "rehearsal_error": scored.error.mean,
        "rehearsal_error_public": scored.public.mean,
        "rehearsal_clients": float(clients),
    }
    if not _works(scored):
        why = (
            f"{name} does not read the label counts of {clients} simulated clients of this training, so that a guess "
            "about yours says nothing"
        )
        return Reading("label-counts", None, f"Not judged: {why}.", name, scored.p_value, numbers)
    value = max(0.0, 1 - error / known) if known > 0 else 0.0
    better = 1 - scored.error.mean / scored.public.mean if scored.public.mean > 0 else 0.0
    sentence = (
        f"From this update a server can guess how many images of each class you hold {value:.0%} nearer to the truth "
        f"than from a public mix of classes; of {clients} simulated clients, {better:.0%} nearer."
        if value
        else "A server's guess of how many images of each class you hold is no nearer to the truth than a public mix "
        f"of classes, though of {clients} simulated clients it is {better:.0%} nearer."
    )
    return Reading("label-counts", value, sentence, name, scored.p_value, numbers)


def _works(scored: MixScore) -> bool:
    """Whether it is told from chance on simulated clients."""
    return scored.p_value <= _SURE and scored.gain.mean > 0


def _attacks(rounds: int) -> list[tuple[str, LabelCountAttack | None]]:
    """By name; None for what so many rounds do not suffice for."""
    learned, (fewest, most) = LABEL_COUNT_ATTACKS.get(_LEARNED), _SIMULATIONS
    assert isinstance(learned, LearnedCounts)
    cut = replace(learned, simulations=min(rounds, most)) if rounds >= fewest else None
    return [(_CLOSED, LABEL_COUNT_ATTACKS.get(_CLOSED)), (_LEARNED, cut)]


def _cases(ground: Simulated, clients: int, classes: int, seed: int) -> tuple[list[Observation], Tensor]:
    """Simulated clients of random mixes, of patients whom nobody learned from; and their true shares."""
    seen, pool = ground.seen, pooled(ground.patients)
    assert seen.training is not None
    places = [found for c in range(classes) if len(found := (pool.labels == c).nonzero()[:, 0])]
    defence = chain(*(() if seen.defence is None else seen.defence.parts))
    cases, truth = [], []
    for number in range(clients):
        rng = generator(seed, "meter", "label counts", number)
        batch = pool.subset(random_mix(places, seen.training.images, 1.0, rng))
        record = simulated_round(seen, batch, rng, defence)
        cases.append(
            observe(record, seen.knowledge, seen.public_mean, public_images=seen.public_images, defence=defence)
        )
        truth.append(shares(batch.labels, classes))
    return cases, torch.stack(truth)


def shares(labels: Tensor, classes: int) -> Tensor:
    """How large a part of the labels each class is."""
    return labels.bincount(minlength=classes).double() / len(labels)


def _not(why: str) -> Reading:
    return Reading("label-counts", None, f"Not judged: {why}.")
