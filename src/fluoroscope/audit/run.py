"""Runs an audit: what fits the budget, then findings.json, timing.json and the gallery."""

import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fluoroscope import strict_json
from fluoroscope.atomic_write import make_run_folder, write_text
from fluoroscope.audit.budget import run_within
from fluoroscope.audit.cell import AuditCell, titled
from fluoroscope.audit.findings import assembled
from fluoroscope.audit.forecast import Forecast, forecast
from fluoroscope.audit.kept import discard_unreadable, unreadable
from fluoroscope.audit.plan import AuditPlan, read_audit_plan
from fluoroscope.audit.schedule import cells_of
from fluoroscope.cells import LOCAL, CellStore, Engine, Local, Outcome, Result, key, run_cells
from fluoroscope.cells.local import cores
from fluoroscope.errors import BadInput
from fluoroscope.federation.plan import parse_plan_as
from fluoroscope.findings import Audit, Findings, Timing, document_of
from fluoroscope.findings.consistency import at_odds
from fluoroscope.progress_file import progress_in
from fluoroscope.runs.manifest import forget_manifest, write_manifest

OnProgress = Callable[[float, int, str], None]


@dataclass(frozen=True)
class PlannedCells:
    """What will be run, and what will not."""

    cells: tuple[AuditCell, ...]
    """All that the plan asks for."""
    kept: tuple[AuditCell, ...]
    expected: Forecast

    @property
    def minutes(self) -> float:
        """Of all of them, with all workers busy."""
        return self.expected.minutes(self.cells)

    def plain(self) -> dict[str, Any]:
        """As data: what `--dry-run --json` prints."""
        cells = [
            {
                "id": cell.id,
                "kind": cell.kind,
                "threat": cell.threat,
                "defence": cell.label,
                "seconds": self.expected.seconds[cell.id],
                "kept": cell in self.kept,
            }
            for cell in self.cells
        ]
        return {"cells": cells, "minutes": self.minutes, "workers": self.expected.workers}


def plan_cells(plan: AuditPlan, out: Path, engine: Engine = LOCAL) -> PlannedCells:
    """The cells and about how long they take; those beyond the budget are left out, the last ones first.

    What is finished in `out` takes no time, and says how long its like will take.
    """
    cells, store = cells_of(plan), CellStore(out / "cells")
    finished = {cell.id: found[1] for cell in cells if (found := _kept(store, key(cell, plan.seed)))}
    workers = (engine.workers if isinstance(engine, Local) else None) or cores()
    expected = forecast(plan, cells, workers).corrected(cells, finished)
    expected = replace(expected, seconds={**expected.seconds, **dict.fromkeys(finished, 0.0)})
    kept = expected.within(cells, plan.audit.budget_minutes) or cells[:1]  # something is always tried
    return PlannedCells(tuple(cells), tuple(kept), expected)


def _kept(store: CellStore, name: str) -> tuple[Result, float] | None:
    return store.load(name) if store.has(name) and not unreadable(store, name) else None


def audit(
    plan: AuditPlan | Mapping[str, Any] | str | Path,
    out: str | Path,
    engine: Engine = LOCAL,
    on_progress: OnProgress = lambda done, cells, what: None,
    intended: PlannedCells | None = None,
) -> Audit:
    """Run what the plan asks for into `out`; what is finished there is not run again,
    unless it cannot be read.

    Args:
        plan: the path of a TOML file, the same as plain data, or a plan that was read.
        out: a folder; findings.json, timing.json and the gallery are written to it.
        engine: where cells run; by default on all cores, so call it under `if __name__ == "__main__":`.
        on_progress: told how much is done, of how many cells, and what runs.
        intended: what `plan_cells` chose, where that was asked before.

    Returns:
        What was found, as `read_findings` gives it.

    Raises:
        Misconfigured: a key of the plan is unknown or out of range; nothing was written.
        BadInput: the plan or its images cannot be read.

    Example:
        >>> import tempfile
        >>> import fluoroscope as fl
        >>> fl.audit({"rounds": 0}, tempfile.mkdtemp())
        Traceback (most recent call last):
        fluoroscope.errors.Misconfigured: plan: rounds: Input should be greater than or equal to 1, not 0.
    """
    began, out = time.monotonic(), Path(out)
    if isinstance(plan, str | Path):
        plan = read_audit_plan(Path(plan))
    elif not isinstance(plan, AuditPlan):
        plan = parse_plan_as(AuditPlan, dict(plan))
    what = intended or plan_cells(plan, out, engine)
    make_folders(out, private=not plan.synthetic)
    discard_unreadable(CellStore(out / "cells"), [key(cell, plan.seed) for cell in what.cells])
    until = began + 60 * plan.audit.budget_minutes
    begun: set[str] = set()
    forecast_seconds = 60 * what.expected.minutes(what.kept)
    with progress_in(out, "audit", forecast_seconds, 60 * plan.audit.budget_minutes) as keep:

        def run(cells: Sequence[AuditCell]) -> dict[str, Outcome]:
            before = len(begun)  # those that are called back come on top
            begun.update(cell.id for cell in cells)

            def tell(done: float, called: int, name: str) -> None:
                keep(before + done, before + called, name)
                on_progress(before + done, before + called, name)

            ended = run_cells(cells, plan.seed, out, engine, tell, keep_failures=True, until=until, title=titled)
            return {cell.id: outcome for cell, outcome in zip(cells, ended, strict=True) if not outcome.left_out}

        outcomes = run_within(what.cells, what.kept, what.expected, until, run)
        found = _found(plan, what, outcomes, begun, out)
        seconds = {name: outcome.seconds for name, outcome in outcomes.items()}
        audited = written(found, seconds, time.monotonic() - began, plan.audit.budget_minutes, out)
    write_manifest(out, "audit")
    return audited


def _found(
    plan: AuditPlan, what: PlannedCells, outcomes: Mapping[str, Outcome], begun: set[str], out: Path
) -> Findings:
    """The findings, with why each cell that has no outcome was left out."""
    left_out = {
        cell.id: "the budget was spent before it was done; the same command goes on with it"
        if cell.id in begun
        else f"about {what.expected.seconds[cell.id] / 60:.1f} min more than the budget has"
        for cell in what.cells
        if cell.id not in outcomes
    }
    return assembled(plan, what.cells, outcomes, left_out, out)


def make_folders(out: Path, private: bool) -> None:
    """The folder of an audit, and those in it that hold images and updates: their owner's alone where these are of
    patients."""
    forget_manifest(out)  # a run that goes on is not finished
    make_run_folder(out, ("cells", "gallery", "federations", "checkpoints"), private)


def written(findings: Findings, seconds: dict[str, float], total: float, budget_minutes: float, out: Path) -> Audit:
    """The files of an audit, written."""
    document = document_of(findings)
    for problem in at_odds(findings, document):  # what no reader would take is not written
        raise BadInput(f"the findings are at odds with themselves, and were not written: {problem}.")
    timing = Timing(
        seconds=seconds,
        total=total,
        machine=f"{cores()} cores, {platform.machine()}, {platform.system()}",
        budget_minutes=budget_minutes,
    )
    private = not findings.data.synthetic
    write_text(out / "timing.json", strict_json.dumps(timing.model_dump()), private)
    write_text(out / "findings.json", strict_json.dumps(document), private)
    return Audit(out, findings, document, timing)
