"""Cells that workers can import. Each run is a line of a file, so that runs in any process are counted."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from fluoroscope.cells import Result
from fluoroscope.errors import Misconfigured, Unsupported

PROBLEMS = {
    "unsupported": Unsupported("two steps are too many."),
    "misconfigured": Misconfigured("there is no such thing."),
    "unexpected": ZeroDivisionError("division by zero\nand more"),
}


class Odd(Exception):
    """Can be pickled, and not be read again."""

    def __init__(self, one, two):
        super().__init__(one)


@dataclass(frozen=True)
class Counted:
    number: int
    does: str = ""
    seconds: float = 0.0
    data: str = "phantom/chest"

    @property
    def attack(self):
        return "none"

    @property
    def settings(self):
        return {"number": self.number, "does": self.does}

    def run(self, bench):
        bench.folder.mkdir(exist_ok=True)
        with (bench.folder / "runs.txt").open("a") as runs:
            runs.write(f"{self.number} {os.getpid()}\n")
        bench.on_progress(0.5)
        time.sleep(self.seconds)
        while self.does == "waits" and not (bench.folder / "go").exists():
            time.sleep(0.05)
        if self.does in PROBLEMS:
            raise PROBLEMS[self.does]
        if self.does == "odd":
            raise Odd("a", "b")
        if self.does == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.does == "dies once" and not (bench.folder / "died").exists():
            (bench.folder / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        # A long sum, which another number of threads would take in another order.
        numbers = torch.randn(2_000_000, generator=torch.Generator().manual_seed(bench.seed + self.number))
        return Result(
            {"sum": float(numbers.exp().sum()), "threads": torch.get_num_threads()},
            {"iteration": [0.0, 1.0]},
            {"image": numbers[:16].reshape(1, 1, 4, 4)},
        )


def runs(folder: Path) -> list[int]:
    """The cells that were run, in order."""
    path = folder / "runs.txt"
    return [int(line.split()[0]) for line in path.read_text().splitlines()] if path.exists() else []


def workers(folder: Path) -> set[int]:
    """The processes that ran them."""
    return {int(line.split()[1]) for line in (folder / "runs.txt").read_text().splitlines()}
