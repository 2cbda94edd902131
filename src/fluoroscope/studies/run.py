"""Runs a study's cells, then writes findings, table and figure."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fluoroscope import strict_json
from fluoroscope.atomic_write import make_folder, make_run_folder, write_text
from fluoroscope.cells import LOCAL, ONE_BY_ONE, Engine, OnProgress, run_cells
from fluoroscope.federation.data_plan import shown_source
from fluoroscope.progress_file import progress_in
from fluoroscope.report.figures import write
from fluoroscope.runs.manifest import forget_manifest
from fluoroscope.studies.study import Row, Rows, Settings, Size, Sources, Study
from fluoroscope.studies.table import markdown

_KEPT = ("cells", "checkpoints", "federations", "learned", "shadows")
"""Folders of cells: images, updates, and what attackers learned from them."""


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
            "date": datetime.now(UTC).date().isoformat(),
            "rows": [self._plain(row) for row in self.rows],
        }

    def _plain(self, row: Row) -> dict[str, Any]:
        curves = {"curves": row.result.curves} if self.study.curves else {}
        failed = {"failed": row.failed} if row.failed else {}
        notes = {"notes": row.result.notes} if row.result.notes else {}
        return {**row.settings, **row.result.measures, **failed, **curves, **notes, "paper": row.paper}


def run(
    study: Study,
    size: Size,
    seed: int,
    data: Sources,
    out: Path,
    on_cell: OnProgress = lambda done, cells, what: None,
    engine: Engine | None = None,
) -> Findings:
    """The study's rows; `out` keeps finished cells for this study and for any other that shares them.

    Without an engine, the cells of a study that is not parallel run one at a time with all threads.
    """
    grid = study.grid(size, data)
    forget_manifest(out)
    private = not all(cell.data.startswith("phantom/") for cell in grid)
    make_run_folder(out, (*_KEPT, study.name), private=private)
    with progress_in(out / study.name, "study") as keep:

        def tell(done: float, cells: int, what: str) -> None:
            keep(done, cells, what)
            on_cell(done, cells, what)

        outcomes = run_cells(grid, seed, out, engine or (LOCAL if study.parallel else ONE_BY_ONE), tell)
    rows = [
        Row(_shown(cell.settings), outcome.result, study.paper(cell.settings), outcome.seconds, outcome.failed)
        for cell, outcome in zip(grid, outcomes, strict=True)
    ]
    return Findings(study, size, seed, rows)


def _shown(settings: Settings) -> Settings:
    """With the images by name: where they lie names a user and a server, and tables are sent around."""
    data = settings.get("data")
    return {**settings, "data": shown_source(data)} if isinstance(data, str) else settings


def write_findings(findings: Findings, out: Path) -> dict[str, Path]:
    """findings.json, table.md, figure.png and figure.svg in the study's own folder under `out`."""
    folder = out / findings.study.name
    make_folder(folder)
    data, table = folder / "findings.json", folder / "table.md"
    write_text(data, strict_json.dumps(findings.plain()))
    write_text(table, f"# {findings.study.title}\n\n{findings.study.claim}\n\n{markdown(findings.rows)}")
    title = f"{findings.study.name}: {findings.study.title} ({findings.size} size, seed {findings.seed})"
    png, svg = write(findings.study.draw(title, findings.rows), folder / "figure")
    return {"findings": data, "table": table, "png": png, "svg": svg}
