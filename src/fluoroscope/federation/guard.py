"""The guard as a Flower mod: every model is looked at before the client trains or evaluates it.

    app = ClientApp(mods=[guard_mod(agreed, images=lambda context: load(context.node_config["images"]))])

It stands before the other mods, so it sees what the server sent: the arrays of a message (`flwr.app`), or the legacy
fit parameters, which SecAgg+ sends with its third stage. A refusal is an error reply; nothing is trained. A model that
is only evaluated is looked at too: what a crafted one reads of images can leave through the metrics.
"""

from collections.abc import Callable, Sequence
from logging import ERROR, INFO, WARNING
from typing import Literal

import numpy as np
import torch
from flwr.app import ArrayRecord, Context, Error, Message, RecordDict
from flwr.common.logger import log
from torch import Tensor, nn

from fluoroscope.defences.guard import History, Verdict, inspect
from fluoroscope.defences.guard.batches import Example
from fluoroscope.federation.messages import is_train, to_state
from fluoroscope.models.names import completed, renamed, unwrapped
from fluoroscope.types import State

Next = Callable[[Message, Context], Message]
Mod = Callable[[Message, Context, Next], Message]
Images = Example | Callable[[Context], Example | None] | None
REFUSED = 3
"""The error's code in the reply, as the exit code of the command."""


def guard_mod(
    agreed: nn.Module | State,
    images: Images = None,
    digests: Callable[[], Sequence[str]] | None = None,
    told: Callable[[Verdict], None] | None = None,
    when_not_judged: Literal["train", "refuse"] = "refuse",
) -> Mod:
    """A mod that lets a message through only if the guard accepts its model, whatever it is sent for.

    Args:
        agreed: the network that was agreed on; it names the arrays that come without names. Where only what it
            trains travels, such as adapters (LoRA) over a frozen base, the rest is taken from here.
        images: the client's own, (n, channels, height, width) in [0, 1] or as bytes, of torch or numpy; or a function
            of the node's Context that gives them: an app is one file for all sites, and each site's images lie
            elsewhere. With none, or no images, the guard uses stand-ins.
        digests: gives what other clients say that they were sent, asked anew for every model.
        told: called with each verdict.
        when_not_judged: what is done about a model that could not be run, and was judged by its weights alone.

    The mod remembers numbers of the models of earlier rounds while its process lives, and no image of any.
    """
    history = History()

    def mod(message: Message, context: Context, call_next: Next) -> Message:
        nonlocal history
        content = message.content if message.has_content() else RecordDict()
        for record in content.array_records.values():
            try:
                state = received(record, agreed)
                if not state:
                    continue
                own = _inputs(images(context) if callable(images) else images)
                verdict = inspect(state, agreed, own, digests() if digests is not None else (), history=history)
            except Exception as problem:  # whatever it is: a model that cannot be judged is not trained
                log(ERROR, "guard: this model could not be judged, and is refused: %r", problem)
                return refusal(message)
            if told is not None:
                told(verdict)
            if verdict.refused or (not verdict.ran and when_not_judged == "refuse"):
                log(ERROR, "guard: %s", verdict.summary)
                return refusal(message)
            if is_train(message):  # a model that is also evaluated is one model
                history = history.after(verdict.measured)
            if verdict.ran:
                log(INFO, "guard: accepted a model with digest %s", verdict.digest)
            else:
                log(WARNING, "guard: %s", verdict.summary)
        return call_next(message, context)

    return mod


def refusal(message: Message) -> Message:
    """The answer to a model that was refused. The server does not learn why: the reasons are for the client."""
    return Message(Error(REFUSED, "the client's guard refused this model"), reply_to=message)


def _inputs(images: Example | None) -> Example | None:
    """As the guard takes them: pictures of bytes in [0, 1]."""
    found = torch.from_numpy(np.ascontiguousarray(images)) if isinstance(images, np.ndarray) else images
    return found.float() / 255 if isinstance(found, Tensor) and found.dtype == torch.uint8 else found


def received(record: ArrayRecord, agreed: nn.Module | State) -> dict[str, Tensor]:
    """The arrays by name. Legacy parameters are numbered: they take the agreed names, in order."""
    if not record:
        return {}
    own = agreed.state_dict() if isinstance(agreed, nn.Module) else agreed
    if all(array.dtype for array in record.values()):
        named = renamed(unwrapped(to_state(record), own), own)
        return completed(named, agreed) if isinstance(agreed, nn.Module) else named
    values = [torch.from_numpy(np.asarray(array.numpy())) for array in record.values() if array.data]
    names = list(own)
    if len(values) != len(names):  # only the parameters, or other layers: then drift says so
        parameters = [n for n, _ in agreed.named_parameters()] if isinstance(agreed, nn.Module) else names
        if len(values) == len(parameters):
            return {**own, **dict(zip(parameters, values, strict=True))}
        names = [f"array {i}" for i in range(len(values))]
    return dict(zip(names, values, strict=True))
