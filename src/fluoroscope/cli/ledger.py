"""`fluoroscope ledger`: what was decided at this site's door."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fluoroscope.cli import console, options
from fluoroscope.cli.exit_codes import FAILED
from fluoroscope.cli.group import group

if TYPE_CHECKING:
    from fluoroscope.site.entry import Entry


def add_to(app: typer.Typer) -> None:
    """Enter the commands."""
    ledger = group(app, "ledger", "What was decided at this site's door: show it, and verify it.")

    @ledger.command(epilog="Example: fluoroscope ledger show ledger.jsonl --json")
    def show(
        path: Annotated[Path, typer.Argument(help="The ledger's file.")],
        as_json: options.Json = False,
    ) -> None:
        """Show every decision: what came or left, what was measured, and why it did not pass."""
        from fluoroscope.site.ledger import read_ledger

        entries = read_ledger(path)
        if as_json:
            console.print_json({"ledger": str(path), "entries": [entry.model_dump(mode="json") for entry in entries]})
            return
        console.print_table(f"{path}: {len(entries)} decisions", [_row(entry) for entry in entries])
        for entry in entries:
            if entry.reasons:
                console.say(f"{entry.sequence}: {' '.join(entry.reasons)}")

    @ledger.command(
        epilog="Examples: fluoroscope ledger verify ledger.jsonl   |   fluoroscope ledger verify ledger.jsonl --head "
        "3fa0c1d2e4b5. Exit codes: 0 whole, 4 broken, 2 not readable."
    )
    def verify(
        path: Annotated[Path, typer.Argument(help="The ledger's file.")],
        head: Annotated[
            str | None,
            typer.Option(help="A head that was noted earlier, or its first 12 digits: the ledger must still hold it."),
        ] = None,
        as_json: options.Json = False,
    ) -> None:
        """Check every link of the chain, and name the line that was edited, removed or moved.

        Lines that were cut off at the end leave a whole chain: note the head elsewhere, and give it with --head.
        """
        from fluoroscope.errors import Misconfigured
        from fluoroscope.site.ledger import verify_ledger

        if head is not None and not 12 <= len(head.strip()) <= 64:
            raise Misconfigured(f"--head takes a hash as this command prints it, or its first 12 digits, not {head!r}.")
        found = verify_ledger(path)
        since = None if head is None else found.since(head)
        broken = found.broken
        if not broken and head is not None and since is None:
            broken = "no line has the noted head: lines were taken from the end, or the whole file was written anew."
        if as_json:
            console.print_json(
                {
                    "ledger": str(path),
                    "broken": broken or None,
                    "lines": len(found.entries),
                    "head": found.head,
                    "interrupted": found.interrupted,
                    "lines_since_head": since,
                }
            )
        else:
            _tell(path, broken, len(found.entries), found.head, found.interrupted, since)
        if broken:
            raise typer.Exit(FAILED)


def _tell(path: Path, broken: str, lines: int, head: str, interrupted: bool, since: int | None) -> None:
    if interrupted:
        console.say("the last line was not written to its end: a process was stopped there. No decision is lost by it.")
    if since is not None and not broken:
        console.say(f"the noted head is there; {since} lines have come since.")
    if broken:
        console.say(f"{path}: BROKEN: {broken} {lines} lines before are whole.")
    else:
        console.say(f"{path}: whole, {lines} lines. Note this head elsewhere: {head}")


def _row(entry: "Entry") -> dict[str, Any]:
    read: dict[str, Any] = {each.leak: each.value for each in entry.meter}
    guard = entry.guard
    checked = (
        None if guard is None else ", ".join(guard.checks) if guard.checks else "run" if guard.ran else "by weights"
    )
    return {
        "line": entry.sequence,
        "time": entry.time[:19].replace("T", " "),
        "run": entry.run,
        "round": entry.round,
        "way": entry.direction,
        "decision": entry.decision,
        "guard": checked,
        "reconstruction": read.get("reconstruction"),
        "label-counts": read.get("label-counts"),
        "epsilon": entry.epsilon,
    }
