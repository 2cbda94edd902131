"""What the federation and the recorder cost over bare training loops: P1's nine clients, ResNet-18, 64x64.

Interleaved, so that a noisy neighbour disturbs all three alike; the medians of the rounds are compared.
"""

import copy
import statistics
import tempfile
import time
from pathlib import Path

import torch
from torch import nn

from fluoroscope.federation.plan import Plan, parse_plan
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


def bare_round(task: Task, server_round: int) -> float:
    """The same training and evaluation as everybody writes it, with torch.optim and no federation around it."""
    start = time.perf_counter()
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
    return time.perf_counter() - start


class RoundClock:
    """Seconds of each round as the listener sees them."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def begin(self, work: int, done: int) -> None:
        self._last = time.perf_counter()

    def advance(self, images: int, what: str) -> None: ...

    def round_done(self, server_round: int, accuracy: float | None, loss: float) -> None:
        now = time.perf_counter()
        self.seconds.append(now - self._last)
        self._last = now


def main() -> None:
    bare, off, on = [], RoundClock(), RoundClock()
    with tempfile.TemporaryDirectory() as folder:
        for r in range(1, ROUNDS + 1):
            bare.append(bare_round(load_task(plan("none", 1)), r))
            for records, clock in (("none", off), ("all", on)):
                federate(plan(records, r), Path(folder) / records, progress=clock)
            print(f"round {r}: bare {bare[-1]:.1f} s, recorder off {off.seconds[-1]:.1f} s, on {on.seconds[-1]:.1f} s")
    loops, silent, recorded = (statistics.median(values) for values in (bare, off.seconds, on.seconds))
    print(f"federation over bare training loops: {silent / loops:.3f} (bar 1.10)")
    print(f"recorder on over recorder off: {recorded / silent:.3f} (bar 1.05)")


if __name__ == "__main__":
    main()
