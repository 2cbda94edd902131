"""`fluoroscope records`: what was recorded."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fluoroscope.cli import console, options


def add_to(app: typer.Typer) -> None:
    """Enter the command."""

    @app.command(epilog="Example: fluoroscope records runs/p1 --verify")
    def records(
        folder: Annotated[Path, typer.Argument(help="A folder that `federate --out` or `demo` wrote.")],
        verify: Annotated[bool, typer.Option("--verify", help="Read every file and check its checksum.")] = False,
        as_json: options.Json = False,
    ) -> None:
        """Show which updates are on disk: round by round, client by client."""
        from fluoroscope.federation.store import RecordStore
        from fluoroscope.federation.verification import verify as verified

        store = RecordStore(folder)
        header = store.header
        checked = verified(store) if verify else None
        rows: list[dict[str, Any]] = []
        for r in store.rounds():
            manifest, kept = store.manifest(r), store.recorded(r)
            rows.append(
                {
                    "round": r,
                    "recorded": len(kept),
                    "clients": kept,
                    "megabytes": sum(path.stat().st_size for path in store.files(r)) / 1e6,
                    "validation_accuracy": manifest.validation_accuracy,
                }
            )
        if as_json:
            said = {"plan": header.plan, "versions": header.versions, "verified": verify, "rounds": rows}
            if checked is not None:
                said |= {"files": checked.files, "not_covered": [*checked.uncovered, "timing.json"]}
            console.print_json(said)
            return
        for row in rows:
            row["clients"] = "all" if row["clients"] == header.clients else ", ".join(row["clients"]) or None
        console.print_table(f"{folder}: {header.architecture.name}, {len(header.clients)} clients", rows)
        if checked is not None:
            what = "header, manifests, models, updates and results"
            console.say(f"every record is whole: {checked.files} files ({what}). Not covered: timing.json.")
            if checked.uncovered:
                console.say(f"no checksum is known of {', '.join(checked.uncovered)}: an earlier version wrote them.")
