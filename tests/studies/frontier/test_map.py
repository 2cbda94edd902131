"""The map's points: which they are, and what is made of attacks that are exact, know nothing, or take too long."""

import math
import time
from dataclasses import dataclass, fields

import pytest
import torch

from fluoroscope.attacks.learned.learning import NEEDS
from fluoroscope.cells import CellContext
from fluoroscope.scenarios.isolation import TookTooLong
from fluoroscope.scenarios.rehearsal import Stage
from fluoroscope.scenarios.rehearsed import Rehearsed
from fluoroscope.scores.intervals import Interval
from fluoroscope.studies import STUDIES
from fluoroscope.studies.frontier.map import UNMATCHED, MapCell, _Played, _result
from fluoroscope.studies.frontier.map_study import BASES, IMAGES_PER_STEP, STEPS, design, one_factor_at_a_time
from fluoroscope.threat_models import THREATS
from fluoroscope.types import LabelledImages, Observation, PrivateBatch, Reconstruction


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


ALIKE = torch.rand(1, 16, 16, generator=torch.Generator().manual_seed(9)) / 2
"""What all patients have in common: the prior is near to everybody."""


def stage(victims=6):
    images = ALIKE + torch.rand(victims + 8, 1, 1, 16, 16, generator=rng()) / 2
    labels = torch.zeros(1, dtype=torch.int64)
    return Stage(
        (),
        tuple(PrivateBatch(image, labels, (str(i),)) for i, image in enumerate(images[:victims])),
        LabelledImages(ALIKE + torch.rand(20, 1, 16, 16, generator=rng(1)) / 2, torch.zeros(20, dtype=torch.int64)),
        tuple(images[victims:]),
    )


def guessed(images):
    return [Reconstruction(each, None, 0.0) for each in images]


def row(name, leak):
    return Rehearsed(name, True, leak=None if leak is None else Interval(leak, leak, leak, 6))


def test_the_design_is_the_grid_and_one_factor_at_a_time():
    points = design("small")
    assert len(points) == len(set(points)) == 35
    grid = {(p.images_per_step, p.steps) for p in points}
    assert grid == {(images, steps) for images in IMAGES_PER_STEP for steps in STEPS}
    for base in BASES:
        for varied in one_factor_at_a_time(base):
            differing = [f.name for f in fields(MapCell) if getattr(base, f.name) != getattr(varied, f.name)]
            assert len(differing) == 1
            assert varied in points


def test_exact_guesses_are_beyond_chance_and_all_found():
    at = stage()
    rows = [row("exact", 0.9), row("other", 0.1), row("silent", None)]
    guesses = {"exact": guessed(v.images for v in at.victims), "other": guessed(v.images for v in at.victims)}
    found = _result(rows, guesses, at, 0)
    assert found.measures["beyond"] == 1
    assert (found.measures["found"], found.measures["images"], found.measures["attacks"]) == (6, 6, 2)
    assert found.measures["leak"] > 0.8
    assert found.notes["attack"] == "exact"
    assert found.notes["tried"]["silent"] == "made no guess"


def test_guesses_about_nobody_are_not():
    at = stage()
    noise = ALIKE + torch.rand(6, 1, 1, 16, 16, generator=rng(7)) / 2
    found = _result([row("noise", 0.0)], {"noise": guessed(noise)}, at, 0)
    assert found.measures["beyond"] == 0
    assert found.measures["leak_low"] < 0 < found.measures["leak_high"]


def test_the_best_of_many_attacks_has_a_wider_interval_and_a_larger_p_value():
    at = stage()
    half = [0.3 * v.images + 0.7 * torch.rand(1, 1, 16, 16, generator=rng(i)) for i, v in enumerate(at.victims)]
    alone = _result([row("a", 0.5)], {"a": guessed(half)}, at, 0).measures
    many = _result([row("a", 0.5), *(row(f"b{i}", 0.1) for i in range(9))], {"a": guessed(half)}, at, 0).measures
    assert many["leak_high"] - many["leak_low"] > alone["leak_high"] - alone["leak_low"]
    assert many["p_value"] == pytest.approx(min(1.0, 10 * alone["p_value"]))


def test_where_no_attack_made_a_guess_nothing_is_claimed():
    found = _result([row("a", None)], {}, stage(), 0)
    assert (found.measures["leak"], found.measures["attacks"], found.measures["beyond"]) == (None, 0, 0)


@dataclass(frozen=True)
class Endless:
    """Tells of its first step of a thousand for as long as it is let."""

    needs = frozenset()

    def run(self, observations, rng, on_iteration, checkpoint):
        began = time.process_time()
        while time.process_time() - began < 5:
            on_iteration(0, 1000)
        return []


def test_an_attack_that_would_take_too_long_is_stopped_soon(tmp_path):
    played = _Played(CellContext(0, tmp_path, tmp_path / "checkpoint"), 1.0)
    began = time.process_time()
    with pytest.raises(TookTooLong, match="its share is 1 s"):
        played.within("endless", 1.0)(Endless(), [], rng())
    assert time.process_time() - began < 2
    assert played.guesses == {}


@dataclass(frozen=True)
class Learner:
    """Keeps what it was given to learn from."""

    given: list
    needs = NEEDS

    def run(self, observations, rng, on_iteration, checkpoint):
        self.given.append(observations[0].public_images)
        return []


def test_attacks_that_simulate_are_given_as_many_images_as_they_have_time_for(tmp_path):
    public = LabelledImages(torch.rand(300, 1, 4, 4), torch.arange(300), tuple(map(str, range(300))))
    seen = [Observation(THREATS.get("curious-server"), 1, (), public_images=public)]
    played = _Played(CellContext(0, tmp_path, tmp_path / "checkpoint"), 0.1)
    given = []
    played.within("first", 25.0)(Learner(given), seen, rng())
    played.within("second", 5.0)(Learner(given), seen, rng())
    first, second = given
    assert len(first) == 100  # 25 s at .4 of a round of .1 s
    assert first.labels.tolist() == list(range(0, 300, 3))
    assert second.labels.tolist() == first.labels.tolist()
    assert first.patients == public.patients[::3]


@pytest.mark.slow
def test_a_cell_is_run(tmp_path):
    """A client of one image with a small network: whatever was found, every attack is accounted for."""
    cell = MapCell(1, 1, network="lenet5", size=32, seconds=5.0)
    found = cell.run(CellContext(0, tmp_path, tmp_path / "checkpoint"))
    assert set(found.notes["tried"]) | {UNMATCHED} == set(cell.attack)
    assert found.measures["images"] == 6


def test_the_figure_is_drawn_with_points_missing():
    from fluoroscope.cells import Result
    from fluoroscope.studies.study import Row

    study = STUDIES.get("frontier/map")
    measures = {"leak": 0.4, "leak_low": 0.2, "leak_high": 0.6, "beyond": 1, "found": 3, "images": 6}
    rows = [Row(cell.settings, Result(measures), None, 1.0) for cell in design("small")[::2]]
    rows.append(Row(design("small")[1].settings, Result({"leak": None, "beyond": 0}), None, 1.0))
    figure = study.draw("the map", rows)
    assert len(figure.axes) == 3
    assert math.isfinite(figure.get_figwidth())
