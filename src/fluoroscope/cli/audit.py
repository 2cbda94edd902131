"""`fluoroscope audit`: the whole street, and one page."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fluoroscope.cli import console, options
from fluoroscope.cli import training_options as told
from fluoroscope.cli.bar import bar
from fluoroscope.cli.exit_codes import NOTHING_DONE
from fluoroscope.errors import Misconfigured

if TYPE_CHECKING:
    from fluoroscope.audit import AuditPlan
    from fluoroscope.findings import Audit


def add_to(app: typer.Typer) -> None:
    """Enter the command."""

    @app.command(
        epilog="Examples: fluoroscope init plan.toml && fluoroscope audit plan.toml   |   fluoroscope audit plan.toml "
        "--budget 60 --pdf   |   fluoroscope audit plan.toml --engine ray:auto   |   fluoroscope audit --updates "
        "recorded/ --model myfed.task:HospitalNet --images hospital-c=own/ --public public/ --lr 1e-3. Exit codes: 0 "
        "audited, 2 wrong input, or no attack has a result."
    )
    def audit(
        plan: Annotated[
            Path | None, typer.Argument(help="The audit as a TOML file; `fluoroscope init` writes one.")
        ] = None,
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
        updates: Annotated[
            Path | None,
            typer.Option(
                help="In the place of a plan: a folder of recorded updates, attacked as they are. What follows is for "
                "it alone."
            ),
        ] = None,
        model: Annotated[
            str | None,
            typer.Option(help="What was trained: package.module:function, or a name. [default: as recorded]"),
        ] = None,
        model_argument: told.ModelArguments = None,
        images: Annotated[
            list[str] | None,
            typer.Option(help="A site's own images, to score guesses with: SITE=FOLDER. Repeatable."),
        ] = None,
        holds: Annotated[
            list[str] | None,
            typer.Option(
                help="How many images a site trained on, where nothing else says so: SITE=NUMBER. Repeatable."
            ),
        ] = None,
        public: Annotated[
            str | None, typer.Option(help="Public images of the same kind: what an attacker would learn from.")
        ] = None,
        size: told.Size = None,
        classes: told.Classes = None,
        optimiser: told.Optimiser = None,
        lr: told.Lr = None,
        momentum: told.Momentum = None,
        weight_decay: told.WeightDecay = None,
        epochs: told.Epochs = None,
        steps: told.Steps = None,
        batch_size: told.BatchSize = None,
        normalise: told.Normalise = None,
        loss: told.Loss = None,
        training: told.Training = None,
        defence: told.Defences = None,
        seconds: Annotated[
            float | None, typer.Option(min=1, help="Per update and kind of attack. [default: 90]")
        ] = None,
        as_json: options.Json = False,
    ) -> None:
        """Play every attacker on a planned federation, with and without defences, and write one page. With --updates:
        attack what a federation recorded.

        An audit that was stopped goes on where it was when the same command is given again: what is finished is not
        run twice.
        """
        given = {
            "optimiser": optimiser,
            "lr": lr,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "epochs": epochs,
            "steps": steps,
            "batch_size": batch_size,
            "loss": loss,
        }
        if updates is None:
            others = {
                **given,
                "model": model,
                "model-argument": model_argument,
                "images": images,
                "holds": holds,
                "public": public,
                "size": size,
                "classes": classes,
                "normalise": normalise,
                "training": training,
                "defence": defence,
                "seconds": seconds,
            }
            if stray := next((name for name, value in others.items() if value is not None), None):
                raise Misconfigured(f"--{stray.replace('_', '-')} is for --updates; a plan says it in its file.")
            if plan is None:
                raise Misconfigured("an audit needs a plan, which `fluoroscope init` writes, or --updates FOLDER.")
            _run_plan(plan, out, budget, seed, engine, workers, show_images, pdf, dry_run, as_json)
            return
        if plan is not None:
            raise Misconfigured(f"give a plan or --updates, not both: {plan} is not used with recorded updates.")
        from fluoroscope.cli.audit_updates import run_updates

        run_updates(
            updates,
            out or Path("runs") / f"{updates.resolve().name}-audit",
            model,
            model_argument or [],
            images or [],
            holds or [],
            public,
            size,
            classes,
            told.told_training(given, normalise, training),
            defence or [],
            seconds or 90.0,
            budget or 30.0,
            seed or 0,
            engine,
            workers,
            show_images,
            pdf,
            dry_run,
            as_json,
        )


def _run_plan(
    plan: Path,
    out: Path | None,
    budget: float | None,
    seed: int | None,
    engine: str | None,
    workers: int | None,
    show_images: bool,
    pdf: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
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
    with bar("audit") as progress:
        found = audit(plan, out, chosen, lambda done, cells, what: progress(done, cells, what[:40]), intended)
    tell(found, out, show_images, pdf, as_json)


def tell(found: "Audit", out: Path, show_images: bool, pdf: bool, as_json: bool) -> None:
    """Write the page, and say what was found and where it is."""
    from fluoroscope.report.audit_report import write_report
    from fluoroscope.report.browser import print_pdf
    from fluoroscope.report.traced import plain

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
