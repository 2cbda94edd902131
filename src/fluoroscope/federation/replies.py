"""What the server asks of a node's reply before it believes any of it: nothing is written or summed unchecked.

A node is bound to the client as which it first answered, or to the one that the engine or its site says. A reply that
is not what was agreed is refused, with a sentence that names the node and the reason; the others are as they were.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord

from fluoroscope.federation.client import KEYS
from fluoroscope.federation.encrypted import SEALED
from fluoroscope.federation.task import Task
from fluoroscope.types import ClientSplit

MOST = 1e12
"""Beyond it a number is no weight of a network: a sum of squares would not be finite any more."""
_HEADER = 4096
"""Bytes that an array may have beside its numbers, as numpy writes it."""
_SHARES = ("accuracy", "f1", "precision", "auc")
_UNDEFINED = ("auc", "loss")
"""What a model that diverged has no number of."""
_MOST_SEALED = 2**30
"""Bytes of one client's ciphertexts, and of their context."""


class _Bad(Exception):
    """Why a reply is refused."""


@dataclass(frozen=True)
class Answers:
    """The replies that are what was agreed, and why the others are not."""

    good: dict[int, Message] = field(default_factory=dict)
    """By client, in the order of the clients: float sums depend on it."""
    refused: dict[str, str] = field(default_factory=dict)
    """The reason by client; by node where nobody knows which client that is."""


class ReplyCheck:
    """The server's door."""

    def __init__(self, task: Task, owners: Mapping[int, int] | None = None) -> None:
        self._task = task
        self._owners = dict(owners or {})
        """The client that each node is."""

    def trained(self, asked: Sequence[int], replies: Iterable[Message], sent_out: ArrayRecord) -> Answers:
        """The updates of a round, of the nodes that were asked for one."""

        def check(reply: Message, client: ClientSplit) -> None:
            encryption = self._task.defence.encryption
            records = {"arrays", "metrics", "sender", *({SEALED} if encryption is not None else ())}
            _same(set(reply.content), records, "records")
            _check_metrics(reply, {"num-examples", "loss"}, len(client.train))
            _check_arrays(reply.content.array_records["arrays"], sent_out, self._task.sent_names)
            if encryption is not None:
                _check_sealed(reply.content.config_records[SEALED], encryption.add)

        return self._sorted(asked, replies, check)

    def validated(self, asked: Sequence[int], replies: Iterable[Message]) -> Answers:
        """How well the new model does, by the nodes that were asked."""

        def check(reply: Message, client: ClientSplit) -> None:
            _same(set(reply.content), {"metrics", "sender"}, "records")
            _check_metrics(reply, {"num-examples", *KEYS}, len(client.validation))
            _check_utility(reply.content.metric_records["metrics"], len(client.validation))

        return self._sorted(asked, replies, check)

    def _sorted(
        self, asked: Sequence[int], replies: Iterable[Message], check: Callable[[Message, ClientSplit], None]
    ) -> Answers:
        found: dict[int, tuple[int, Message]] = {}
        refused: dict[int, str] = {}
        for reply in replies:
            node = reply.metadata.src_node_id
            try:
                if node not in asked:
                    raise _Bad("was not asked")
                if node in found or node in refused:
                    raise _Bad("answered more than once")
                client = self._client(node, reply)
                check(reply, self._task.clients[client])
                found[node] = client, reply
            except _Bad as problem:
                found.pop(node, None)
                refused[node] = str(problem)
            except Exception as problem:  # what was sent may break any reader
                found.pop(node, None)
                refused[node] = f"sent what cannot be read ({type(problem).__name__})"
        claims = Counter(client for client, _ in found.values())
        for node, (client, _) in list(found.items()):
            if claims[client] > 1:  # nobody knows which of them is the client
                refused[node] = f"answered as {self._task.clients[client].name}, as another node did: "
                refused[node] += "two nodes answered as one; give each its own partition-id"
                del found[node]
        self._owners |= {node: client for node, (client, _) in found.items()}
        silent = {node: "did not answer in time" for node in asked if node not in found and node not in refused}
        by_client = sorted(found.values(), key=lambda each: each[0])
        return Answers(dict(by_client), {self._name(node): why for node, why in {**refused, **silent}.items()})

    def _client(self, node: int, reply: Message) -> int:
        """Which client the node says it is, once it is known that it may."""
        if reply.has_error():
            raise _Bad(f"failed: {_printable(str(reply.error.reason)[:500]).rstrip('.')}")
        record = reply.content.config_records.get("sender")
        said = None if record is None else record.get("client")
        names = [client.name for client in self._task.clients]
        if isinstance(said, bool) or not isinstance(said, int) or not 0 <= said < len(names):
            raise _Bad(f"says that it is the client {_short(said)}; there are 0 to {len(names) - 1}")
        bound = self._owners.get(node)
        if bound is not None and said != bound:
            raise _Bad(f"answered as {names[said]}, and it is {names[bound]}")
        if bound is None and said in self._owners.values():
            raise _Bad(f"answered as {names[said]}, which is another node; give each its own partition-id")
        return said

    def _name(self, node: int) -> str:
        client = self._owners.get(node)
        return f"node {node}" if client is None else self._task.clients[client].name


