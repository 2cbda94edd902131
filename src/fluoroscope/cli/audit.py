"""`fluoroscope audit`: the whole street, and one page."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fluoroscope.cli import console, options
from fluoroscope.cli.audit_options import AuditOptions
from fluoroscope.cli.bar import bar
from fluoroscope.cli.exit_codes import NOTHING_DONE
from fluoroscope.cli.option_group import grouped
from fluoroscope.cli.training_options import TrainingOptions
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
    @grouped
    def audit(
        plan: Annotated[
            Path | None, typer.Argument(help="The audit as a TOML file; `fluoroscope init` writes one.")
        ] = None,
        out: Annotated[
            Path | None, typer.Option("--out", help="Folder of the findings; default: runs/NAME-audit.")
        ] = None,
        budget: options.Budget = None,
        seed: options.Seed = None,
        *,
        how: AuditOptions,
        updates: Annotated[
            Path | None,
            typer.Option(
                help="In the place of a plan: a folder of recorded updates, attacked as they are. What follows is for "
                "it alone."
            ),
        ] = None,
        model: Annotated[
            str | None,
            typer.Option(help="What was trained: package.module:function, or a name. default: as recorded"),
        ] = None,
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
        trained: TrainingOptions,
        seconds: Annotated[float | None, typer.Option(min=1, help="Per update and kind of attack. default: 90")] = None,
    ) -> None:
        """Play every attacker on a planned federation, with and without defences, and write one page. With --updates:
        attack what a federation recorded.

        An audit that was stopped goes on where it was when the same command is given again: what is finished is not
        run twice.
        """
        if updates is None:
            others = {
                "model": model,
                "images": images,
                "holds": holds,
                "public": public,
                "seconds": seconds,
                **vars(trained),
            }
            if stray := next((name for name, value in others.items() if value is not None), None):
                raise Misconfigured(f"--{stray.replace('_', '-')} is for --updates; a plan says it in its file.")
            if plan is None:
                raise Misconfigured("an audit needs a plan, which `fluoroscope init` writes, or --updates FOLDER.")
            _run_plan(plan, out, budget, seed, how)
            return
        if plan is not None:
            raise Misconfigured(f"give a plan or --updates, not both: {plan} is not used with recorded updates.")
        from fluoroscope.cli.audit_updates import run_updates

        run_updates(
            updates,
            out or Path("runs") / f"{updates.resolve().name}-audit",
            model,
            images or [],
            holds or [],
            public,
            trained,
            seconds or 90.0,
            budget or 30.0,
            seed or 0,
            how,
        )


def _run_plan(
    plan: Path,
    out: Path | None,
    budget: float | None,
    seed: int | None,
    how: AuditOptions,
) -> None:
    from fluoroscope.audit import read_audit_plan

    read = asked(read_audit_plan(plan), budget, seed)
    where = out or Path("runs") / f"{plan.stem}-audit"
    run(read, where, how, f"fluoroscope audit {plan}{f' --out {out}' if out else ''}", plan)


def asked(plan: "AuditPlan", budget: float | None, seed: int | None) -> "AuditPlan":
    """The plan with the budget and the seed that were given in the place of its own."""
    settings = plan.audit if budget is None else plan.audit.model_copy(update={"budget_minutes": budget})
    return plan.model_copy(update={"audit": settings, "seed": plan.seed if seed is None else seed})


def run(plan: "AuditPlan", out: Path, how: AuditOptions, command: str, file: Path | None = None) -> None:
    """Say what will be done, do it, and tell what came of it; `command` does it again, `file` is the plan's."""
    from fluoroscope.audit import audit, plan_cells
    from fluoroscope.cells import LOCAL
    from fluoroscope.cli.next_steps import next_steps

    chosen = options.cell_engine(how.engine, how.workers) or LOCAL
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
    about = f"all of it takes about {intended.minutes:.1f} min here."
    if not announce(how, intended.plain(), plan.audit.budget_minutes, rows, about):
        return
    with bar("audit") as progress:
        found = audit(plan, out, chosen, lambda done, cells, what: progress(done, cells, what[:40]), intended)
    tell(found, out, how, next_steps(found, out, command, file))


def announce(
    how: AuditOptions, document: Mapping[str, Any], minutes: float, rows: Sequence[Mapping[str, Any]], about: str
) -> bool:
    """Say what will be run; whether it is to be run, too."""
    if how.as_json and how.dry_run:
        console.print_json(document)
    elif not how.as_json:
        console.print_table(f"to be run, within {minutes:g} min", rows)
        console.say(about)
    return not how.dry_run


def tell(found: "Audit", out: Path, how: AuditOptions, steps: Sequence[str]) -> None:
    """Write the page, and say what was found, where it is, and what to do next."""
    from fluoroscope.report.audit_report import write_report
    from fluoroscope.report.browser import print_pdf
    from fluoroscope.report.traced import plain
    from fluoroscope.runs.manifest import write_manifest

    page = write_report(out, how.show_images)
    files = {"report": str(page), "findings": str(out / "findings.json")}
    if how.pdf:
        files["pdf"] = str(page.with_suffix(".pdf"))
        print_pdf(page, page.with_suffix(".pdf"))
    write_manifest(out, "audit")
    failed = not any(cell.status == "done" for cell in found.findings.cells)
    if how.as_json:
        console.print_json({**found.document, "files": files, "next": list(steps)})
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
    for step in steps:
        console.say(f"next: {step}")
    if failed:
        raise typer.Exit(NOTHING_DONE)


def _about(seconds: float) -> int | str:
    return "finished" if not seconds else max(1, round(seconds))
