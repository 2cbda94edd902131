"""`fluoroscope study`: the papers' tables and figures, run again."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from fluoroscope.cli import console, options
from fluoroscope.cli.group import group
from fluoroscope.cli.study_run import run_one, run_several
from fluoroscope.errors import Misconfigured

Out = Annotated[
    Path,
    typer.Option("--out", help="Folder of the results. Finished cells in it are not run again, whoever needs them."),
]


def shown(path: Path) -> str:
    """As a page may name it: a path of one machine says nothing on another."""
    return path.name if path.is_absolute() else path.as_posix()


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
        epilog="Examples: fluoroscope study run p4/table-2 --data X-ray=folder:xrays/   |   "
        "fluoroscope study run --all --sets sets.toml",
    )
    def run(
        names: Annotated[
            list[str] | None, typer.Argument(help="Such as p4/table-2; `study list` shows them all.")
        ] = None,
        every: Annotated[
            bool, typer.Option("--all", help="Every study, those with few cells first; one that fails stops no other.")
        ] = False,
        size: Annotated[str, typer.Option(help="small (minutes on two cores) or paper (the paper's scale).")] = "small",
        data: Annotated[
            list[str] | None,
            typer.Option(
                help="A source of images, as in `data show`, for the phantoms; or NAME=SOURCE for one data set, as "
                "often as needed: X-ray, CIFAR, MNIST, Omniglot, phantom/chest ..."
            ),
        ] = None,
        sets: Annotated[
            Path | None, typer.Option(help='The same as a TOML file of lines: "phantom/chest" = "folder:xrays/"')
        ] = None,
        seed: options.Seed = 0,
        workers: options.Workers = None,
        engine: options.CellEngine = None,
        as_json: options.Json = False,
        out: Out = Path("runs/studies"),
    ) -> None:
        """Run studies and set the papers' numbers beside their own.

        A study that was killed goes on with the cells that were running when the same command is given again.
        Cells that are timed run one after another, with all threads, unless --workers or --engine is given.
        With several studies the exit code is 4 where one of them could not be run.
        """
        from fluoroscope.studies import STUDIES
        from fluoroscope.studies.every import cheapest_first
        from fluoroscope.studies.given_sources import sources

        if size not in ("small", "paper"):
            raise Misconfigured(f"--size must be small or paper, not {size!r}.")
        if bool(names) == every:
            raise Misconfigured("name a study, such as p4/table-2, or give --all; `fluoroscope study list` shows them.")
        chosen_size: Literal["small", "paper"] = "paper" if size == "paper" else "small"
        given = sources(data or [], sets)
        chosen = cheapest_first(chosen_size, given) if every else [STUDIES.get(name) for name in names or []]
        where = options.cell_engine(engine, workers)
        if len(chosen) == 1:
            run_one(chosen[0], chosen_size, seed or 0, given, out, where, as_json)
        else:
            run_several(chosen, chosen_size, seed or 0, given, out, where, as_json)

    @study.command("claims", epilog="Example: fluoroscope study claims runs/studies > claims.md")
    def claims(
        runs: Annotated[Path, typer.Argument(help="The folder that `study run` wrote to.")] = Path("runs/studies"),
        form: Annotated[str, typer.Option("--format", help="md or json.")] = "md",
        paper: Annotated[str | None, typer.Option(help="P1, P2, P3 or P4 alone.")] = None,
        tables: Annotated[
            bool, typer.Option("--tables", help="Print what was measured instead, a table per study.")
        ] = False,
        keep: Annotated[
            Path | None, typer.Option(help="Also write the findings there in short: numbers, no curve and no image.")
        ] = None,
    ) -> None:
        """Where each claim of the papers stands, by the findings of the studies that were run.

        Nothing is run, and no verdict is typed by hand: each claim names rows of a study and a rule.
        """
        from fluoroscope.studies.claims import kept, page
        from fluoroscope.studies.claims.judge import judged
        from fluoroscope.studies.claims.tables import tables as measured

        if form not in ("md", "json"):
            raise Misconfigured(f"--format must be md or json, not {form!r}.")
        if keep is not None:
            kept.keep(runs, keep)
        where = keep or runs
        found = judged(where, paper)
        if form == "json":
            console.print_json(page.as_data(found))
        else:
            typer.echo(measured(where, shown(where)) if tables else page.markdown(found, shown(where)), nl=False)
