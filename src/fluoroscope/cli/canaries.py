"""`fluoroscope canaries`: is a claimed epsilon kept?"""

from pathlib import Path
from typing import Annotated, Any

import typer

from fluoroscope.cli import console, options
from fluoroscope.cli.exit_codes import FAILED


def add_to(app: typer.Typer) -> None:
    """Enter the command."""

    @app.command(
        epilog="Example: fluoroscope canaries plan.toml. Exit codes: 0 no claim is contradicted, 4 one is, 2 wrong "
        "input, or nothing in the plan claims an epsilon."
    )
    def canaries(
        plan: Annotated[Path, typer.Argument(help="A plan; its own defences and those of audit.compare are tested.")],
        seed: options.Seed = None,
        as_json: options.Json = False,
    ) -> None:
        """Prove an epsilon from below by canaries, beside each that is claimed: for one round, without training."""
        from fluoroscope.audit import read_audit_plan
        from fluoroscope.audit.claim import claim_cells, tested
        from fluoroscope.errors import Misconfigured

        read = read_audit_plan(plan)
        read = read.model_copy(update={"seed": read.seed if seed is None else seed})
        cells = [cell for label in read.labels for cell in claim_cells(read, label)]
        if not cells:
            raise Misconfigured(
                f"{plan} has no defence that claims an epsilon for its network: use dp-sgd, clip-and-noise or "
                "central-dp with noise, on a model without BatchNorm."
            )
        rows: list[dict[str, Any]] = []
        for cell in cells:
            found = tested(cell, read.seed)
            rows.append({"defence": cell.label, "client": cell.client, **found})
        if as_json:
            console.print_json({"claims": rows})
        else:
            console.print_table(f"{plan}, one round", [_row(row) for row in rows])
            console.say("proved: at least this much, at 95 %, if the noise is drawn as claimed, of whatever size.")
        if any(row["contradicted"] for row in rows):
            raise typer.Exit(FAILED)


def _row(row: dict[str, Any]) -> dict[str, Any]:
    bound = row["reconstruction_bound"]
    return {
        "defence": row["defence"],
        "claimed": f"{row['epsilon']:.3g}",
        "proved": f"{row['epsilon_lower']:.3g}",
        "of any mechanism": f"{row['epsilon_lower_any']:.3g}",
        "told apart at most": None if bound is None else f"{bound:.3f}",
        "verdict": "CONTRADICTED" if row["contradicted"] else "stands",
    }
