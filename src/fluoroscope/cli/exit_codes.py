"""Exit codes that are no error's own; those are in `errors.py`."""

NOTHING_DONE = 2
"""Of an audit no cell has a result: the plan's fault, as each cell's reason says."""
FAILED = 4
"""What was asked does not hold: a limit is broken, a ledger was edited, a job could get past a site's filters."""
