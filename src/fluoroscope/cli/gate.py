"""`fluoroscope gate`: stops a pipeline when an audit breaks a limit."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fluoroscope.cli import console, options
from fluoroscope.cli.exit_codes import FAILED
from fluoroscope.errors import BadInput, Misconfigured

if TYPE_CHECKING:
    from fluoroscope.findings import Audit
    from fluoroscope.report.gate import Judged, Judgement, LevelJudgement


def add_to(app: typer.Typer) -> None:
    """Enter the command."""

    @app.command(
        epilog="Examples: fluoroscope gate runs/audit --max-leak 0.02 --max-auc 0.6 --min-accuracy 0.8   |   "
        "fluoroscope gate runs/audit --write-policy gate.toml, then: fluoroscope gate runs/later --policy gate.toml"
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
        accepted: options.Accepted = None,
        policy: Annotated[
            Path | None, typer.Option(help="Limits from a file that --write-policy wrote; options add to it.")
        ] = None,
        write_policy: Annotated[
            Path | None,
            typer.Option(help="Judge nothing: write today's findings to this file, as limits that later audits keep."),
        ] = None,
        as_json: options.Json = False,
    ) -> None:
        """Hold an audit against limits: every threat must hold, unclear and not tested do not. Of an interval the worse
        end counts; what was not measured breaks its limit.

        Exit codes: 0 every threat holds and every limit is kept, 4 one does not or was not measured, 2 wrong input.
        """
        from fluoroscope.findings import read_findings
        from fluoroscope.report.accepted import read_accepted, review
        from fluoroscope.report.gate import Limit, judge
        from fluoroscope.report.gate_policy import GatePolicy, read_gate_policy
        from fluoroscope.report.risks import risks

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
        audit = read_findings(folder)
        if write_policy is not None:
            if limits or allow or accepted or policy:
                raise Misconfigured(
                    "--write-policy freezes what the audit found; beside it only --defence has a meaning."
                )
            _freeze(audit, defence, write_policy, as_json)
            return
        said = GatePolicy() if policy is None else read_gate_policy(policy)
        reviewed = review(risks(audit), [] if accepted is None else read_accepted(accepted), date.today())
        judged = judge(
            audit,
            [*said.limits, *limits],
            defence or said.defence,
            [*said.allow, *(allow or [])],
            reviewed,
            said.may_lack,
        )
        if as_json:
            console.print_json(
                {
                    "defence": judged.defence,
                    "passed": judged.passed,
                    "limits": [_plain(each) for each in judged.limits],
                    "levels": [{**asdict(each), "passed": each.passed} for each in judged.levels],
                    "remarks": list(reviewed.remarks),
                }
            )
        else:
            _say(folder, judged, reviewed.remarks)
        if not judged.passed:
            raise typer.Exit(FAILED)


def _freeze(audit: "Audit", defence: str | None, path: Path, as_json: bool) -> None:
    from fluoroscope.atomic_write import write_new
    from fluoroscope.report.gate_policy import frozen, policy_text

    policy = frozen(audit, defence)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_new(path, policy_text(policy).encode())
    except FileExistsError as problem:
        raise BadInput(f"{path} is there already; choose another name, or take the old one away.") from problem
    if as_json:
        console.print_json({"policy": str(path), **policy.model_dump(mode="json")})
        return
    console.say(f"policy: {path}")
    console.say(
        f"frozen: {len(policy.limits)} limits under {policy.defence}, {len(policy.allow)} levels that may pass."
    )
    if any(each.endswith("=leaks") for each in policy.allow):
        console.say("note: it lets pass what leaks today; `--accepted` names each such finding with an owner instead.")
    console.say(f"next: fluoroscope gate DIR --policy {path}")


def _say(folder: Path, judged: "Judged", remarks: Sequence[str]) -> None:
    console.print_table(
        f"{folder}, defence {judged.defence}",
        [*(_level_row(each) for each in judged.levels), *(_row(each) for each in judged.limits)],
    )
    for each in judged.limits:
        if each.missing:
            may = " (as when the policy was written)" if each.may_lack else ""
            console.say(f"{each.limit}: not measured, {each.missing}{may}.")
    for threat in judged.levels:
        if threat.missing:
            console.say(f"{threat.threat}: {threat.missing}.")
        if not threat.passed and threat.open:
            console.say(f"{threat.threat} does not hold: {', '.join(threat.open)}.")
    for remark in remarks:
        console.say(remark)
    if judged.limits:
        console.say("high and low are the ends of an interval: of the two, the one that is worse for the limit counts.")
    console.say("passed." if judged.passed else "failed.")


def _level_row(each: "LevelJudgement") -> dict[str, Any]:
    return {
        "limit": f"{each.threat} holds",
        "verdict": _word(each),
        "found": each.level,
        "cell": None,
        "pointer": each.pointer,
    }


def _word(each: "LevelJudgement") -> str:
    if not each.passed:
        return "BROKEN"
    return "kept" if each.level == "holds" else "allowed" if each.allowed else "accepted"


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
