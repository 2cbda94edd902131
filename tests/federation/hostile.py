"""What a node may send instead of an honest reply: each takes the honest one and gives another."""

import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict

Behaviour = Callable[[Message], Message | list[Message]]


def with_records(reply: Message, **records: Any) -> Message:
    """The reply with records put in, or left out where they are None."""
    kept = {**{name: reply.content[name] for name in reply.content}, **records}
    reply.content = RecordDict({name: record for name, record in kept.items() if record is not None})
    return reply


def sender(**said: Any) -> Behaviour:
    return lambda reply: with_records(reply, sender=ConfigRecord(said))


def metrics(**said: Any) -> Behaviour:
    def change(reply: Message) -> Message:
        kept = {**reply.content["metrics"], **{name.replace("_", "-"): value for name, value in said.items()}}
        return with_records(reply, metrics=MetricRecord({k: v for k, v in kept.items() if v is not None}))

    return change


def first(change: Callable[[np.ndarray], np.ndarray]) -> Behaviour:
    """The first array of numbers is another one."""

    def behave(reply: Message) -> Message:
        arrays = dict(reply.content["arrays"].items())
        name = next(name for name, array in arrays.items() if array.numpy().ndim > 1)
        arrays[name] = Array(change(arrays[name].numpy().copy()))
        return with_records(reply, arrays=ArrayRecord(arrays))

    return behave


def raw(**said: Any) -> Behaviour:
    """The first array says other things of itself, or holds other bytes."""

    def behave(reply: Message) -> Message:
        arrays = dict(reply.content["arrays"].items())
        name, array = next(iter(arrays.items()))
        about = {"dtype": array.dtype, "shape": tuple(array.shape), "stype": array.stype, "data": array.data, **said}
        arrays[name] = Array(**about)
        return with_records(reply, arrays=ArrayRecord(arrays))

    return behave


def first_bytes(change: Callable[[bytes], bytes]) -> Behaviour:
    """The bytes of the first array are others."""

    def behave(reply: Message) -> Message:
        return raw(data=change(next(iter(reply.content["arrays"].values())).data))(reply)

    return behave


def names(change: Callable[[dict[str, Array]], dict[str, Array]]) -> Behaviour:
    return lambda reply: with_records(reply, arrays=ArrayRecord(change(dict(reply.content["arrays"].items()))))


def one(value: float) -> Behaviour:
    def change(array: np.ndarray) -> np.ndarray:
        array.flat[0] = value
        return array

    return first(change)


def error(reason: str) -> Behaviour:
    def behave(reply: Message) -> Message:
        answer = Message(Error(1, reason), reply_to=reply)  # its metadata are turned round again below
        for key in ("_src_node_id", "_dst_node_id", "_message_type"):
            answer.metadata.__dict__[key] = reply.metadata.__dict__[key]
        return answer

    return behave


def from_node(node: int) -> Behaviour:
    def behave(reply: Message) -> Message:
        reply.metadata.__dict__["_src_node_id"] = node
        return reply

    return behave


