"""What `fluoroscope study run` does with one study, and with several."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from fluoroscope.cli import console
from fluoroscope.cli.bar import bar
from fluoroscope.cli.exit_codes import FAILED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fluoroscope.cells import Engine
    from fluoroscope.studies.every import Ended
    from fluoroscope.studies.study import Size, Sources, Study


def run_one(
    study: "Study", size: "Size", seed: int, data: "Sources", out: Path, engine: "Engine | None", as_json: bool
) -> None:
    """Its table, with the paper's numbers beside."""
    from fluoroscope.runs.manifest import write_manifest
    from fluoroscope.studies.run import run, write_findings
    from fluoroscope.studies.table import beside, common

    with bar(study.name) as tell:
        findings = run(study, size, seed, data, out, _counted(tell), engine)
    files = write_findings(findings, out)
    write_manifest(out, "study")
    if as_json:
        console.print_json(findings.plain())
        return
    console.say(study.claim)
    same = common(findings.rows)
    if same:
        console.say("in every row: " + ", ".join(f"{name} {value}" for name, value in same.items()))
    varied = [{k: v for k, v in line.items() if k not in same} for line in beside(findings.rows)]
    console.print_table(f"{study.name}: {study.title}", varied)
    for kind, path in files.items():
        console.say(f"{kind}: {path}")


def run_several(
    studies: "Sequence[Study]",
    size: "Size",
    seed: int,
    data: "Sources",
    out: Path,
    engine: "Engine | None",
    as_json: bool,
) -> None:
    """One line for each, and what could not be run.

    Raises:
        typer.Exit: with FAILED where a study could not be run.
    """
    from fluoroscope.runs.manifest import write_manifest
    from fluoroscope.studies.every import run_every

    with bar("studies") as tell:
        ended = run_every(studies, size, seed, data, out, _counted(tell), engine)
    write_manifest(out, "study")
    if as_json:
        console.print_json({"studies": [_plain(each) for each in ended]})
    else:
        console.print_table(f"{len(ended)} studies in {out}", [_plain(each) for each in ended])
        console.say(f"where the papers' claims stand: fluoroscope study claims {out}")
    if any(each.failed for each in ended):
        raise typer.Exit(FAILED)


def _counted(tell: "Callable[[float, float, str], None]") -> "Callable[[float, float, str], None]":
    return lambda done, cells, what: tell(done, cells, f"{done:.1f} of {cells} cells: {what}"[:60])


def _plain(ended: "Ended") -> dict[str, object]:
    findings = ended.findings
    return {
        "study": ended.study,
        "rows": len(findings.rows) if findings else 0,
        "rows without result": ended.left_out,
        "minutes": round(findings.seconds / 60, 1) if findings else 0.0,
        "failed": ended.failed or "",
    }
