"""A Strategy around a Strategy: says only what differs."""

from collections.abc import Iterable, Iterator

from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy


class Wrapper(Strategy):
    """Hands every call on to the strategy inside."""

    def __init__(self, inner: Strategy) -> None:
        self.inner = inner

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        return self.inner.configure_train(server_round, arrays, config, grid)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        return self.inner.aggregate_train(server_round, replies)

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        return self.inner.configure_evaluate(server_round, arrays, config, grid)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        return self.inner.aggregate_evaluate(server_round, replies)

    def summary(self) -> None:
        self.inner.summary()


def layers(strategy: Strategy) -> Iterator[Strategy]:
    """The wrappers from the outside, and the strategy at their core."""
    yield strategy
    if isinstance(strategy, Wrapper):
        yield from layers(strategy.inner)


def innermost(strategy: Strategy) -> Strategy:
    """The strategy at the core of any number of wrappers."""
    *_, core = layers(strategy)
    return core