def saved(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


HUGE = (
    b"\x93NUMPY\x01\x00v\x00"
    + b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }".ljust(117)
    + b"\n"
)
ANY = {
    "the last client by -1": sender(client=-1),
    "a client beyond the last": sender(client=99),
    "a client of 63 bits": sender(client=2**62),
    "a client as text": sender(client="1"),
    "a client as a fraction": sender(client=1.0),
    "a client as truth": sender(client=True),
    "a client as a list": sender(client=[1]),
    "a client as bytes": sender(client=b"1"),
    "another's name": sender(client=1),
    "no client": sender(),
    "no sender": lambda reply: with_records(reply, sender=None),
    "a sender of metrics": lambda reply: with_records(reply, sender=MetricRecord({"client": 0})),
    "nothing at all": lambda reply: with_records(reply, **dict.fromkeys(reply.content)),
    "one record more": lambda reply: with_records(reply, more=ConfigRecord({"x": 1})),
    "one array record more": lambda reply: with_records(reply, more=ArrayRecord({"x": Array(np.zeros(2))})),
    "no metrics": lambda reply: with_records(reply, metrics=None),
    "metrics by another name": lambda reply: with_records(reply, metrics=None, other=reply.content["metrics"]),
    "metrics of no number": lambda reply: with_records(reply, metrics=MetricRecord({})),
    "one metric more": metrics(more=1.0),
    "images of a million clients": metrics(num_examples=1_000_000_000),
    "images below none": metrics(num_examples=-24),
    "images that are no number": metrics(num_examples=float("nan")),
    "endless images": metrics(num_examples=float("inf")),
    "no images": metrics(num_examples=0),
    "a list of images": metrics(num_examples=[1, 2]),
    "no word of images": metrics(num_examples=None),
    "a loss in a list": metrics(loss=[0.1]),
    "no loss": metrics(loss=None),
    "an error": error("no"),
    "an error of a megabyte": error("[red]no" * 150_000),
    "an error with odd letters": error("\x1b[31m\x00\u202e<script>"),
    "two answers": lambda reply: [reply, reply],
    "silence": lambda reply: [],
    "three answers, two of them errors": lambda reply: [error("no")(reply), reply, error("no")(reply)],
    "a client with odd letters": sender(client="\x1b[2J\u202e"),
    "a client of a megabyte": sender(client="1" * 2**20),
    "a fraction of an image": metrics(num_examples=0.5),
    "images of 63 bits": metrics(num_examples=2**62),
    "a thousand metrics more": metrics(**{f"x{i}": 1.0 for i in range(1000)}),
    "a metric with odd letters": metrics(**{"\x1b[2J\u202e": 1.0}),
    "a sender of arrays": lambda reply: with_records(reply, sender=ArrayRecord({"client": Array(np.zeros(1))})),
    "a configuration for metrics": lambda reply: with_records(reply, metrics=ConfigRecord({"num-examples": 20})),
    "another node's answer": from_node(3),
    "the answer of a node that nobody knows": from_node(424242),
}
"""In training as in validation, of the first client of three."""

