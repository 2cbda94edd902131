"""`fluoroscope clean`: what is patients' leaves a run; findings and page stay."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fluoroscope.cli import console, options

if TYPE_CHECKING:
    from fluoroscope.runs.cleaning import Cleaning


def add_to(app: typer.Typer) -> None:
    """Enter the command."""

    @app.command(
        epilog="Examples: fluoroscope clean runs/audit   |   fluoroscope clean runs/audit --yes   |   "
        "fluoroscope clean runs/p1 --json"
    )
    def clean(
        folder: Annotated[
            Path, typer.Argument(help="A folder that `audit`, `federate`, `attack`, `calibrate` or `study` wrote.")
        ],
        yes: Annotated[bool, typer.Option("--yes", help="Delete it. Without it, what would go is listed.")] = False,
        as_json: options.Json = False,
    ) -> None:
        """Delete what is made of patients' images: gallery, recorded updates and models, cells, checkpoints.

        Findings, numbers and the page stay, the page without images; what is not ours is left alone, and no link is
        followed. A run that was cleaned can be read and judged, and not gone on with. If it is stopped, the same
        command ends it. Backups and snapshots of the disk are not reached.
        """
        from fluoroscope.report.audit_report import write_report
        from fluoroscope.runs.cleaning import clean as delete
        from fluoroscope.runs.cleaning import cleaning_of
        from fluoroscope.runs.lock import held_alone

        found = cleaning_of(folder)
        told, pages = [_plain(each, folder) for each in found], [each.page for each in found if each.page is not None]
        if yes:
            with held_alone(*(each.folder for each in found)):
                for each in reversed(found):  # the runs inside it first: the outer one is how they are found
                    delete(each, write_report)
        if as_json:
            console.print_json({"removed": yes, "runs": told})
            return
        rows = [row for each in told for row in each["going"]]
        files, size = sum(row["files"] for row in rows), sum(row["bytes"] for row in rows)
        if rows:
            console.print_table(
                "removed" if yes else "would be removed",
                [
                    {
                        "what": row["path"],
                        "files": row["files"],
                        "MB": row["bytes"] / 1e6,
                        "": "a link: what it points to stays" if row["link"] else "",
                    }
                    for row in rows
                ],
            )
        for run in told:
            page = f"; {run['page']} is written without images" if run["page"] else ""
            console.say(f"{run['run']}: {run['kind']}; stays: {', '.join(run['stays'])}{page}.")
        for lost in [each for each in pages if not each.exists()] if yes else ():
            console.say(
                f"{lost} could not be written without images, so it is gone too: `fluoroscope report` says why."
            )
        if yes:
            console.say(f"{files} files ({size / 1e6:.1f} MB) were removed.")
        elif rows:
            console.say(f"{files} files ({size / 1e6:.1f} MB) would be removed: add --yes. There is no way back.")
        else:
            console.say("nothing of patients is left in it.")


def _plain(cleaning: "Cleaning", root: Path) -> dict[str, Any]:
    going = [
        {"path": str(each.path.relative_to(root)), "files": each.files, "bytes": each.bytes, "link": each.link}
        for each in cleaning.going
    ]
    return {
        "run": str(cleaning.folder),
        "kind": cleaning.kind.name,
        "going": going,
        "stays": list(cleaning.stays),
        "page": None if cleaning.page is None else cleaning.page.name,
    }