def why_no_update(arrays: ArrayRecord, sent_out: ArrayRecord) -> str | None:
    """Why what a node of anybody's federation sent is no update of the model that it was sent; None where it is one.

    It may send a part of the arrays, such as adapters, and nothing that it was not sent.

    Example:
        >>> import numpy as np
        >>> from flwr.app import Array, ArrayRecord
        >>> sent = ArrayRecord({"weight": Array(np.zeros(2, np.float32))})
        >>> why_no_update(ArrayRecord({"weight": Array(np.ones(2, np.float32))}), sent)
        >>> why_no_update(ArrayRecord({"weight": Array(np.ones(3, np.float32))}), sent)
        'sent weight of the shape [3], and [2] was agreed'
    """
    try:
        if not len(arrays):
            raise _Bad("sent no arrays")
        _check_arrays(arrays, sent_out, frozenset(arrays) & frozenset(sent_out))
    except _Bad as problem:
        return str(problem)
    except Exception as problem:  # what was sent may break any reader
        return f"sent what cannot be read ({type(problem).__name__})"
    return None


def _check_metrics(reply: Message, names: set[str], images: int) -> None:
    metrics = reply.content.metric_records["metrics"]
    _same(set(metrics), names, "metrics")
    for name, value in metrics.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _Bad(f"sent {_short(value)} as {name}, which is no number")
    if metrics["num-examples"] != images:
        raise _Bad(f"says that it has {_short(metrics['num-examples'])} images, and it has {images}")
    loss = metrics["loss"]
    if "accuracy" not in names and not math.isfinite(loss):  # type: ignore[arg-type]  # it is a number
        raise _Bad(f"sent the loss {loss}: its training diverged; lower training.lr, or the noise")


def _check_utility(metrics: MetricRecord, images: int) -> None:
    if metrics["images"] != images:
        raise _Bad(f"validated on {_short(metrics['images'])} images, and it has {images}")
    for name in (*_SHARES, "loss"):
        value = float(metrics[name])  # type: ignore[arg-type]  # it is a number
        if math.isnan(value) and name in _UNDEFINED:
            continue
        most = 1.0 if name in _SHARES else math.inf
        if not 0 <= value <= most:
            raise _Bad(f"sent the {name} {value:g}, which is not between 0 and {most:g}")


def _check_arrays(arrays: ArrayRecord, sent_out: ArrayRecord, names: frozenset[str]) -> None:
    _same(set(arrays), names, "arrays")
    for name, array in arrays.items():
        asked = sent_out[name]
        size = int(np.prod(asked.shape, dtype=np.int64)) * np.dtype(asked.dtype).itemsize
        if len(array.data) > size + _HEADER:  # before anything is made of it
            raise _Bad(f"sent {len(array.data)} bytes as {name}, which has {size}")
        _check_numbers(name, array, asked)


def _check_numbers(name: str, array: Array, asked: Array) -> None:
    value = array.numpy()
    if value.shape != tuple(asked.shape) or tuple(array.shape) != tuple(asked.shape):
        raise _Bad(f"sent {name} of the shape {list(value.shape)}, and {list(asked.shape)} was agreed")
    if value.dtype != np.dtype(asked.dtype) or array.dtype != asked.dtype:
        raise _Bad(f"sent {name} as {value.dtype}, and {asked.dtype} was agreed")
    if not value.size:
        return
    low, high = float(value.min()), float(value.max())
    if not (math.isfinite(low) and math.isfinite(high)):
        raise _Bad(f"sent values of {name} that are not finite: its training diverged, or was made to")
    if max(-low, high) > MOST:
        raise _Bad(f"sent {max(-low, high):.3g} in {name}; at most {MOST:g} is taken for a weight")


def _check_sealed(record: ConfigRecord, add: Callable[[bytes, Sequence[Sequence[bytes]]], list[bytes]]) -> None:
    _same(set(record), {"ciphertexts", "context"}, "sealed values")
    parts, context = record["ciphertexts"], record["context"]
    if not isinstance(context, bytes) or not isinstance(parts, list) or not all(isinstance(p, bytes) for p in parts):
        raise _Bad("sent no ciphertexts where they were agreed")
    size = len(context) + sum(len(part) for part in parts if isinstance(part, bytes))
    if not parts or not all(parts) or size > _MOST_SEALED:
        raise _Bad(f"sent {len(parts)} ciphertexts of {size} bytes; none may be empty, and {_MOST_SEALED} are the most")
    add(context, [[part for part in parts if isinstance(part, bytes)]])  # they open, each by itself


def _same(found: set[str], agreed: Iterable[str], what: str) -> None:
    agreed = set(agreed)
    if missing := sorted(agreed - found):
        raise _Bad(f"did not send {_listed(missing)} among its {what}")
    if unknown := sorted(map(str, found - agreed)):
        raise _Bad(f"sent {what} that were not agreed: {_listed(unknown)}")


def _listed(names: list[str]) -> str:
    return ", ".join(map(_short, names[:3])) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _short(value: object) -> str:
    return repr(value)[:60]


def _printable(text: str) -> str:
    """What a node says stands in logs and manifests: no letter of it steers a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)
