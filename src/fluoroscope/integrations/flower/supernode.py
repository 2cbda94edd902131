"""Flower's supernode with the site's own door around it, outside of the app's process.

The supernode talks to the superlink through what `_init_connection` yields, and hands replies over in
`_push_messages`. Both are wrapped here. A message is pulled whole and looked at before the app's task is made; a reply
is read whole out of the supernode's own store and judged before its first byte leaves. What leaves is built anew from
what was judged, so that nothing an app puts into a message travels unseen.

These are not Flower's public names: `check_flower` refuses any version but the one that this was written for.
"""

import inspect
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from logging import ERROR
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flwr.app import Error, Message
from flwr.common.logger import log
from flwr.proto.message_pb2 import ObjectTree
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_id,
    get_object_tree,
    iterate_object_tree,
)
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents, pull_objects
from flwr.supercore.object_store import ObjectStore
from flwr.supernode import start_client_internal as flower

from fluoroscope.errors import BadInput, Unsupported
from fluoroscope.integrations.flower.exchange import Exchange

if TYPE_CHECKING:
    from fluoroscope.site.control import SiteControl

FLOWER = "1.41.0"
"""The version whose supernode was read, line by line."""
EXPECTED = {
    "_init_connection": (
        "server_address",
        "insecure",
        "root_certificates",
        "authentication_keys",
        "max_retries",
        "max_wait_time",
    ),
    "_push_messages": ("state", "object_store", "send", "push_object"),
    "_pull_and_store_message": (
        "state",
        "object_store",
        "node_config",
        "receive",
        "get_run",
        "get_fab",
        "pull_object",
        "confirm_message_received",
        "trusted_entities",
    ),
}
PATIENCE = 600.0
"""Seconds that an app has to hand over the objects of a reply that it has announced."""
Send = Callable[[Message, ObjectTree, float], tuple[set[str], str]]
Push = Callable[[int, str, str, bytes], None]
Connection = tuple[Any, ...]


def check_flower() -> None:
    """Refuse another Flower than the one that the door was built for.

    Raises:
        Unsupported: the version, or a function of the supernode, is another.
    """
    remedy = f"Install flwr=={FLOWER}: a door that does not fit lets things through."
    if (found := version("flwr")) != FLOWER:
        raise Unsupported(f"`fluoroscope supernode` was built for Flower {FLOWER}, and this is {found}. {remedy}")
    for name, expected in EXPECTED.items():
        function = getattr(flower, name, None)
        if function is None or tuple(inspect.signature(function).parameters) != expected:
            raise Unsupported(f"Flower's supernode has another {name} than the door was built for. {remedy}")


def run_supernode(control: "SiteControl", arguments: list[str]) -> None:
    """Run Flower's supernode behind the site's door, until it is stopped.

    Args:
        control: the site's door.
        arguments: those of `flower-supernode`.
    """
    check_flower()
    # The supernode starts flower-superexec by its name; it lies beside this Python.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    from flwr.supernode.cli.flower_supernode import flower_supernode

    door, connect, push_messages = Door(control), flower._init_connection, flower._push_messages

    @contextmanager
    def connected(*args: Any, **kwargs: Any) -> Iterator[Connection]:  # noqa: ANN401  # whatever Flower gives
        with connect(*args, **kwargs) as connection:
            yield door.around(connection)

    def pushed(state: Any, object_store: ObjectStore, send: Send, push_object: Push) -> None:  # noqa: ANN401
        push_messages(state, object_store, door.sending(object_store), _nothing_else)

    flower._init_connection, flower._push_messages = connected, pushed
    sys.argv = ["flower-supernode", *arguments]
    flower_supernode()


