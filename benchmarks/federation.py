"""What the federation and the recorder cost over bare training loops: P1's nine clients, ResNet-18, 64x64.

Interleaved, so that a noisy neighbour disturbs all three alike. Rounds on a shared machine differ by more than the
recorder costs, so the time for which it holds up the server is clocked by itself as well.
"""

import copy
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import torch
from torch import nn

from fluoroscope.federation.plan import Plan, parse_plan
from fluoroscope.federation.recorder import Recorder
from fluoroscope.federation.run import federate
from fluoroscope.federation.task import Task, load_task

ROUNDS = 3


def plan(records: str, rounds: int) -> Plan:
    return parse_plan(
        {
            "rounds": rounds,
            "data": {"source": "phantom/chest", "size": 64, "images": 1700},
            "partition": {"name": "p1", "validation": 8, "test": 20},
            "model": {"name": "resnet18"},
            "training": {"lr": 0.01},
            "records": {"rounds": records},
        }
    )


def bare_round(task: Task, server_round: int) -> None:
    """The same training and evaluation as everybody writes it, with torch.optim and no federation around it."""
    states = []
    for client in range(len(task.clients)):
        model = copy.deepcopy(task.model).train()
        data, batch_size = task.train_batch(client), task.clients[client].batch_size
        optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
        order = torch.randperm(len(data), generator=torch.Generator().manual_seed(server_round))
        for chosen in torch.split(order, batch_size):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(data.images[chosen]), data.labels[chosen]).backward()
            optimiser.step()
        states.append(model.state_dict())
    mean = {name: torch.stack([s[name].float() for s in states]).mean(0) for name in states[0]}
    model = copy.deepcopy(task.model).eval()
    model.load_state_dict(mean)
    with torch.no_grad():
        for client in range(len(task.clients)):
            model(task.validation_batch(client).images)


class RoundClock:
    """Seconds of each round as the listener sees them."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def begin(self, work: int, done: int) -> None:
        self._last = time.perf_counter()

    def advance(self, images: int, what: str) -> None: ...

    def round_done(self, server_round: int, accuracy: float | None, loss: float) -> None:
        self.seconds.append(time.perf_counter() - self._last)


@contextmanager
def time_in_recorder(into: list[float]) -> Iterator[None]:
    """Adds up, round by round, the seconds for which the recorder holds up the server."""
    spent = 0.0

    def timed(method: Callable[..., None], last: bool) -> Callable[..., None]:
        def call(*arguments: object) -> None:
            nonlocal spent
            start = time.perf_counter()
            method(*arguments)
            spent += time.perf_counter() - start
            if last:
                into.append(spent)
                spent = 0.0

        return call

    record, finish = timed(Recorder._record, False), timed(Recorder._finish, True)
    with mock.patch.object(Recorder, "_record", record), mock.patch.object(Recorder, "_finish", finish):
        yield


def main() -> None:
    bare, off, on = RoundClock(), RoundClock(), RoundClock()
    held_up: dict[str, list[float]] = {"none": [], "all": []}
    with tempfile.TemporaryDirectory() as folder:
        for r in range(1, ROUNDS + 1):
            bare.begin(0, 0)
            bare_round(load_task(plan("none", 1)), r)
            bare.round_done(r, None, 0.0)
            for records, clock in (("none", off), ("all", on)):
                with time_in_recorder(held_up[records]):
                    federate(plan(records, r), Path(folder) / records, progress=clock)
            seconds = [clock.seconds[-1] for clock in (bare, off, on)]
            print("round {}: bare {:.1f} s, recorder off {:.1f} s, on {:.1f} s".format(r, *seconds), flush=True)
    for name, middle in (("medians", statistics.median), ("fastest", min)):
        loops, silent, recorded = (middle(clock.seconds) for clock in (bare, off, on))
        print(f"{name}: federation over bare training loops {silent / loops:.3f} (bar 1.10), ", end="")
        print(f"recorder on over recorder off {recorded / silent:.3f} (bar 1.05)")
    extra = statistics.median(held_up["all"]) - statistics.median(held_up["none"])
    print(f"by the recorder's own clock: {1 + extra / statistics.median(off.seconds):.3f} (bar 1.05)")


if __name__ == "__main__":
    main()
