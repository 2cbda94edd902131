"""`fluoroscope gate`: stops a pipeline when an audit breaks a limit."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fluoroscope.cli import console, options

if TYPE_CHECKING:
    from fluoroscope.report.gate import Judgement

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
            str | None, typer.Option(help="Whose findings; default: the recommended defence's, else those of none.")
        ] = None,
        as_json: options.Json = False,
    ) -> None:
        """Hold an audit against limits. Of an interval the worse end counts; what was not measured breaks its limit."""
        from fluoroscope.findings import read_findings
        from fluoroscope.report.gate import Limit, judge

        asked = {"rdlv": max_rdlv, "iip": max_iip, "auc": max_auc, "rate": max_rate}
        limits = [Limit(metric, bound) for metric, bound in asked.items() if bound is not None]
        limits += [] if min_accuracy is None else [Limit("accuracy", min_accuracy, at_least=True)]
        label, judged = judge(read_findings(folder), limits, defence)
        passed = all(each.passed for each in judged)
        if as_json:
            console.print_json({"defence": label, "passed": passed, "limits": [_plain(each) for each in judged]})
        else:
            console.print_table(f"{folder}, defence {label}", [_row(each) for each in judged])
            for each in judged:
                if each.missing:
                    console.say(f"{each.limit}: not measured, {each.missing}.")
            console.say(
                "high and low are the ends of an interval: of the two, the one that is worse for the limit counts."
            )
            console.say("passed." if passed else "failed.")
        if not passed:
            raise typer.Exit(FAILED)


def _row(each: "Judgement") -> dict[str, Any]:
    return {
        "limit": str(each.limit),
        "verdict": "kept" if each.passed else "BROKEN",
        "found": None if each.value is None else f"{each.value:.3f} ({each.end})",
        "cell": each.cell,
        "pointer": each.pointer,
    }


def _plain(each: "Judgement") -> dict[str, Any]:
    return {
        "metric": each.limit.metric,
        "bound": each.limit.bound,
        "limit": str(each.limit),
        "passed": each.passed,
        "value": each.value,
        "end": each.end,
        "missing": each.missing,
        "cell": each.cell,
        "pointer": each.pointer,
    }
