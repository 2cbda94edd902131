"""`fluoroscope init`: a plan to start from."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from fluoroscope.cli import console, options
from fluoroscope.errors import BadInput, FluoroscopeError


def add_to(app: typer.Typer) -> None:
    """Enter the command."""

    @app.command(
        epilog="Examples: fluoroscope init   |   fluoroscope init plan.toml --preset p1 --data folder:images/ "
        "--clients 6 --budget 60"
    )
    def init(
        plan: Annotated[Path, typer.Argument(help="The file to write.")] = Path("plan.toml"),
        preset: Annotated[
            str | None, typer.Option(help="quick, p1, p2 or p3: what the audit is about. Asked for unless given.")
        ] = None,
        data: Annotated[
            str | None, typer.Option(help="Your images, as `data show` takes them; default: phantoms.")
        ] = None,
        clients: Annotated[
            int | None, typer.Option(min=2, help="Hospitals with equal shares; default: the preset's own.")
        ] = None,
        model: Annotated[str | None, typer.Option(help="Another network, such as resnet18.")] = None,
        budget: Annotated[float | None, typer.Option(min=0.1, help="Minutes that the audit may take.")] = None,
        seed: options.Seed = None,
        force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    ) -> None:
        """Write an audit's plan, with comments: change it, then give it to `fluoroscope audit`."""
        from fluoroscope.atomic_write import write_text
        from fluoroscope.audit.plan import read_audit_plan
        from fluoroscope.audit.presets import PRESETS, customised
        from fluoroscope.audit.schedule import cells_of

        if plan.exists() and not force:
            raise BadInput(f"{plan} is there already; choose another name, or --force to write over it.")
        if preset is None and sys.stdin.isatty():
            for name, about in PRESETS.items():
                console.say(f"{name}: {about}")
            preset = typer.prompt("preset", default="quick")
            data = data or typer.prompt("images (a source as in `data show`, empty for phantoms)", default="") or None
            if data is not None and clients is None:
                clients = typer.prompt("hospitals with equal shares of them", default=4, type=int)
            budget = budget or typer.prompt("minutes", default=10.0, type=float)
        if data is not None and clients is None and (preset or "quick") == "quick":
            clients = 4  # the preset's own hospitals have numbers of phantoms
        text = customised(preset or "quick", data, clients, model, budget, seed)
        try:
            plan.parent.mkdir(parents=True, exist_ok=True)
            write_text(plan, text)
        except OSError as problem:
            raise BadInput(f"{plan} cannot be written: {problem.strerror}.") from problem
        try:  # what cannot be done with these images is named here, not later
            cells_of(read_audit_plan(plan))
        except FluoroscopeError:
            plan.unlink()
            raise
        console.say(f"plan: {plan}")
        console.say(f"next: fluoroscope audit {plan} --dry-run")
