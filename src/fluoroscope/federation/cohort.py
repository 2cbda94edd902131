"""A defence at an honest server, around any strategy: it meets every update, and the model before it leaves."""

from collections.abc import Iterable, Mapping

import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvgM, Strategy
from torch import Tensor

from fluoroscope.defences import AdaptiveServerDefence, Released, ServerDefence
from fluoroscope.federation.messages import to_arrays, to_state
from fluoroscope.federation.wrapper import Wrapper, innermost
from fluoroscope.rng import generator
from fluoroscope.types import State

NOISE, DISTANCE = "cohort-noise", "cohort-distance"
"""What the round's metrics say of it."""
CLIP_NORM = "cohort/clip-norm"


class DefendedStrategy(Wrapper):
    """Around a strategy, or around one with the averaging of buffers, where the defence covers those too."""

    def __init__(self, inner: Strategy, defence: ServerDefence, seed: int) -> None:
        super().__init__(inner)
        self.defence, self.seed = defence, seed
        self._before: dict[str, Tensor] = {}

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> Iterable[Message]:
        self._before = to_state(arrays)
        core = innermost(self.inner)
        if core is self.inner and isinstance(core, FedAvgM):
            # It measures the clients' way from its own model, not from the noised one that they were sent: so the noise
            # of every round would enter its momentum with the next.
            core.current_arrays = arrays
        return self.inner.configure_train(server_round, arrays, config, grid)

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        replies = list(replies)
        places = [(reply.content, key) for reply in replies for key in list(reply.content.array_records)]
        arrived = [self._change(to_state(content[key])) for content, key in places]  # type: ignore[arg-type]
        cohort = [self.defence.clip_update(update) for update in arrived]
        rng = generator(self.seed, "cohort defence", "round", server_round)
        if isinstance(self.defence, AdaptiveServerDefence) and cohort:
            self.defence = self.defence.adapted(arrived, rng)
        # The same noise on every client's update is that noise on their mean.
        nothing = {name: torch.zeros_like(value) for name, value in self._before.items()}
        early = self.defence.noise_aggregate(nothing, cohort, rng) if self.defence.before_optimiser and cohort else None
        for (content, key), update in zip(places, cohort, strict=True):
            content[key] = to_arrays(self._moved(update if early is None else _sum(update, early.update)))
        arrays, metrics = self.inner.aggregate_train(server_round, replies)
        if arrays is None:
            return None, metrics
        change = self._change(to_state(arrays))
        noise_aggregate = early or self.defence.noise_aggregate(change, cohort, rng)
        left = arrays if early else to_arrays(self._moved(noise_aggregate.update))
        return left, _told(metrics, noise_aggregate)

    def _change(self, state: State) -> dict[str, Tensor]:
        return {name: value - self._before[name] for name, value in state.items()}

    def _moved(self, update: State) -> dict[str, Tensor]:
        return {
            name: (self._before[name] + change).to(torch.float32 if change.is_floating_point() else change.dtype)
            for name, change in update.items()
        }

    def state(self) -> dict[str, Tensor]:
        """What has to be kept to go on after a stop: the norm of the next round."""
        if not isinstance(self.defence, AdaptiveServerDefence):
            return {}
        return {CLIP_NORM: torch.tensor(self.defence.clip_norm, dtype=torch.float64)}

    def restore(self, kept: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Takes its own, and gives back the rest."""
        if CLIP_NORM in kept and isinstance(self.defence, AdaptiveServerDefence):
            self.defence = self.defence.with_clip_norm(float(kept[CLIP_NORM]))
        return {name: value for name, value in kept.items() if name != CLIP_NORM}


def _sum(a: State, b: State) -> dict[str, Tensor]:
    return {name: value + b[name] for name, value in a.items()}


def _told(metrics: MetricRecord | None, noise_aggregate: Released) -> MetricRecord:
    return MetricRecord({**(metrics or {}), NOISE: noise_aggregate.noise, DISTANCE: noise_aggregate.distance})
