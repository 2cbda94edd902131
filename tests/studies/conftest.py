"""A study of cells that cost nothing, so that what runs them can be watched."""

from dataclasses import dataclass

import pytest
import torch

from fluoroscope.attacks import ATTACKS
from fluoroscope.cells import Result
from fluoroscope.report.figures import Panel, Point, panels
from fluoroscope.studies.study import Study

RAN: list[int] = []
"""The cells that were really run, in order."""
KILLED_AT: list[int] = []


@dataclass(frozen=True)
class Counting:
    number: int
    data: str = "phantom/chest"

    @property
    def attack(self):
        return ATTACKS.get("bn-only")

    @property
    def settings(self):
        return {"data": self.data, "number": self.number}

    def run(self, bench):
        if self.number in KILLED_AT:
            raise KeyboardInterrupt
        RAN.append(self.number)
        bench.on_progress(0.5)
        return Result(
            {"square": self.number**2, "undefined": float("nan")},
            {"iteration": [0, 1], "square": [0.0, 1.0]},
            {"image": torch.full((1, 1, 4, 4), bench.seed / 10)},
        )


def draw(title, rows):
    points = [Point(row["number"], row["square"], row["square"] - 1, row["square"] + 1) for row in rows]
    return panels(title, [Panel("squares", "number", "square", {"ours": points}, {"nothing": 0.0})])


@pytest.fixture
def study() -> Study:
    RAN.clear()
    KILLED_AT.clear()
    return counting_study()


def counting_study() -> Study:
    cells = {"small": [Counting(1), Counting(2), Counting(3)], "paper": [Counting(n) for n in range(9)]}
    theirs = {1: {"square": 1.0}, 2: {"square": 4.5, "cube": 8}}
    return Study("t/counting", "Counting", "Squares grow.", cells, draw, lambda row: theirs.get(row["number"]), True)
