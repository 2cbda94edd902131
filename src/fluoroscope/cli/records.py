"""`fluoroscope records`: what was recorded."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fluoroscope.cli import console, options
from fluoroscope.errors import Misconfigured

if TYPE_CHECKING:
    from fluoroscope.federation.store import RecordStore


def add_to(app: typer.Typer) -> None:
    """Enter the command."""

    @app.command(
        epilog="Examples: fluoroscope records runs/p1 --verify   |   fluoroscope records runs/audit --sign key.pem   "
        "|   fluoroscope records runs/audit --verify --key key.pub"
    )
    def records(
        folder: Annotated[
            Path, typer.Argument(help="A folder that `federate --out` wrote; with --verify or --sign any run's.")
        ],
        verify: Annotated[bool, typer.Option("--verify", help="Read every file and check its checksum.")] = False,
        key: Annotated[
            Path | None,
            typer.Option(help="With --verify: who must have signed. An Ed25519 key (PEM, OpenSSH), or a secret."),
        ] = None,
        sign: Annotated[
            Path | None,
            typer.Option(help="Check every file, then sign the run's manifest with this private key or secret."),
        ] = None,
        as_json: options.Json = False,
    ) -> None:
        """Show which updates are on disk: round by round, client by client. With --verify: whether all files of a
        finished run are those that were written."""
        if key is not None and not verify:
            raise Misconfigured("--key says who must have signed: add --verify.")
        from fluoroscope.cli.verified import check

        checked = check(folder, key, sign) if verify or sign is not None else None
        said: dict[str, Any] = {"verified": verify or sign is not None}
        rows: list[dict[str, Any]] = []
        title = ""
        if checked is None or (folder / "run.json").exists():
            from fluoroscope.federation.store import RecordStore

            store = RecordStore(folder)
            header, rows = store.header, _rounds(store)
            title = f"{folder}: {header.architecture.name}, {len(header.clients)} clients"
            said = {"plan": header.plan, "versions": header.versions, **said, "rounds": rows}
        if as_json:
            console.print_json(said if checked is None else {**said, **checked.plain()})
            return
        for row in rows:
            row["clients"] = "all" if row["clients"] == header.clients else ", ".join(row["clients"]) or None
        if rows:
            console.print_table(title, rows)
        for words in () if checked is None else checked.words:
            console.say(words)


def _rounds(store: "RecordStore") -> list[dict[str, Any]]:
    return [
        {
            "round": r,
            "recorded": len(store.recorded(r)),
            "clients": store.recorded(r),
            "megabytes": sum(path.stat().st_size for path in store.files(r)) / 1e6,
            "validation_accuracy": store.manifest(r).validation_accuracy,
        }
        for r in store.rounds()
    ]
