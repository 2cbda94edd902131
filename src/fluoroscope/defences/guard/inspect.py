"""The guard itself: one function that looks at a model before a client trains it."""

import secrets
import time
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import nn

from fluoroscope.defences.guard.batches import MOST_IMAGES, Batch, Inputs, batch
from fluoroscope.defences.guard.behaviour import STAND_INS, Behaviour, behaviour
from fluoroscope.defences.guard.classifier import classifier
from fluoroscope.defences.guard.copied import copied
from fluoroscope.defences.guard.digest import compare, digest
from fluoroscope.defences.guard.drift import COUNTER, drift
from fluoroscope.defences.guard.firing import firing, silence
from fluoroscope.defences.guard.history import History
from fluoroscope.defences.guard.layers import Anatomy, Layer, dissect, from_state
from fluoroscope.defences.guard.numbers import arrays, as_floats, blank, numbers, others, scale, strange
from fluoroscope.defences.guard.passing import passing
from fluoroscope.defences.guard.placement import placement
from fluoroscope.defences.guard.repetition import repetition
from fluoroscope.defences.guard.staircase import staircase
from fluoroscope.defences.guard.stand_ins import stand_ins
from fluoroscope.defences.guard.tuned import tuned
from fluoroscope.defences.guard.verdict import Reason, Verdict
from fluoroscope.errors import BadInput
from fluoroscope.models.names import renamed
from fluoroscope.types import Network, State, blueprint

__all__ = ["MOST_IMAGES", "examined", "inspect"]
OF_A_LAYER = (repetition, staircase, firing, tuned, classifier, scale)


def inspect(
    model: nn.Module | State,
    agreed: Network | nn.Module | State | None = None,
    images: Inputs = None,
    digests: Sequence[str] = (),
    seed: int | None = None,
    history: History | None = None,
) -> Verdict:
    """Whether a client should train this model, and why not. Nothing is changed, and no image leaves.

    Args:
        model: a module, or the arrays that came over the wire.
        agreed: what the federation agreed on; it lets arrays be run, which are otherwise not judged by what they do.
        images: the client's own, (n, channels, height, width) or of any shape that the network takes, as it is
            trained on them; a tuple or mapping of inputs where it takes several; or a function that gives either.
            Stand-ins are used beside few, or instead.
        digests: what other clients say that they were sent.
        seed: of what is drawn; by default from the system, so that nobody can prepare a model for it.
        history: numbers of the models of earlier rounds; go on with `history.after(verdict.measured)`.

    Returns:
        A verdict with its reasons in plain words; `refused` and `accepted` are the answer. A model that could not be
        run is neither.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> import fluoroscope as fl
        >>> agreed = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(2704, 2))
        >>> fl.inspect(agreed.state_dict(), agreed, torch.rand(4, 1, 28, 28)).accepted
        True
    """
    start = time.perf_counter()
    shape = agreed.input_shape if isinstance(agreed, Network) else None
    agreed = blueprint(agreed) if isinstance(agreed, Network) else agreed
    seed = secrets.randbits(31) if seed is None else seed
    state = _state(model)
    if agreed is not None and not isinstance(model, nn.Module):
        state = renamed(state, _state(agreed))
    unread, weights = others(state), arrays(state)
    own = "" if any(map(strange, state.values())) else digest(state)
    reasons = [*(compare(own, digests) if own else []), *numbers(weights)]
    if agreed is not None:
        reasons += drift(state, _state(agreed))
    given = batch(images)
    if given is None and shape is not None:
        given = Batch((stand_ins(shape, STAND_INS),), {}, STAND_INS)
    found = Behaviour(None, ())
    if not any(reason.check == "numbers" for reason in reasons):
        known = agreed if isinstance(agreed, nn.Module) else None
        network, found = (None, Behaviour(None, ())) if unread else _ran(model, known, state, given, seed)
        there = None if agreed is None else arrays(_state(agreed))
        looks = _structure(network, there, as_floats(weights), found.batch or given, seed)
        # An agreed network without numbers that can be looked at excuses nothing.
        if known is not None and any(reason.severity == "refuse" for reason in looks) and not numbers(_state(known)):
            agreed_looks = _structure(known, there, as_floats(_state(known)), found.batch or given, seed)
            looks = _news(looks, agreed_looks)
        reasons += [*found.reasons, *looks]
    measured = {} if found.profile is None else found.profile.numbers()
    if history is not None:
        reasons += history.reasons(measured)
    return Verdict(own, _sorted([*unread, *reasons]), time.perf_counter() - start, found.profile is not None, measured)


