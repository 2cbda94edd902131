"""Cells within a budget of time: what does not seem to fit waits, and is called back where time is left."""

import time
from collections.abc import Callable, Mapping, Sequence

from fluoroscope.audit.cell import AuditCell
from fluoroscope.audit.forecast import Forecast
from fluoroscope.cells import Outcome

Run = Callable[[Sequence[AuditCell]], Mapping[str, Outcome]]
"""Runs cells until the time is over; gives the outcomes of those that came to an end, by the cell's id."""


def run_within(
    cells: Sequence[AuditCell],
    first: Sequence[AuditCell],
    expected: Forecast,
    until: float,
    run: Run,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, Outcome]:
    """Run the `first` ones; then, with what they took, as many of the others as fit before `until`, and so on.

    Args:
        cells: all that there are, the most wanted first.
        first: those that are expected to fit.
        expected: how long each will take.
        until: when the time is over, by the clock.
        run: runs cells.
        clock: in seconds.
    """
    outcomes: dict[str, Outcome] = {}
    called = list(first)
    waiting = [cell for cell in cells if cell not in first]
    while called:
        outcomes |= run(called)
        left = until - clock()
        if left <= 0 or not waiting:
            break
        measured = {name: outcome.seconds for name, outcome in outcomes.items() if not outcome.failed}
        called = expected.corrected(cells, measured).within(waiting, left / 60)
        waiting = [cell for cell in waiting if cell not in called]
    return outcomes