TRAINING = {
    "no number": one(float("nan")),
    "infinite": one(float("inf")),
    "minus infinite": one(float("-inf")),
    "1e38": one(1e38),
    "-1e13": one(-1e13),
    "an array too few": names(lambda arrays: dict(list(arrays.items())[1:])),
    "an array too many": names(lambda arrays: {**arrays, "more": Array(np.zeros(3, np.float32))}),
    "arrays by other names": names(lambda arrays: {f"module.{name}": value for name, value in arrays.items()}),
    "no arrays": names(lambda arrays: {}),
    "no record of arrays": lambda reply: with_records(reply, arrays=None),
    "arrays that are a configuration": lambda reply: with_records(reply, arrays=ConfigRecord({"x": 1})),
    "turned round": first(lambda array: np.ascontiguousarray(array.T)),
    "flat": first(lambda array: array.reshape(-1)),
    "one number": first(lambda array: np.array(1.0, np.float32)),
    "empty": first(lambda array: array[:0]),
    "longer": first(lambda array: np.concatenate([array, array])),
    "as double": first(lambda array: array.astype(np.float64)),
    "as half": first(lambda array: array.astype(np.float16)),
    "as whole numbers": first(lambda array: array.astype(np.int32)),
    "as complex numbers": first(lambda array: array.astype(np.complex64)),
    "as truths": first(lambda array: array.astype(bool)),
    "as texts": first(lambda array: array.astype(str)),
    "the other byte order": first(lambda array: array.astype(">f4")),
    "bytes that are none": raw(data=b"hello"),
    "no bytes": raw(data=b""),
    "a pickle": raw(data=pickle.dumps({"a": 1})),
    "a pickle within an array": raw(data=saved(np.array([{"a": 1}], dtype=object))),
    "a header of a terabyte": raw(data=HUGE + b"abcd"),
    "a gigabyte too many": raw(data=bytes(2**24)),
    "another way of writing": raw(stype="pickle"),
    "a false shape": raw(shape=(1, 2, 3)),
    "a false type": raw(dtype="float64"),
    "a loss that is no number": metrics(loss=float("nan")),
    "an infinite loss": metrics(loss=float("inf")),
    "an accuracy in training": metrics(accuracy=1.0),
    "as dates": first(lambda array: array.astype("datetime64[s]")),
    "as records of two numbers": first(lambda array: np.zeros(array.shape, "<f4,<i4")),
    "as bytes of text": raw(data=saved(np.array([b"x" * 40] * 9))),
    "the smallest above the most": one(1.0001e12),
    "a hidden axis": first(lambda array: array[None]),
    "an axis too few": first(lambda array: array[0]),
    "a shape of negative numbers": raw(shape=(-1, -1)),
    "a header of another file": raw(data=b"PK\x03\x04" + bytes(60)),
    "a header without an end": raw(data=b"\x93NUMPY\x01\x00\xff\xff{'descr': '<f4'"),
    "a header that is code": raw(
        data=b"\x93NUMPY\x01\x00v\x00" + b"__import__('os').system('true')".ljust(117) + b"\n"
    ),
    "a header nested too deeply": raw(data=b"\x93NUMPY\x01\x00v\x00" + (b"(" * 117) + b"\n"),
    "half of the bytes": first_bytes(lambda data: data[: len(data) // 2]),
    "one byte too few": first_bytes(lambda data: data[:-1]),
    "a version of numpy to come": first_bytes(lambda data: data[:6] + b"\x09" + data[7:]),
    "a name of a megabyte": names(lambda arrays: {**arrays, "x" * 2**20: Array(np.zeros(1, np.float32))}),
    "a name that is a path": names(lambda arrays: {**arrays, "../../x": Array(np.zeros(1, np.float32))}),
    "an empty name": names(lambda arrays: {**arrays, "": Array(np.zeros(1, np.float32))}),
    "a name with odd letters": names(lambda arrays: {**arrays, "\x1b[2J\u202e": Array(np.zeros(1, np.float32))}),
    "a thousand arrays more": names(
        lambda arrays: {**arrays, **{f"x{i}": Array(np.zeros(1, np.float32)) for i in range(1000)}}
    ),
}

VALIDATION = {
    "an accuracy of 1.0000001": metrics(accuracy=1.0000001),
    "images by the fraction": metrics(images=0.5),
    "a loss of minus infinity": metrics(loss=float("-inf")),
    "an accuracy in a list": metrics(accuracy=[0.5, 0.5]),
    "an accuracy of 5": metrics(accuracy=5.0),
    "an accuracy below 0": metrics(accuracy=-0.1),
    "an accuracy that is no number": metrics(accuracy=float("nan")),
    "no accuracy": metrics(accuracy=None),
    "an F1 of 2": metrics(f1=2.0),
    "a precision of infinity": metrics(precision=float("inf")),
    "an AUC of -1": metrics(auc=-1.0),
    "a loss below 0": metrics(loss=-3.0),
    "other images": metrics(images=10**9),
    "arrays in a validation": lambda reply: with_records(reply, arrays=ArrayRecord({"x": Array(np.zeros(2))})),
}

_WIRED = (
    "the last client by -1", "another's name", "nothing at all", "one array record more", "images below none",
    "no arrays", "no number", "1e38", "an array too few", "turned round", "as texts",
    "a pickle within an array", "a header of a terabyte", "another way of writing", "a false shape", "an infinite loss",
)  # fmt: skip
ON_THE_WIRE = {name: behave for name, behave in {**ANY, **TRAINING}.items() if name in _WIRED}
"""Those that a slow test sends over a real network: a round takes seconds there."""


class Hostile:
    """An app whose first node does as it likes, in training or in validation."""

    def __init__(self, app: Any, kind: str, behave: Behaviour, rounds: tuple[int, ...] = (1,), node: int = 2) -> None:
        self._app, self._kind, self._behave, self._rounds, self._node = app, kind, behave, rounds, node

    def __call__(self, message: Message, context: Any) -> Message:
        honest = self._app(message, context)
        told = message.content["config"]["server-round"]
        if context.node_id != self._node or message.metadata.message_type != self._kind or told not in self._rounds:
            return honest
        answer = self._behave(honest)
        return answer if isinstance(answer, Message) else honest
