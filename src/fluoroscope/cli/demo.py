"""`fluoroscope demo`: the audit that everybody can afford."""

from pathlib import Path

import typer

from fluoroscope.cli import options
from fluoroscope.cli.audit import asked, run
from fluoroscope.cli.audit_options import AuditOptions


def add_to(app: typer.Typer) -> None:
    """Enter the command."""

    @app.command(epilog="Example: fluoroscope demo --out /tmp/demo --seed 1")
    def demo(
        out: options.Out = Path("runs/demo"),
        budget: options.Budget = None,
        seed: options.Seed = None,
        workers: options.Workers = None,
        as_json: options.Json = False,
    ) -> None:
        """Audit five hospitals on chest phantoms: three attackers, with and without defences, and one page.

        Needs no data and no network; a few minutes on two cores.
        """
        from fluoroscope.audit.presets import preset_plan

        plan = asked(preset_plan("quick"), budget, seed)
        run(plan, out, AuditOptions(workers=workers, as_json=as_json), f"fluoroscope demo --out {out}")
