"""Forecasts and budgets, by a clock that only cells move."""

from dataclasses import dataclass, field

import pytest

from fluoroscope.audit.budget import run_within
from fluoroscope.audit.forecast import Forecast, expected_seconds, forecast
from fluoroscope.audit.schedule import cells_of
from fluoroscope.cells import Outcome, Result

from .conftest import plan_of


@pytest.fixture(scope="module")
def cells():
    return cells_of(plan_of())


@dataclass
class Machine:
    """Runs cells one after another in the time that each really takes."""

    takes: dict[str, float]
    until: float
    now: float = 0.0
    ran: list[list[str]] = field(default_factory=list)

    def clock(self) -> float:
        return self.now

    def run(self, called):
        self.ran.append([cell.id for cell in called])
        ended = {}
        for cell in called:
            if self.now >= self.until:
                break
            self.now += self.takes[cell.id]
            if self.now <= self.until:
                ended[cell.id] = Outcome(Result({}), self.takes[cell.id])
        return ended


def test_a_cell_that_did_not_seem_to_fit_is_called_back(cells):
    """A forecast three times too long leaves two thirds out; none of them is missing in the end."""
    machine = Machine({cell.id: 20.0 for cell in cells}, until=20.0 * len(cells))
    expected = Forecast({cell.id: 60.0 for cell in cells}, workers=1)
    first = expected.within(cells, machine.until / 60)
    assert len(first) == len(cells) // 3
    found = run_within(cells, first, expected, machine.until, machine.run, machine.clock)
    assert set(found) == {cell.id for cell in cells}
    assert machine.ran[0] == [cell.id for cell in first]
    assert len(machine.ran) == 2


def test_what_does_not_fit_is_not_begun(cells):
    machine = Machine({cell.id: 30.0 for cell in cells}, until=100.0)
    expected = Forecast({cell.id: 30.0 for cell in cells}, workers=1)
    first = expected.within(cells, machine.until / 60)
    found = run_within(cells, first, expected, machine.until, machine.run, machine.clock)
    assert list(found) == [cell.id for cell in cells[:3]]
    assert machine.ran == [[cell.id for cell in cells[:3]]]
    assert machine.now == 90.0


def test_when_the_time_is_over_nobody_is_called_back(cells):
    machine = Machine({cell.id: 100.0 for cell in cells}, until=150.0)
    expected = Forecast({cell.id: 10.0 for cell in cells}, workers=1)
    found = run_within(cells, cells[:4], expected, machine.until, machine.run, machine.clock)
    assert list(found) == [cells[0].id]
    assert len(machine.ran) == 1


def test_a_long_cell_lets_shorter_ones_pass(cells):
    seconds = {cell.id: 10.0 for cell in cells}
    seconds[cells[1].id] = 1000.0
    assert Forecast(seconds, workers=2).within(cells[:4], 0.5) == [cells[0], cells[2], cells[3]]


def test_what_has_run_corrects_what_has_not(cells):
    expected = Forecast({cell.id: 10.0 for cell in cells}, workers=1)
    utility, *_ = (cell for cell in cells if cell.kind == "federation")
    games = [cell for cell in cells if cell.kind == "client-inference"]
    found = expected.corrected(cells, {games[0].id: 5.0, utility.id: 20.0})
    assert found.seconds[games[1].id] == 5.0  # its like has run
    others = [cell for cell in cells if cell.kind not in ("client-inference", "federation")]
    assert {found.seconds[cell.id] for cell in others} == {12.5}  # the median of .5 and 2
    assert expected.corrected(cells, {}) == expected


def test_workers_share_the_cells_and_wait_for_their_federation(cells):
    utility = next(cell for cell in cells if cell.kind == "federation")
    same = [cell for cell in cells if cell.plan == utility.plan and cell is not utility][:2]
    seconds = {utility.id: 60.0, same[0].id: 30.0, same[1].id: 30.0}
    assert Forecast(seconds, workers=1).minutes([utility, *same]) == 2.0
    assert Forecast(seconds, workers=2).minutes([utility, *same]) == 1.5, "the first is waited for by both"
    assert Forecast(seconds, workers=2).minutes(same) == 0.5


def test_every_cell_has_a_forecast_and_more_work_takes_longer(cells):
    plan = plan_of()
    found = forecast(plan, cells, workers=2)
    assert set(found.seconds) == {cell.id for cell in cells}
    assert all(seconds > 0 for seconds in found.seconds.values())
    for cell in cells:
        if cell.kind not in ("metrics",):
            assert expected_seconds(cell, 0.02) > expected_seconds(cell, 0.01)