class Door:
    """Between one supernode and its superlink. A supernode works on one message at a time, and so does this."""

    def __init__(self, control: "SiteControl") -> None:
        self.control = control
        self._open: Exchange | None = None
        """The message that the app is working on."""
        self._pulled: dict[str, bytes] = {}
        """What was pulled of it, and judged."""
        self._connection: Connection = ()

    def around(self, connection: Connection) -> Connection:
        """The same connection for the supernode, which sees only what was let in."""
        self._connection = connection
        node, _, _, get_run, get_fab, _, _, confirm = connection
        return node, self._receive, _nothing_sent, get_run, get_fab, self._pull, _nothing_else, confirm

    # --- coming in -----------------------------------------------------------------------------------------

    def _receive(self) -> tuple[Message, ObjectTree] | None:
        """The next message that the app may see; what is refused is answered from here."""
        _, receive, _, _, _, pull_object, _, confirm = self._connection
        self._open, self._pulled = None, {}
        if (came := receive()) is None:
            return None
        outer, tree = came
        run = outer.metadata.run_id
        try:
            self._pulled = pull_objects(
                list(dict.fromkeys(part.object_id for part in iterate_object_tree(tree))),
                pull_object_fn=lambda name: _checked(name, pull_object(run, name)),
            )
            message = _whole(outer, tree, self._pulled)
        except Exception as problem:  # as Flower's own supernode does: such a message was never received
            log(ERROR, "fluoroscope: a message could not be read (%s: %s)", type(problem).__name__, problem)
            return None
        exchange = Exchange.of(self.control, message)
        if exchange.admitted().passes:
            self._open = exchange
            return outer, tree
        self._pulled = {}
        try:
            confirm(run, outer.metadata.message_id)
            self._deliver(exchange.refusal(), 0.0)
        except Exception as problem:  # the superlink is gone, or has stopped the run
            log(ERROR, "fluoroscope: the refusal could not be sent (%s: %s)", type(problem).__name__, problem)
        return None

    def _pull(self, run: int, name: str) -> bytes:
        """Only what was judged goes in."""
        return self._pulled[name]

    # --- going out -----------------------------------------------------------------------------------------

    def sending(self, store: ObjectStore) -> Send:
        """What the supernode calls to send a reply out of its store."""

        def send(outer: Message, tree: ObjectTree, seconds: float) -> tuple[set[str], str]:
            exchange, self._open, self._pulled = self._open, None, {}
            if exchange is None or outer.metadata.reply_to_message_id != exchange.message.metadata.message_id:
                raise BadInput("the app replied to nothing that it was asked: its reply stays here.")
            return set(), self._deliver(_judged(exchange, tree, store), seconds)  # nothing is left to be pushed

        return send

    def _deliver(self, message: Message, seconds: float) -> str:
        """Send a message and every object of it, as it lies here in memory."""
        _, _, send, _, _, _, push_object, _ = self._connection
        message.metadata.__dict__["_message_id"] = message.object_id
        wanted, session = send(message, get_object_tree(message), seconds)
        for name, part in get_all_nested_objects(message).items():
            if name in wanted:
                push_object(message.metadata.run_id, session, name, part.deflate())
        return str(session)


def _judged(exchange: Exchange, tree: ObjectTree, store: ObjectStore) -> Message:
    """What may leave in the place of the app's reply: a new message, whatever the app had written on its own."""
    try:
        reply = _inflated(tree, _stored(tree, store))
    except Exception as problem:  # what cannot be read stays here
        return exchange.withheld(problem)
    if reply.has_error():  # an exception's text may hold a path or a value
        log(ERROR, "fluoroscope: the app failed: %s", reply.error.reason)
        return Message(Error(reply.error.code, "the app failed; the site's log says why"), reply_to=exchange.message)
    released = exchange.released(reply)
    if released.has_error():
        return released
    return Message(released.content, reply_to=exchange.message)


def _stored(tree: ObjectTree, store: ObjectStore) -> dict[str, bytes]:
    """All objects of a reply. An app registers them first and hands them over afterwards."""
    found, patience = {}, time.monotonic() + PATIENCE
    for part in iterate_object_tree(tree):
        while not (content := store.get(part.object_id)):
            if content is None or time.monotonic() > patience:
                raise BadInput("an object of the reply is missing.")
            time.sleep(0.2)
        found[part.object_id] = _checked(part.object_id, content)
    return found


def _whole(outer: Message, tree: ObjectTree, contents: dict[str, bytes]) -> Message:
    """The message as the app will see it: what the superlink wrote on its envelope must be true."""
    message = _inflated(tree, contents)
    told, true = outer.metadata, message.metadata
    for name in ("run_id", "src_node_id", "dst_node_id", "reply_to_message_id", "group_id", "message_type"):
        if getattr(told, name) != getattr(true, name):
            raise BadInput(f"the message's {name} is not what its envelope says.")
    if told.message_id != tree.object_id:
        raise BadInput("the message is not the one that its envelope names.")
    message.metadata.__dict__["_message_id"] = tree.object_id
    return message


def _inflated(tree: ObjectTree, contents: dict[str, bytes]) -> Message:
    message = inflate_object_from_contents(tree.object_id, contents, keep_object_contents=True)
    if not isinstance(message, Message):
        raise BadInput(f"a message was expected, and this is a {type(message).__name__}.")
    return message


def _checked(name: str, content: bytes) -> bytes:
    """An object's name is the SHA-256 of its content."""
    if get_object_id(content) != name:
        raise BadInput("an object is not what its name says.")
    return content


def _nothing_sent(message: Message, tree: ObjectTree, seconds: float) -> tuple[set[str], str]:
    """In the place of the connection's own `send`: the way out is `Door.sending`."""
    raise BadInput("a message tried to leave past the site's door.")


def _nothing_else(run: int, session: str, name: str, content: bytes) -> None:
    """In the place of the connection's own `push_object`: objects leave with their message."""
    raise BadInput("an object tried to leave past the site's door.")
