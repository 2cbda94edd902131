"""Runs a study: every cell once, each kept as soon as it is finished, then findings, table and figure."""

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fluoroscope import strict_json
from fluoroscope.errors import Misconfigured, Unsupported
from fluoroscope.report.figures import write
from fluoroscope.studies.cells import CellStore, key
from fluoroscope.studies.study import Bench, Cell, Result, Row, Rows, Size, Study
from fluoroscope.studies.table import markdown

OnCell = Callable[[float, int, str], None]
"""(cells done, of how many, what is running)."""


@dataclass(frozen=True, eq=False)
class Findings:
    """A study that was run."""

    study: Study
    size: Size
    seed: int
    rows: Rows

    @property
    def seconds(self) -> float:
        """What its cells took, whenever they were run."""
        return sum(row.seconds for row in self.rows)

    def plain(self) -> dict[str, Any]:
        """As data: what `--json` prints and findings.json holds."""
        return {
            "study": self.study.name,
            "size": self.size,
            "seed": self.seed,
            "seconds": self.seconds,
            "rows": [self._plain(row) for row in self.rows],
        }

    def _plain(self, row: Row) -> dict[str, Any]:
        curves = {"curves": row.result.curves} if self.study.curves else {}
        failed = {"failed": row.failed} if row.failed else {}
        return {**row.settings, **row.result.measures, **failed, **curves, "paper": row.paper}


def run(
    study: Study,
    size: Size,
    seed: int,
    data: str | None,
    out: Path,
    on_cell: OnCell = lambda done, cells, what: None,
) -> Findings:
    """The study's rows; `out` keeps finished cells for this study and for any other that shares them."""
    grid, store = study.grid(size, data), CellStore(out / "cells")
    rows: list[Row] = []
    for number, cell in enumerate(grid):
        what = ", ".join(str(value) for value in cell.settings.values() if value is not None)

        def tell(fraction: float, number: int = number, what: str = what) -> None:
            on_cell(number + fraction, len(grid), what)

        tell(0.0)
        try:
            result, seconds, failed = *_finished(cell, seed, store, out, tell), None
        except (Unsupported, Misconfigured) as problem:  # not kept: the next run tries again
            if isinstance(problem, Misconfigured) and len(grid) == 1 + sum(row.failed is not None for row in rows):
                raise  # no cell at all can be run like this
            result, seconds, failed = Result({}), 0.0, str(problem)
        rows.append(Row(cell.settings, result, study.paper(cell.settings), seconds, failed))
        tell(1.0)
    return Findings(study, size, seed, rows)


def write_findings(findings: Findings, out: Path) -> dict[str, Path]:
    """findings.json, table.md, figure.png and figure.svg in the study's own folder under `out`."""
    folder = out / findings.study.name
    folder.mkdir(parents=True, exist_ok=True)
    data, table = folder / "findings.json", folder / "table.md"
    data.write_text(strict_json.dumps(findings.plain()))
    table.write_text(f"# {findings.study.title}\n\n{findings.study.claim}\n\n{markdown(findings.rows)}")
    title = f"{findings.study.name}: {findings.study.title} ({findings.size} size, seed {findings.seed})"
    png, svg = write(findings.study.draw(title, findings.rows), folder / "figure")
    return {"findings": data, "table": table, "png": png, "svg": svg}


def _finished(
    cell: Cell, seed: int, store: CellStore, out: Path, tell: Callable[[float], None]
) -> tuple[Result, float]:
    name = key(cell, seed)
    if found := store.load(name):
        return found
    checkpoint = out / "checkpoints" / name
    began = time.perf_counter()
    result = cell.run(Bench(seed, out, checkpoint, tell))
    seconds = time.perf_counter() - began
    store.save(name, cell.settings, result, seconds)
    shutil.rmtree(checkpoint, ignore_errors=True)
    return result, seconds
