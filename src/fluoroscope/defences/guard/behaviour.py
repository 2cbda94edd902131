"""Runs a model on a batch, and beside it, where that decides, its twin and the agreed network."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from torch import nn

from fluoroscope.defences.guard.batches import Batch, completed
from fluoroscope.defences.guard.consequence import consequence
from fluoroscope.defences.guard.profile import Profile, most, prepared, profile, twin
from fluoroscope.defences.guard.stand_ins import shapes_to_try, stand_ins
from fluoroscope.defences.guard.verdict import Reason

STAND_INS = 64
TRIED = 2
TWINS = 3
"""Fresh weights differ in what they show: the most that any of these shows is what honest weights may."""


@dataclass(frozen=True)
class Behaviour:
    """What a model did."""

    profile: Profile | None
    """None where it could not be run."""
    reasons: tuple[Reason, ...]
    batch: Batch | None = None


def behaviour(network: nn.Module | None, agreed: nn.Module | None, given: Batch | None, seed: int = 0) -> Behaviour:
    """Judge a network by what a server could read of its update; what cannot be run is said, not passed over.

    Args:
        network: the model that came; None where its arrays fill no network that is known.
        agreed: the agreed network with its own numbers, if there is one; the very same object is run once.
        given: the client's own images or example inputs; None tries stand-ins of likely shapes.
        seed: of what is drawn; the client's own, so that nobody can prepare for it.
    """
    if network is None:
        return Behaviour(None, (_unjudged("The network that these arrays belong to is not known: give `agreed`."),))
    try:
        ready = prepared(network)
        batch = completed(given) if given is not None else _invented(ready)
        if batch is None:
            return Behaviour(None, (_unjudged("No input of a likely shape runs through it: give images or inputs."),))
        found = profile(ready, batch, seed)
    except Exception as problem:  # somebody else's forward may stop in any way
        return Behaviour(None, (_unjudged(f"Running it stopped with {type(problem).__name__}: {_line(problem)}."),))

    @cache
    def twins() -> Profile | None:
        return _tried(lambda: most([profile(twin(ready, seed + i), batch, seed) for i in range(TWINS)]))

    @cache
    def known() -> Profile | None:
        if agreed is None or agreed is network:
            return None if agreed is None else found
        return _tried(lambda: profile(prepared(agreed), batch, seed))

    reasons = consequence(found, twins, known)
    return Behaviour(found, tuple(reasons), batch)


def _tried(run: Callable[[], Profile]) -> Profile | None:
    try:
        return run()
    except Exception:  # a network that ran with its own weights may stop with others
        return None


def _invented(network: nn.Module) -> Batch | None:
    """Stand-ins of the first shape that the network takes."""
    for shape in shapes_to_try(network.state_dict()):
        few = Batch((stand_ins(shape, TRIED),), {}, TRIED)
        try:
            with torch.no_grad():
                network(*few.inputs)
        except Exception:  # another shape
            continue
        return Batch((stand_ins(shape, STAND_INS),), {}, STAND_INS)
    return None


def _line(problem: Exception) -> str:
    return str(problem).strip().split("\n")[0][:160].rstrip(".")


def _unjudged(why: str) -> Reason:
    return Reason("not judged", "", "note", why)
