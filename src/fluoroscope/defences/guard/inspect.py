"""The guard itself: one function that looks at a model before a client trains it."""

import copy
import time
from collections.abc import Sequence

from torch import Tensor, nn

from fluoroscope.defences.guard.classifier import classifier
from fluoroscope.defences.guard.digest import compare, digest
from fluoroscope.defences.guard.drift import COUNTER, drift
from fluoroscope.defences.guard.firing import firing, silence
from fluoroscope.defences.guard.layers import Anatomy, dissect, from_state
from fluoroscope.defences.guard.numbers import blank, numbers, scale
from fluoroscope.defences.guard.passing import passing
from fluoroscope.defences.guard.placement import placement
from fluoroscope.defences.guard.repetition import repetition
from fluoroscope.defences.guard.singling_out import singling_out
from fluoroscope.defences.guard.staircase import staircase
from fluoroscope.defences.guard.tuned import tuned
from fluoroscope.defences.guard.verdict import Reason, Verdict
from fluoroscope.types import Network, State, blueprint

MOST_IMAGES = 128
"""Of a client's images are enough for it."""
OF_A_LAYER = (repetition, staircase, firing, tuned, classifier, scale, singling_out)


def inspect(
    model: nn.Module | State,
    agreed: Network | nn.Module | State | None = None,
    images: Tensor | None = None,
    digests: Sequence[str] = (),
) -> Verdict:
    """Whether a client should train this model, and why not. Nothing is changed, and no image leaves.

    Args:
        model: a module, or the arrays that came over the wire.
        agreed: what the federation agreed on; it lets arrays be run, which are otherwise judged by shapes and weights.
        images: (n, channels, height, width) in [0, 1], the client's own; stand-ins are used beside them, or instead.
        digests: what other clients say that they were sent.

    Returns:
        A verdict with its reasons in plain words; `refused` is the answer.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> import fluoroscope as fl
        >>> agreed = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(2704, 2))
        >>> fl.inspect(agreed.state_dict(), agreed, torch.rand(4, 1, 28, 28)).refused
        False
    """
    start = time.perf_counter()
    agreed = blueprint(agreed) if isinstance(agreed, Network) else agreed
    state = _state(model)
    own = digest(state)
    reasons = [*compare(own, digests), *numbers(state)]
    if agreed is not None:
        reasons += drift(state, _state(agreed))
    anatomy = from_state(state, None)
    if not any(reason.check == "numbers" for reason in reasons):
        network = model if isinstance(model, nn.Module) else _filled(agreed, state)
        anatomy = (dissect(network, images) if network is not None else None) or from_state(state, images)
        reasons += examined(anatomy)
    return Verdict(own, _sorted(reasons), time.perf_counter() - start, bool(anatomy.steps))


def examined(anatomy: Anatomy) -> list[Reason]:
    """What all checks of the weights and of the run say."""
    reasons = [*placement(anatomy), *silence(anatomy.state), *passing(anatomy.state), *blank(anatomy)]
    for layer in anatomy.layers:
        for check in OF_A_LAYER:
            reasons += check(layer)
    return reasons


def _state(model: nn.Module | State) -> State:
    return model.state_dict() if isinstance(model, nn.Module) else model


def _filled(agreed: nn.Module | State | None, state: State) -> nn.Module | None:
    """A copy of the agreed network with these arrays, if they fit."""
    if not isinstance(agreed, nn.Module):
        return None
    network = copy.deepcopy(agreed)
    try:
        missing = network.load_state_dict(dict(state), strict=False).missing_keys
    except RuntimeError:  # other shapes
        return None
    return None if any(not name.endswith(COUNTER) for name in missing) else network


def _sorted(reasons: list[Reason]) -> tuple[Reason, ...]:
    return tuple(sorted(reasons, key=lambda reason: reason.severity != "refuse"))