def _ran(
    model: nn.Module | State, known: nn.Module | None, state: State, given: Batch | None, seed: int
) -> tuple[nn.Module | None, Behaviour]:
    """The network, where there is one, and what it did."""
    try:
        network = model if isinstance(model, nn.Module) else _filled(known, state)
    except Exception as problem:  # somebody else's module may not be copied or filled, for any reason
        why = f"The agreed network does not take these arrays: {str(problem).partition(chr(10))[0].rstrip('.:')}."
        return None, Behaviour(None, (Reason("not judged", "", "note", why),))
    same = known is not None and network is not model and _same(state, known.state_dict())
    return network, behaviour(network, network if same else known, given, seed)


def _same(state: State, agreed: State) -> bool:
    """Whether these are the agreed numbers to the bit."""
    return set(state) == set(agreed) and all(
        not strange(value) and not strange(agreed[name]) and value.dtype == agreed[name].dtype
        and torch.equal(value.cpu(), agreed[name].cpu())
        for name, value in state.items()
    )  # fmt: skip


def _structure(
    network: nn.Module | None, agreed: State | None, state: State, given: Batch | None, seed: int
) -> list[Reason]:
    """What the weights look like: evidence beside what they do."""
    picture = given.picture if given is not None and len(given.inputs) == 1 and not given.named else None
    flat = picture if picture is not None and picture.ndim in (2, 4) else None
    anatomy = None
    if network is not None and (given is None or flat is not None):
        try:
            anatomy = dissect(copied(network).float(), flat)
        except Exception:  # somebody else's forward; `behaviour` has said so
            anatomy = None
    anatomy = anatomy or from_state(state, flat if flat is not None and flat.ndim == 4 else None)
    drawn = tuple(replace(layer, seed=seed) for layer in anatomy.layers)
    return examined(replace(anatomy, layers=drawn), agreed)


def _news(reasons: list[Reason], agreed: list[Reason]) -> list[Reason]:
    """What the agreed network looks like in the same layer, by the same check, is no evidence: it becomes a note."""
    same = {(reason.check, reason.layer) for reason in agreed if reason.severity == "refuse"}
    return [replace(r, severity="note") if (r.check, r.layer) in same else r for r in reasons]


def examined(anatomy: Anatomy, agreed: State | None = None) -> list[Reason]:
    """What all checks of the weights and of the run say."""
    reasons = [*placement(anatomy, agreed), *silence(anatomy.state), *passing(anatomy.state), *blank(anatomy)]
    for layer in map(_as_read, anatomy.layers):
        for check in OF_A_LAYER:
            reasons += check(layer)
    return reasons


def _as_read(layer: Layer) -> Layer:
    """Units as rows, also where a product reads the array turned round: `F.linear(x, w.t())`."""
    if all(seen.shape[1] == layer.inputs for seen in layer.seen):
        return layer
    if any(seen.shape[1] != layer.units for seen in layer.seen):
        return replace(layer, seen=())  # a part of an array, or one in another shape: what its units see is not known
    return replace(layer, weight=layer.weight.T, bias=torch.zeros(layer.inputs))


def _state(model: nn.Module | State) -> State:
    return model.state_dict() if isinstance(model, nn.Module) else model


def _filled(agreed: nn.Module | None, state: State) -> nn.Module | None:
    """A copy of the agreed network with these arrays, if they fit."""
    if agreed is None:
        return None
    if any(value.device.type == "meta" for value in (*agreed.parameters(), *agreed.buffers())):
        raise BadInput("it is on the meta device: give it with values.")
    network = copied(agreed).float()
    missing = network.load_state_dict(dict(as_floats(state)), strict=False).missing_keys
    return None if any(not name.endswith(COUNTER) for name in missing) else network


def _sorted(reasons: list[Reason]) -> tuple[Reason, ...]:
    return tuple(sorted(reasons, key=lambda reason: reason.severity != "refuse"))
