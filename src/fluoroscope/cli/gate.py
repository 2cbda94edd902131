"""`fluoroscope gate`: stops a pipeline when an audit breaks a limit."""

from pathlib import Path
from typing import Annotated

import typer

from fluoroscope.cli import console, options

FAILED = 4
"""The exit code of an audit that breaks a limit."""


def add_to(app: typer.Typer) -> None:
    """Enter the command."""

    @app.command(
        epilog="Example: fluoroscope gate runs/audit --max-rdlv 0 --max-auc 0.6 --min-accuracy 0.8. "
        "Exit codes: 0 every limit is kept, 4 one is broken or was not measured, 2 wrong input."
    )
    def gate(
        folder: Annotated[Path, typer.Argument(help="A folder that `audit` wrote.")],
        max_rdlv: Annotated[float | None, typer.Option(help="The most RDLV of any reconstruction.")] = None,
        max_iip: Annotated[float | None, typer.Option(help="The most IIP of any reconstruction.")] = None,
        max_auc: Annotated[
            float | None, typer.Option(help="The most AUC of any inference: of clients, members, sources.")
        ] = None,
        max_rate: Annotated[float | None, typer.Option(help="The most that a crafted model may recover.")] = None,
        min_accuracy: Annotated[float | None, typer.Option(help="The least accuracy of the trained model.")] = None,
        defence: Annotated[
            str | None, typer.Option(help="Whose findings; the recommended defence's unless told, else those of none.")
        ] = None,
        as_json: options.Json = False,
    ) -> None:
        """Hold an audit against limits. Of an interval the worse end counts; what was not measured breaks its limit."""
        from fluoroscope.report.findings import read_findings
        from fluoroscope.report.gate import Limit, judge

        asked = {"rdlv": max_rdlv, "iip": max_iip, "auc": max_auc, "rate": max_rate}
        limits = [Limit(metric, bound) for metric, bound in asked.items() if bound is not None]
        limits += [] if min_accuracy is None else [Limit("accuracy", min_accuracy, at_least=True)]
        label, judged = judge(read_findings(folder), limits, defence)
        rows = [
            {
                "limit": str(each.limit),
                "verdict": "kept" if each.passed else "BROKEN",
                "found": each.value,
                "which": each.end,
                "cell": each.cell,
                "pointer": each.pointer,
            }
            for each in judged
        ]
        passed = all(each.passed for each in judged)
        if as_json:
            plain = [{**row, "passed": each.passed} for row, each in zip(rows, judged, strict=True)]
            console.print_json({"defence": label, "passed": passed, "limits": plain})
        else:
            console.print_table(f"{folder}, defence {label}", rows)
            console.say("high and low are the ends of the 95 % interval that are worse for the limit.")
            console.say("passed." if passed else "failed: an audit that breaks a limit, or did not measure it.")
        if not passed:
            raise typer.Exit(FAILED)
