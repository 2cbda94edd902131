"""`fluoroscope gate`: stops a pipeline when an audit breaks a limit."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fluoroscope.cli import console, options
from fluoroscope.cli.exit_codes import FAILED

if TYPE_CHECKING:
    from fluoroscope.report.gate import Judgement, LevelJudgement


def add_to(app: typer.Typer) -> None:
    """Enter the command."""

    @app.command(
        epilog="Example: fluoroscope gate runs/audit --max-leak 0.02 --max-auc 0.6 --min-accuracy 0.8. "
        "Exit codes: 0 every threat holds and every limit is kept, 4 one does not or was not measured, 2 wrong input."
    )
    def gate(
        folder: Annotated[Path, typer.Argument(help="A folder that `audit` wrote.")],
        max_leak: Annotated[
            float | None, typer.Option(help="The most that a reconstruction may gain on its own patient over others.")
        ] = None,
        max_told_apart: Annotated[
            float | None, typer.Option(help="The largest share of reconstructions that tell their patient apart.")
        ] = None,
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
        allow: Annotated[
            list[str] | None,
            typer.Option(
                help="A level that may pass beside holds: unclear, not-tested, leaks; or of one threat: "
                "curious-client=unclear. Can be given several times."
            ),
        ] = None,
        as_json: options.Json = False,
    ) -> None:
        """Hold an audit against limits: every threat must hold, unclear and not tested do not. Of an interval the worse
        end counts; what was not measured breaks its limit."""
        from fluoroscope.findings import read_findings
        from fluoroscope.report.gate import Limit, judge

        asked = {
            "leak": max_leak,
            "told_apart": max_told_apart,
            "rdlv": max_rdlv,
            "iip": max_iip,
            "auc": max_auc,
            "rate": max_rate,
        }
        limits = [Limit(metric, bound) for metric, bound in asked.items() if bound is not None]
        limits += [] if min_accuracy is None else [Limit("accuracy", min_accuracy, at_least=True)]
        judged = judge(read_findings(folder), limits, defence, allow or [])
        if as_json:
            console.print_json(
                {
                    "defence": judged.defence,
                    "passed": judged.passed,
                    "limits": [_plain(each) for each in judged.limits],
                    "levels": [{**asdict(each), "passed": each.passed} for each in judged.levels],
                }
            )
        else:
            console.print_table(
                f"{folder}, defence {judged.defence}",
                [*(_level_row(each) for each in judged.levels), *(_row(each) for each in judged.limits)],
            )
            for each in judged.limits:
                if each.missing:
                    console.say(f"{each.limit}: not measured, {each.missing}.")
            for threat in judged.levels:
                if threat.missing:
                    console.say(f"{threat.threat}: {threat.missing}.")
            if judged.limits:
                console.say(
                    "high and low are the ends of an interval: of the two, the one that is worse for the limit counts."
                )
            console.say("passed." if judged.passed else "failed.")
        if not judged.passed:
            raise typer.Exit(FAILED)


def _level_row(each: "LevelJudgement") -> dict[str, Any]:
    return {
        "limit": f"{each.threat} holds",
        "verdict": "allowed" if each.allowed else "kept" if each.passed else "BROKEN",
        "found": each.level,
        "cell": None,
        "pointer": each.pointer,
    }


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
