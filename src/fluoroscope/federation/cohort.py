"""A defence at an honest server, around any strategy: it meets every update, and the model before it leaves."""

from collections.abc import Iterable

import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy
from torch import Tensor

from fluoroscope.defences import OnCohort
from fluoroscope.federation.messages import to_arrays, to_state
from fluoroscope.federation.wrapper import Wrapper
from fluoroscope.rng import generator
from fluoroscope.types import State


class DefendedCohort(Wrapper):
    """Stands inside the averaging of buffers, so buffers are neither clipped nor noised (spec section 4)."""

    def __init__(self, inner: Strategy, defence: OnCohort, seed: int) -> None:
        super().__init__(inner)
        self.defence, self.seed = defence, seed
        self._before: dict[str, Tensor] = {}

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        self._before = to_state(arrays)
        return self.inner.configure_train(server_round, arrays, config, grid)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        replies, cohort = list(replies), []
        for reply in replies:
            for key, record in list(reply.content.array_records.items()):
                update = self.defence.received(self._change(to_state(record)))
                reply.content[key] = to_arrays(self._moved(update))
                cohort.append(update)
        arrays, metrics = self.inner.aggregate_train(server_round, replies)
        if arrays is None:
            return None, metrics
        rng = generator(self.seed, "cohort defence", "round", server_round)
        released = self.defence.released(self._change(to_state(arrays)), cohort, rng)
        return to_arrays(self._moved(released)), metrics

    def _change(self, state: State) -> dict[str, Tensor]:
        return {name: value - self._before[name] for name, value in state.items()}

    def _moved(self, update: State) -> dict[str, Tensor]:
        return {name: (self._before[name] + change).to(torch.float32) for name, change in update.items()}
