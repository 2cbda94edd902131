"""An update looked at: in the form in which it would leave, and by what a server could read of that."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from fluoroscope.defences.guard.inspect import MOST_IMAGES
from fluoroscope.errors import Misconfigured
from fluoroscope.rng import secret_generator
from fluoroscope.site.meter import meter
from fluoroscope.site.reading import Metered, not_judged
from fluoroscope.site.reasons import failure, sentence
from fluoroscope.site.subject import Subject
from fluoroscope.types import PrivateBatch, State, UpdateRecord

_UNKNOWN = "The site's policy names no model, no training or no images of its own, so this update could not be judged."
_STOPPED = "The update was not measured: something stopped before."


@dataclass(frozen=True, eq=False)
class Examined:
    """What would leave, and what was read of it."""

    metered: Metered
    leaving: dict[str, Tensor] = field(default_factory=dict)
    record: UpdateRecord | None = None
    """What the server would see; None where the site knows too little to tell."""
    refused: str = ""
    """Why it does not pass whatever the policy says; empty where the policy is to be asked."""


def examine(
    subject: Subject,
    before: State,
    after: State,
    key: Callable[[], bytes],
    seconds: float | None,
    kept: Path | None,
    metered: Metered | None = None,
) -> Examined:
    """Defend the update as the site does, and measure what is left.

    Args:
        subject: what the site knows.
        before: the global model.
        after: what the client would send.
        key: gives the secret that the defence's noise is drawn from.
        seconds: that the meter may take.
        kept: where the meter keeps what it learned.
        metered: what was measured before; None measures now.
    """
    if not all(bool(torch.isfinite(value).all()) for value in after.values()):
        return Examined(not_judged(_STOPPED), refused=sentence("not_finite"))
    try:
        own = None if subject.own is None else subject.own()
        record = _record(subject, own, before, after)
    except Exception as problem:  # images that are gone, arrays that are not the model's
        return Examined(not_judged(_STOPPED), refused=failure("unreadable", problem))
    try:
        record, leaving = _defended(subject, record, after, key)
    except Exception as problem:  # nothing leaves undefended
        return Examined(not_judged(_STOPPED), refused=failure("failed", problem, part="defence"))
    if metered is not None:
        return Examined(metered, leaving, record)
    if record is None or own is None:
        return Examined(not_judged(_UNKNOWN), leaving, record)
    try:
        public = None if subject.public is None else subject.public()
        defence = subject.defence if subject.defence.parts else None
        read = meter(record, own, public=public, defence=defence, seconds=seconds, kept=kept)
    except Exception as problem:  # what cannot be measured does not leave, whatever stopped it
        return Examined(not_judged(_STOPPED), refused=failure("failed", problem, part="meter"))
    return Examined(read, leaving, record)


def guard_images(subject: Subject) -> Tensor | None:
    """Some of the site's images, from all over them."""
    if subject.own is None:
        return None
    images = subject.own().images
    return images[:: -(-len(images) // MOST_IMAGES)] if len(images) else None


def _record(subject: Subject, own: PrivateBatch | None, before: State, after: State) -> UpdateRecord | None:
    """The update as it came; None where the site knows too little of it."""
    if subject.network is None or subject.training is None:
        return None
    training = subject.training if own is None else replace(subject.training, images=len(own))
    return UpdateRecord.between(subject.network, before, after, training)


def _defended(
    subject: Subject, record: UpdateRecord | None, after: State, key: Callable[[], bytes]
) -> tuple[UpdateRecord | None, dict[str, Tensor]]:
    """The record as the server would see it, and the arrays that would leave."""
    if not subject.defence.parts:
        return record, dict(after)
    if record is None:
        raise Misconfigured("a defence needs to know the model and its training: add [model] and [training].")
    sent = subject.defence.send(record, secret_generator(key()))
    arrays = {**sent.state_after, **(sent.buffers_after or {})}
    return sent, {name: value.to(after[name].dtype) for name, value in arrays.items()}
