"""`fluoroscope data show`: look at a data source before it is used."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from fluoroscope.cli import console, options


def add_to(app: typer.Typer) -> None:
    """Enter the command."""
    data = typer.Typer(help="Look at data sources.", no_args_is_help=True)
    app.add_typer(data, name="data")

    @data.command(
        epilog="Examples: fluoroscope data show phantom/chest --images 4000 --partition p1 --set validation=40   |   "
        "fluoroscope data show folder:images/ --size 64 --out sheet.png"
    )
    def show(
        source: Annotated[
            str,
            typer.Argument(help="phantom/chest, phantom/fundus, phantom/brain, or the path of your images."),
        ],
        size: Annotated[int | None, typer.Option(help="Side in pixels to resize to; as stored unless told.")] = None,
        channels: Annotated[int | None, typer.Option(help="1 for grey, 3 for RGB; as stored unless told.")] = None,
        images: Annotated[int | None, typer.Option(help="How many to make, or to keep at most.")] = None,
        partition: Annotated[str | None, typer.Option(help="Show the table of this split, such as p1 or iid.")] = None,
        settings: Annotated[list[str] | None, typer.Option("--set", help="Of the split: validation=40")] = None,
        sheet: Annotated[Path, typer.Option("--out", help="Where to write the contact sheet.")] = Path("sheet.png"),
        skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave bad files out and list them.")] = False,
        burn_in: Annotated[bool, typer.Option("--burn-in", help="Phantoms: burn in a fake name.")] = False,
        seed: options.Seed = 0,
        as_json: options.Json = False,
    ) -> None:
        """Write a contact sheet of a source and print what is in it, and how a partition would split it."""
        from fluoroscope.data import Request, load
        from fluoroscope.data.contact_sheet import contact_sheet
        from fluoroscope.data.partition import split_table
        from fluoroscope.federation.task import divide

        found = load(source, Request(size, channels, images, seed or 0, skip_bad, burn_in))
        contact_sheet(found, sheet)
        counts = Counter(found.batch.labels.tolist())
        split = None
        if partition is not None:
            split = split_table(found, divide(found, partition, options.parsed(settings or []), seed or 0))
        facts = {
            "source": found.name,
            "images": len(found),
            "size": found.size,
            "channels": found.channels,
            "patients": len(set(found.batch.patients)),
            "licence": found.licence,
            "classes": {name: counts[i] for i, name in enumerate(found.classes)},
            "skipped": [{"file": bad.file, "reason": bad.reason} for bad in found.skipped],
            "sheet": str(sheet),
        }
        if as_json:
            console.print_json({**facts, "split": split})
            return
        console.print_table(
            f"{found.name}: {len(found)} images of {found.size} px, {facts['patients']} patients. {found.licence}",
            [{"class": name, "images": counts[i]} for i, name in enumerate(found.classes)],
        )
        if found.skipped:
            console.print_table(f"{len(found.skipped)} files left out", facts["skipped"])  # type: ignore[arg-type]
        if split is not None:
            console.print_table(f"split {partition}", split)
        console.say(f"contact sheet: {sheet}")
