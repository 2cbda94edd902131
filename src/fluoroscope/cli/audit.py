"""`fluoroscope audit`: the whole street, and one page."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fluoroscope.cli import console, options
from fluoroscope.cli.bar import bar
from fluoroscope.cli.exit_codes import NOTHING_DONE

if TYPE_CHECKING:
    from fluoroscope.audit import AuditPlan


def add_to(app: typer.Typer) -> None:
    """Enter the command."""

    @app.command(
        epilog="Examples: fluoroscope init plan.toml && fluoroscope audit plan.toml   |   fluoroscope audit plan.toml "
        "--budget 60 --pdf   |   fluoroscope audit plan.toml --engine ray:auto"
    )
    def audit(
        plan: Annotated[Path, typer.Argument(help="The audit as a TOML file; `fluoroscope init` writes one.")],
        out: Annotated[
            Path | None, typer.Option("--out", help="Folder of the findings; default: runs/NAME-audit.")
        ] = None,
        budget: Annotated[
            float | None, typer.Option(min=0.1, help="Minutes; what does not fit is left out, and named.")
        ] = None,
        engine: options.CellEngine = None,
        workers: options.Workers = None,
        seed: options.Seed = None,
        show_images: Annotated[
            bool, typer.Option("--show-images", help="Show patients' images on the page as they are.")
        ] = False,
        pdf: Annotated[bool, typer.Option("--pdf", help="Print the page as PDF too.")] = False,
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="Only say what would run, and about how long.")
        ] = False,
        as_json: options.Json = False,
    ) -> None:
        """Play every attacker on a planned federation, with and without defences, and write one page.

        An audit that was stopped goes on where it was when the same command is given again: what is finished is not
        run twice.
        """
        from fluoroscope.audit import read_audit_plan

        read = read_audit_plan(plan)
        settings = read.audit if budget is None else read.audit.model_copy(update={"budget_minutes": budget})
        read = read.model_copy(update={"audit": settings, "seed": read.seed if seed is None else seed})
        run(read, out or Path("runs") / f"{plan.stem}-audit", engine, workers, show_images, pdf, dry_run, as_json)


def run(
    plan: "AuditPlan",
    out: Path,
    engine: str | None,
    workers: int | None,
    show_images: bool,
    pdf: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Say what will be done, do it, and tell what came of it."""
    from fluoroscope.audit import audit, plan_cells
    from fluoroscope.cells import LOCAL
    from fluoroscope.report.audit_report import write_report
    from fluoroscope.report.browser import print_pdf
    from fluoroscope.report.traced import plain

    chosen = options.cell_engine(engine, workers) or LOCAL
    intended = plan_cells(plan, out, chosen)
    rows = [
        {
            "what": cell.kind,
            "threat": cell.threat or "–",
            "defence": cell.label,
            "about, s": _about(intended.expected.seconds[cell.id]),
            "": "" if cell in intended.kept else "left out",
        }
        for cell in intended.cells
    ]
    if as_json and dry_run:
        console.print_json(intended.plain())
        return
    if not as_json:
        console.print_table(f"to be run, within {plan.audit.budget_minutes:g} min", rows)
        console.say(f"all of it takes about {intended.minutes:.1f} min here.")
    if dry_run:
        return
    with bar("audit") as tell:
        found = audit(plan, out, chosen, lambda done, cells, what: tell(done, cells, what[:40]), intended)
    page = write_report(out, show_images)
    files = {"report": str(page), "findings": str(out / "findings.json")}
    if pdf:
        files["pdf"] = str(page.with_suffix(".pdf"))
        print_pdf(page, page.with_suffix(".pdf"))
    failed = not any(cell.status == "done" for cell in found.findings.cells)
    if as_json:
        console.print_json({**found.document, "files": files})
        if failed:
            raise typer.Exit(NOTHING_DONE)
        return
    for verdict in found.findings.verdicts:
        console.say(f"[{verdict.level}] {plain(found.document, verdict.text)}")
    console.say(plain(found.document, found.findings.recommendation.text))
    for cell in found.findings.cells:
        if cell.status != "done":
            console.say(f"{cell.status}: {cell.id}: {cell.reason}")
    for kind, path in files.items():
        console.say(f"{kind}: {path}")
    if failed:
        raise typer.Exit(NOTHING_DONE)


def _about(seconds: float) -> int | str:
    return "finished" if not seconds else max(1, round(seconds))
