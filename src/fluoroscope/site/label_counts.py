"""How many images of each class a server reads from an update, against what the public mix would have told it."""

from dataclasses import replace

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


def read_label_counts(
    ground: Simulated, own: PrivateBatch, seed: int, time_left: TimeLeft
) -> tuple[Reading, tuple[str, ...]]:
    """The reading, and what was left out.

    The attack is chosen by how it does on simulated clients; the true counts have no part in that.
    """
    ground = ground.learning_from(max(_LEARNING, _TIMES * len(own)))
    seen, classes = ground.seen, 0 if ground.seen.network is None else ground.seen.network.outputs
    if own.labels.ndim != 1:
        return _not("the label counts are of one class per image, and these images have several findings each"), ()
    if classes < 2:
        return _not("the network has one output, so that there are no classes to count"), ()
    rounds = int(_SHARE * time_left.left / max(ground.round_seconds, 1e-6))
    if rounds < _CLIENTS[0]:
        short = f"{_CLIENTS[0]} simulated rounds take about {_CLIENTS[0] * ground.round_seconds:.0f} s"
        return _not(f"there was no time for the label counts: {short}"), (f"label counts: {short}",)
    clients = min(max(rounds // 4, _CLIENTS[0]), _CLIENTS[1])
    cases, truth = _cases(ground, clients, classes, seed)
    public = _shares(ground.learning.labels, classes)
    tried: dict[str, tuple[MixScore, Tensor]] = {}
    left_out = []
    for name, attack in _attacks(rounds - clients):
        if any(_works(scored) for scored, _ in tried.values()):
            left_out.append(f"{name}: not needed, since a quicker attack works on simulated clients")
            continue
        if attack is None:
            left_out.append(f"{name}: {_SIMULATIONS[0]} more simulated rounds did not fit into the time")
            continue
        try:
            guesses = attack.run([*cases, seen], generator(seed, "meter", name)) / len(own)
        except Unsupported as problem:
            left_out.append(left_out_for(name, str(problem)))
            continue
        rng = generator(seed, "meter", "label counts", "bootstrap")
        alike = torch.zeros(clients)
        tried[name] = score_mixes(guesses[:-1], truth, public, alike, rng), guesses[-1].double()
    if not tried:
        return _not(f"no attack on label counts could be tried: {'; '.join(left_out)}".rstrip(".")), tuple(left_out)
    name = min(tried, key=lambda each: tried[each][0].error.mean)
    return _read(name, *tried[name], _shares(own.labels, classes), public, clients), tuple(left_out)


def _read(name: str, scored: MixScore, guess: Tensor, truth: Tensor, public: Tensor, clients: int) -> Reading:
    error, known = (float((each - truth).abs().mean()) for each in (guess, public))
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
        truth.append(_shares(batch.labels, classes))
    return cases, torch.stack(truth)


def _shares(labels: Tensor, classes: int) -> Tensor:
    return labels.bincount(minlength=classes).double() / len(labels)


def _not(why: str) -> Reading:
    return Reading("label-counts", None, f"Not judged: {why}.")
