"""`fluoroscope federate`: train and record a planned federation."""

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fluoroscope import strict_json
from fluoroscope.cli import console, options

if TYPE_CHECKING:
    from fluoroscope.federation.plan import Plan

if TYPE_CHECKING:
    from fluoroscope.federation.store import RecordStore
    from fluoroscope.federation.task import Task
    from fluoroscope.report.federation_page import Origin


def run(plan: "Plan", out: Path, engine: str, device: str, threads: int | None) -> tuple[Path, dict[str, Any]]:
    """Train, then write the page and its data; gives the page's path and the data."""
    # Flower and torch take seconds to import: `--help` should not wait for them.
    from fluoroscope.federation.run import federate
    from fluoroscope.federation.store import RecordStore
    from fluoroscope.federation.summary import federation_summary
    from fluoroscope.federation.task import load_task
    from fluoroscope.report.federation_page import federation_page
    from fluoroscope.runs.manifest import write_manifest

    options.use(device, threads)
    begun = RecordStore(out)
    if threads is not None and begun.exists() and begun.header.threads != threads:
        console.err.print(f"this run was begun with {begun.header.threads} threads and goes on with as many.")
    with console.run_progress(plan.rounds) as progress:
        store = federate(plan, out, engine, device, progress)
    task = load_task(plan)
    summary = federation_summary(task, store)
    store.write_text("summary.json", strict_json.dumps(summary))
    page = store.write_text("index.html", federation_page(summary, _origin(task, store)))
    write_manifest(out, "federate", store.tensor_checksums())
    return page, summary


def _origin(task: "Task", store: "RecordStore") -> "Origin":
    from fluoroscope.data.contact_sheet import contact_sheet
    from fluoroscope.report.federation_page import Origin

    sheet = io.BytesIO()
    if task.images.synthetic:  # patients' images are never put on a page unasked
        contact_sheet(task.images, sheet)
    return Origin(
        data=task.images.name,
        licence=task.images.licence,
        model=task.plan.model.name,
        clients=len(task.clients),
        seed=task.plan.seed,
        plan=json.dumps(task.plan.shown()),
        records=store.folder.name,
        versions=store.header.versions,
        sheet=sheet.getvalue() or None,
    )


def report(page: Path, summary: dict[str, Any], as_json: bool) -> None:
    """Tell the person, or the machine, how it went."""
    if as_json:
        console.print_json({**summary, "page": str(page)})
        return
    console.print_table("who holds what", summary["clients"])
    scored = [
        {"model": name, **summary["test"][name]} for name in ("best", "last") if summary["test"][name] is not None
    ]
    if scored:
        console.print_table("on the test images", scored)
    console.say(f"page: {page}")


def add_to(app: typer.Typer) -> None:
    """Enter the command."""

    @app.command(epilog="Example: fluoroscope federate examples/p1.toml --out runs/p1 --threads 2")
    def federate(
        plan: Annotated[Path, typer.Argument(help="The federation as a TOML file; examples/ has some.")],
        out: options.Out,
        engine: Annotated[
            str, typer.Option(help="in-process (fast, one machine) or ray (Flower's simulation).")
        ] = "in-process",
        seed: options.Seed = None,
        device: options.Device = "cpu",
        threads: options.Threads = None,
        as_json: options.Json = False,
    ) -> None:
        """Train a federation and record every update that leaves a client.

        A run that was killed goes on where it was when the same command is given again, and ends with the same
        bytes as one that was not.
        """
        from fluoroscope.federation.plan import read_plan

        chosen = read_plan(plan)
        if seed is not None:
            chosen = chosen.model_copy(update={"seed": seed})
        report(*run(chosen, out, engine, device, threads), as_json)
