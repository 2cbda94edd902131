"""`fluoroscope compare`: what changed from one audit to the next."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fluoroscope.cli import console, options

if TYPE_CHECKING:
    from fluoroscope.report.comparison import Change, Side

_PLACES = ("attack", "client", "round")
_WORDS = {True: "yes", False: "no", None: None}


def add_to(app: typer.Typer) -> None:
    """Enter the command."""

    @app.command(epilog="Example: fluoroscope compare runs/audit-before runs/audit-after --json")
    def compare(
        before: Annotated[Path, typer.Argument(help="A folder that `audit` wrote.")],
        after: Annotated[Path, typer.Argument(help="Another one.")],
        as_json: options.Json = False,
    ) -> None:
        """Put two audits side by side: each score in both, and whether its intervals overlap."""
        from fluoroscope.findings import read_findings
        from fluoroscope.report.comparison import compare as compared

        found = compared(read_findings(before), read_findings(after))
        if as_json:
            console.print_json(
                {
                    "before": str(before),
                    "after": str(after),
                    "changes": [_plain(change) for change in found.changes],
                    "statuses": found.statuses,
                    "only_before": found.only_before,
                    "only_after": found.only_after,
                }
            )
            return
        changed = [change for change in found.changes if change.difference]
        for group in dict.fromkeys(_group(change) for change in changed):
            console.print_table(group, [_row(change) for change in changed if _group(change) == group])
        console.say(
            f"{len(found.changes)} scores are in both audits; {len(found.changes) - len(changed)} did not change."
        )
        apart = sum(change.overlap is False for change in changed)
        console.say(f"{apart} changed by more than their intervals: these do not overlap.")
        for title, rows in (
            ("tried in both, with a result in one", found.statuses),
            (f"only in {before}", found.only_before),
            (f"only in {after}", found.only_after),
        ):
            if rows:
                console.print_table(title, rows)


def _group(change: "Change") -> str:
    return f"{change.cell['kind']}, defence {change.cell['defence']}"


def _row(change: "Change") -> dict[str, Any]:
    return {
        "where": " ".join(str(change.cell[key]) for key in _PLACES if key in change.cell) or None,
        "score": change.metric,
        "before": _written(change.before, change.metric),
        "after": _written(change.after, change.metric),
        "change": change.difference,
        "overlap": _WORDS[change.overlap],
        "leaks more": _WORDS[change.leaks_more],
    }


def _written(side: "Side", name: str) -> str | None:
    from fluoroscope.findings.metrics import metric

    score, how = side.score, metric(name).format
    if score.value is None:
        return None
    ends = "" if score.low is None or score.high is None else f" [{score.low:{how}}, {score.high:{how}}]"
    return f"{score.value:{how}}{ends}"


def _plain(change: "Change") -> dict[str, Any]:
    sides = {
        name: {**side.score.model_dump(include={"value", "low", "high", "n"}), "pointer": side.pointer}
        for name, side in (("before", change.before), ("after", change.after))
    }
    return {
        **change.cell,
        "score": change.metric,
        **sides,
        "difference": change.difference,
        "intervals_overlap": change.overlap,
        "leaks_more": change.leaks_more,
    }
