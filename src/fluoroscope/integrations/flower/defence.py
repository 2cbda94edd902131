"""A defence of the client in anybody's ClientApp: it has the update before the server does."""

import secrets
from collections.abc import Callable
from logging import ERROR

from flwr.app import Context, Error, Message, RecordDict
from flwr.common.logger import log

from fluoroscope.defences import Chain, chain
from fluoroscope.defences.contract import Defence, SealingDefence, UpdateDefence
from fluoroscope.errors import Misconfigured
from fluoroscope.federation.client_round import with_local_state
from fluoroscope.federation.guard import Mod, Next
from fluoroscope.federation.messages import is_train, to_arrays
from fluoroscope.federation.withheld import local_state, save_local_state
from fluoroscope.integrations.flower.exchange import WITHHELD
from fluoroscope.integrations.flower.reading import model_key, model_of, round_of
from fluoroscope.models.names import completed, prefix_of, unwrapped
from fluoroscope.rng import generator
from fluoroscope.types import LocalTraining, Network, UpdateRecord, blueprint


def defence_mod(
    defence: Defence | Chain,
    *,
    network: Network,
    training: LocalTraining | Callable[[Context], LocalTraining],
    seed: int | None = None,
) -> Mod:
    """A mod that applies a defence to every update of an app that knows nothing of it.

    What the defence keeps from the server (`fed-bn`, `hidden-layers`) stays in the node's context and is put into the
    model of the next round; the server gets its own values back in its place, so every strategy meets whole models.

    Args:
        defence: one that changes what leaves, or a chain of such.
        network: what the app trains.
        training: how, or a function of the node's Context.
        seed: of what the defence draws; by default new in every process, as noise that must not be guessed has to be.

    Raises:
        Misconfigured: the defence stands in the place of training, at the server, or encrypts.
    """
    parts = defence if isinstance(defence, Chain) else chain(defence)
    for part in parts.parts:
        if not isinstance(part, UpdateDefence) or isinstance(part, SealingDefence):
            raise Misconfigured(
                f"{type(part).__name__} cannot stand in a mod, which meets the update alone: give one that changes "
                "what leaves the client, such as Pruning, Quantisation or ClipAndNoise."
            )
    root = secrets.randbits(63) if seed is None else seed

    def mod(message: Message, context: Context, call_next: Next) -> Message:
        if not is_train(message):
            return call_next(message, context)
        received, key, number = model_of(message.content), model_key(message.content), round_of(message)
        module = blueprint(network)
        prefix = prefix_of(received, module.state_dict())
        before = completed(unwrapped(received, module.state_dict()), module)
        if own := local_state(context):
            mixed = with_local_state(before, own)
            named = {f"{prefix}{name}": value for name, value in mixed.items()}
            started = to_arrays({name: value for name, value in named.items() if name in received})
            message.content = RecordDict({**message.content, key: started})
        reply = call_next(message, context)
        if reply.has_error():
            return reply
        try:
            sent = model_of(reply.content)
            back = prefix_of(sent, before)
            after = {name.removeprefix(back): value for name, value in sent.items()}
            known = training(context) if callable(training) else training
            made = UpdateRecord.between(network, with_local_state(before, own), after, known, round=number)
            left = parts.send(made, generator(root, "defence", context.node_id, "round", number))
        except Exception as problem:  # an update that was not defended does not leave
            log(ERROR, "fluoroscope: the update could not be defended and stays here: %s", problem)
            return Message(Error(WITHHELD, "the client could not defend its update"), reply_to=message)
        leaving = {**left.state_after, **(left.buffers_after or {})}
        save_local_state(context, {name: value for name, value in after.items() if name not in leaving})
        whole = {f"{back}{name}": leaving.get(name, before[name]).to(value.dtype) for name, value in after.items()}
        content = RecordDict({**reply.content, model_key(reply.content): to_arrays(whole)})
        return Message(content, reply_to=message)

    return mod
