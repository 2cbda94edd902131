"""Buffers are averaged, whatever the strategy does to the parameters.

Server-side Adam or momentum on a running variance can make it negative, a median of counters means
nothing, and FedAdam hands back float64. So the strategy inside sees the parameters alone.
"""

from collections.abc import Iterable, Mapping

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy

from fluoroscope.federation.wrapper import Wrapper


class AveragedBuffers(Wrapper):
    """Takes the buffers out of the arrays, averages them by the clients' numbers of images and puts them back."""

    def __init__(self, inner: Strategy, buffers: frozenset[str]) -> None:
        super().__init__(inner)
        self.buffers = buffers
        self._order: tuple[str, ...] = ()
        self._dtypes: dict[str, str] = {}

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        self._order = tuple(arrays)
        self._dtypes = {name: array.dtype for name, array in arrays.items()}
        kept = {name: array for name, array in arrays.items() if name in self.buffers}
        for message in self.inner.configure_train(server_round, self._parameters(arrays), config, grid):
            for key, record in list(message.content.array_records.items()):
                message.content[key] = self._joined(record, kept)
            yield message

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        replies = list(replies)
        answered = [reply for reply in replies if reply.has_content()]
        buffers = self._average([reply.content for reply in answered]) if answered else {}
        for reply in answered:
            for key, record in list(reply.content.array_records.items()):
                reply.content[key] = self._parameters(record)
        arrays, metrics = self.inner.aggregate_train(server_round, replies)
        return (None if arrays is None else self._joined(arrays, buffers)), metrics

    def _parameters(self, arrays: Mapping[str, Array]) -> ArrayRecord:
        # In one order for all: FedAvgM pairs arrays by their place, and clients may list them in another.
        return ArrayRecord({name: arrays[name] for name in self._order if name in arrays and name not in self.buffers})

    def _joined(self, parameters: Mapping[str, Array], buffers: Mapping[str, Array]) -> ArrayRecord:
        everything = {**parameters, **buffers}
        return ArrayRecord(
            {name: _cast(everything[name], self._dtypes[name]) for name in self._order if name in everything}
        )

    def _average(self, contents: list[RecordDict]) -> dict[str, Array]:
        weights = np.array([next(iter(c.metric_records.values()))["num-examples"] for c in contents], dtype=np.float64)
        weights /= weights.sum()
        records = [next(iter(content.array_records.values())) for content in contents]
        return {
            name: Array(np.asarray(_weighted(weights, [record[name].numpy() for record in records])))
            for name in self._order
            if name in self.buffers and all(name in record for record in records)
        }


def _weighted(weights: np.ndarray, values: list[np.ndarray]) -> np.ndarray:
    mean = np.tensordot(weights, np.stack(values).astype(np.float64), axes=1)
    # num_batches_tracked counts batches: it stays a whole number.
    return np.asarray(np.rint(mean) if np.issubdtype(values[0].dtype, np.integer) else mean)


def _cast(array: Array, dtype: str) -> Array:
    return array if array.dtype == dtype else Array(np.asarray(array.numpy().astype(dtype)))
