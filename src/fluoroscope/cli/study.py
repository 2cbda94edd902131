"""`fluoroscope study`: the papers' tables and figures, run again."""

from pathlib import Path
from typing import Annotated

import typer

from fluoroscope.cli import console, options
from fluoroscope.cli.bar import bar
from fluoroscope.cli.group import group
from fluoroscope.errors import Misconfigured

Out = Annotated[
    Path,
    typer.Option("--out", help="Folder of the results. Finished cells in it are not run again, whoever needs them."),
]


def add_to(app: typer.Typer) -> None:
    """Enter the commands."""
    study = group(app, "study", "Run the papers' tables and figures again.")

    @study.command("list", epilog="Example: fluoroscope study list")
    def listed(as_json: options.Json = False) -> None:
        """Show the studies and what each paper claims."""
        from fluoroscope.studies import STUDIES

        found = [STUDIES.get(name) for name in STUDIES]
        rows = [
            {"study": s.name, "title": s.title, "cells": {size: len(cells) for size, cells in s.cells.items()}}
            for s in found
        ]
        if as_json:
            claims = [{**row, "claim": s.claim} for row, s in zip(rows, found, strict=True)]
            console.print_json({"studies": claims})
            return
        console.print_table("studies (cells in small and in the paper's size)", rows)

    @study.command(
        "run",
        epilog="Examples: fluoroscope study run p4/table-2 --workers 8   |   fluoroscope study run p1/fig-3 "
        "--size paper --data folder:images/",
    )
    def run(
        name: Annotated[str, typer.Argument(help="Such as p4/table-2; `study list` shows them all.")],
        size: Annotated[str, typer.Option(help="small (minutes on two cores) or paper (the paper's scale).")] = "small",
        data: Annotated[
            str | None, typer.Option(help="A source of images, as in `data show`, for the phantoms.")
        ] = None,
        seed: options.Seed = 0,
        workers: options.Workers = None,
        engine: options.CellEngine = None,
        as_json: options.Json = False,
        out: Out = Path("runs/studies"),
    ) -> None:
        """Run a study and set the paper's numbers beside its own.

        A study that was killed goes on with the cells that were running when the same command is given again.
        Cells that are timed run one after another, with all threads, unless --workers or --engine is given.
        """
        from fluoroscope.runs.manifest import write_manifest
        from fluoroscope.studies import STUDIES
        from fluoroscope.studies.run import run as run_study
        from fluoroscope.studies.run import write_findings
        from fluoroscope.studies.table import beside, common

        chosen = STUDIES.get(name)
        if size not in ("small", "paper"):
            raise Misconfigured(f"--size must be small or paper, not {size!r}.")
        where = options.cell_engine(engine, workers)
        with bar(name) as tell:
            findings = run_study(
                chosen,
                "paper" if size == "paper" else "small",
                seed or 0,
                data,
                out,
                lambda done, cells, what: tell(done, cells, f"{done:.1f} of {cells} cells: {what}"[:60]),
                where,
            )
        files = write_findings(findings, out)
        write_manifest(out, "study")
        if as_json:
            console.print_json(findings.plain())
            return
        console.say(chosen.claim)
        same = common(findings.rows)
        if same:
            console.say("in every row: " + ", ".join(f"{name} {value}" for name, value in same.items()))
        varied = [{k: v for k, v in line.items() if k not in same} for line in beside(findings.rows)]
        console.print_table(f"{chosen.name}: {chosen.title}", varied)
        for kind, path in files.items():
            console.say(f"{kind}: {path}")
