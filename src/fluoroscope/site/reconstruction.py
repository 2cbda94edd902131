"""How near a server's best guess comes to the site's own images, beyond what it reaches on other patients."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fluoroscope.attacks import ATTACKS, check_applies
from fluoroscope.defences import Chain
from fluoroscope.errors import FluoroscopeError
from fluoroscope.rng import generator
from fluoroscope.scenarios.curious_server import THREAT, seen_by
from fluoroscope.scenarios.isolation import run_isolated
from fluoroscope.scenarios.playing import form_for
from fluoroscope.scenarios.rehearsal import Run
from fluoroscope.scenarios.rehearsed import Rehearsed
from fluoroscope.scores.null import AgainstOthers, against_others
from fluoroscope.scores.similarity import ssim_matrix
from fluoroscope.site.reading import Reading, left_out_for
from fluoroscope.site.simulated import Simulated
from fluoroscope.site.time_left import TimeLeft
from fluoroscope.site.trials import Trials, works
from fluoroscope.threat_models import THREATS
from fluoroscope.types import PrivateBatch, UpdateRecord

CLOSED = ("span", "r-gap")
"""Attacks that need no public image."""
_SURE = 0.05
_SURER = 0.01
"""For a guess of an attack that does not work on simulated clients: one such guess in twenty is as near by chance."""


@dataclass(frozen=True, eq=False)
class Guessed:
    """A reading, with the images behind it: for the site's own eyes."""

    reading: Reading
    images: Tensor | None = None
    left_out: tuple[str, ...] = ()


def read_reconstruction(ground: Simulated, trials: Trials, own: PrivateBatch, seed: int) -> Guessed:
    """Score the guess of the attack that does best on simulated clients."""
    best = trials.best
    if best is None:
        able = trials.able
        why = (
            f"{able.name} works on simulated clients of this training and gave up on this update"
            if able is not None
            else f"no attack that was tried makes a guess ({trials.rehearsal.why_none()})"
        )
        return Guessed(_not(why), None, trials.left_out)
    guess = trials.guesses[best.name].images.cpu()
    mean, others = ground.learning.images.mean(0), ground.others
    beside = against_others([guess], [own.images], mean, generator(seed, "meter", "bootstrap"), others)
    numbers = _numbers(guess, own, others, beside, best)
    found = beside.p_value <= (_SURE if works(best) else _SURER) and beside.leak.mean > 0
    if found:
        sentence = _found(guess, own, others, numbers)
        value: float | None = beside.leak.mean
    elif works(best):
        value, sentence = 0.0, _nothing(best, trials, sum(map(len, others)), beside.p_value)
    else:
        value, sentence = None, _unable(best, trials)
    return Guessed(
        Reading("reconstruction", value, sentence, best.name, beside.p_value, numbers), guess, trials.left_out
    )


def read_without_public(
    record: UpdateRecord, own: PrivateBatch, defence: Chain, seed: int, time_left: TimeLeft, run: Run = run_isolated
) -> Guessed:
    """What closed forms make of the update; without other patients nobody can say what chance gives."""
    seen = seen_by(record, THREATS.get(THREAT), None, None, None, defence)
    left_out, best = [], None
    for name in CLOSED:
        attack = ATTACKS.get(name)
        try:
            check_applies(attack, form_for(attack)(seen))
            (guess,) = run(attack, [form_for(attack)(seen)], generator(seed, "meter"), seconds=time_left.left)
        except FluoroscopeError as problem:
            left_out.append(left_out_for(name, problem))
            continue
        if guess.nothing:
            left_out.append(left_out_for(name, f"gave up: {guess.nothing}"))
        elif best is None:
            best = name, guess.images.cpu()
    why = (
        "without public images of other patients nobody can say what chance gives, and attacks that learn cannot be "
        "tried: give some"
    )
    if best is None:
        return Guessed(_not(why), None, tuple(left_out))
    name, images = best
    near = float(ssim_matrix(images.clamp(0, 1), own.images).max(1).values.mean())
    said = f"Not judged: {why}. {name} makes an image whose likeness (SSIM) to the nearest of yours is {near:.2f}."
    reading = Reading("reconstruction", None, said, name, None, {"ssim": near, "images": float(len(own))})
    return Guessed(reading, images, tuple(left_out))


def _numbers(
    guess: Tensor, own: PrivateBatch, others: Sequence[Tensor], beside: AgainstOthers, row: Rehearsed
) -> dict[str, float]:
    sets = [own.images, *others]
    likeness = torch.split(ssim_matrix(guess.clamp(0, 1), torch.cat(sets)), [len(each) for each in sets], dim=1)
    near, *apart = (float(each.max(1).values.mean()) for each in likeness)
    numbers = {
        "ssim": near,
        "ssim_others": sum(apart) / len(apart),
        "told_apart": beside.told_apart.mean,
        "told_apart_chance": beside.chance,
        "found": float(sum(int(each.sum()) for each in beside.found)),
        "images": float(len(own)),
        "others": float(sum(map(len, others))),
        "rdlv": beside.own.mean,
        "rdlv_others": beside.null.mean,
    }
    if row.leak is not None:
        ends = {
            "rehearsal_leak": row.leak.mean,
            "rehearsal_leak_low": row.leak.low,
            "rehearsal_leak_high": row.leak.high,
        }
        numbers |= ends
    if row.told_apart is not None:
        numbers["rehearsal_told_apart"] = row.told_apart.mean
    if row.p_value is not None:
        numbers["rehearsal_p_value"] = row.p_value
    return numbers


def _found(guess: Tensor, own: PrivateBatch, others: Sequence[Tensor], numbers: dict[str, float]) -> str:
    found, held, beside_them = int(numbers["found"]), len(own), sum(map(len, others))
    likeness = f"likeness (SSIM) {numbers['ssim']:.2f}, with the others {numbers['ssim_others']:.2f}"
    if not found:
        one = "an image that fits" if len(guess) == 1 else "images that fit"
        return (
            f"From this update a server can make {one} your {held} images better than those of other patients, beyond "
            f"what the public mean does (RDLV {numbers['rdlv']:.2f}, with the others {numbers['rdlv_others']:.2f}), "
            f"though some of {beside_them} others are nearer still."
        )
    one = "an image that is" if len(guess) == 1 else "images that are"
    return (
        f"From this update a server can make {one} nearer to {found} of your {held} images than to any of "
        f"{beside_them} images of other patients ({likeness})."
    )


def _nothing(row: Rehearsed, trials: Trials, count: int, p_value: float) -> str:
    share = "" if row.told_apart is None else f" ({row.told_apart.mean:.0%} of its guesses are told apart)"
    return (
        f"What {row.name} makes of this update is not told from chance, though it works on {trials.rehearsal.victims} "
        f"simulated clients of this training{share}: beside {count} images of other patients, {p_value:.0%} of random "
        "choices come as near as yours."
    )


def _unable(row: Rehearsed, trials: Trials) -> str:
    tried = sum(each.leak is not None for each in trials.rehearsal.rows)
    best = "the attack that was tried" if tried == 1 else f"the best of {tried} attacks"
    return (
        f"Not judged: on {trials.rehearsal.victims} simulated clients of this training {best} ({row.name}) is not told "
        "from chance, so that its finding nothing here says nothing about other attacks."
    )


def _not(why: str) -> Reading:
    return Reading("reconstruction", None, f"Not judged: {why.rstrip('.')}.")
