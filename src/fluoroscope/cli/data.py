"""`fluoroscope data show`: look at a data source before it is used."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fluoroscope.cli import console, options
from fluoroscope.cli.group import group
from fluoroscope.errors import Misconfigured

if TYPE_CHECKING:
    from fluoroscope.types import ImageSet, Partition


def add_to(app: typer.Typer) -> None:
    """Enter the command."""
    data = group(app, "data", "Look at data sources.")

    @data.command(
        epilog="Examples: fluoroscope data show phantom/chest --images 4000 --partition p1 --set validation=40   |   "
        "fluoroscope data show folder:images/ --size 64 --out sheet.png   |   fluoroscope data show plan.toml"
    )
    def show(
        source: Annotated[
            str,
            typer.Argument(
                help="phantom/chest, phantom/fundus, phantom/brain, the path of your images, or a plan (.toml)."
            ),
        ],
        size: Annotated[int | None, typer.Option(help="Side in pixels to resize to; default: as stored.")] = None,
        channels: Annotated[int | None, typer.Option(help="1 for grey, 3 for RGB; default: as stored.")] = None,
        images: Annotated[int | None, typer.Option(help="How many to make, or to keep at most.")] = None,
        partition: Annotated[str | None, typer.Option(help="Show the table of this split, such as p1 or iid.")] = None,
        settings: Annotated[list[str] | None, typer.Option("--set", help="Of the split: validation=40")] = None,
        out: Annotated[
            Path | None, typer.Option("--out", help="Where to write the contact sheet. default: sheet.png")
        ] = None,
        skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave bad files out and list them.")] = False,
        folders: Annotated[
            str | None, typer.Option(help="What the subfolders are: classes or sites. Asked about where in doubt.")
        ] = None,
        burn_in: Annotated[bool, typer.Option("--burn-in", help="Phantoms: burn in a fake name.")] = False,
        seed: options.Seed = 0,
        as_json: options.Json = False,
    ) -> None:
        """Write a contact sheet of a source; print what is in it, who holds it, and how a partition would split it."""
        from fluoroscope.data import Request, load
        from fluoroscope.data.contact_sheet import contact_sheet
        from fluoroscope.data.partition import split_table
        from fluoroscope.federation.task import divide

        sheet = _sheet(out, source)
        if source.endswith(".toml"):
            told = (size, channels, images, partition, settings, skip_bad, folders, burn_in, seed)
            found, divided, partition = _of_plan(Path(source), any(told))
        else:
            request = Request(size, channels, images, seed or 0, skip_bad, burn_in, folders)  # type: ignore[arg-type]
            found, divided = load(source, request), None
            if partition is not None:
                divided = divide(found, partition, options.parsed(settings or []), seed or 0)
        contact_sheet(found, sheet)
        counts = Counter(found.batch.labels.tolist())
        split = None if divided is None else split_table(found, divided)
        sites = _sites(found)
        facts = {
            "source": found.name,
            "images": len(found),
            "size": found.size,
            "channels": found.channels,
            "patients": len(set(found.batch.patients)),
            "licence": found.licence,
            "classes": {name: counts[i] for i, name in enumerate(found.classes)},
            "sites": sites,
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
        if sites:
            console.print_table(f"{len(sites)} sites", sites)
        if found.skipped:
            console.print_table(f"{len(found.skipped)} files left out", facts["skipped"])  # type: ignore[arg-type]
        if split is not None:
            console.print_table(f"split {partition}", split)
        console.say(f"contact sheet: {sheet}")


def _sheet(asked: Path | None, source: str) -> Path:
    """Where the sheet goes: never among the images, where it would be taken for one of them the next time."""
    root = Path(source.rpartition(":")[2]).expanduser().resolve()
    sheet = asked or Path("sheet.png")
    if not root.is_dir() or not sheet.resolve().is_relative_to(root):
        return sheet
    if asked is not None:
        raise Misconfigured(f"{asked} would lie among the images of {source}; choose another --out.")
    return root.with_name(f"{root.name}-sheet.png")


def _of_plan(path: Path, told: bool) -> "tuple[ImageSet, Partition, str]":
    """The images of a plan, its split, and the split's name."""
    from fluoroscope.federation.plan import read_plan
    from fluoroscope.federation.task import load_task

    if told:
        raise Misconfigured(f"{path} says itself how its images are read and split: leave out all options but --out.")
    task = load_task(read_plan(path))
    return task.images, task.partition, task.plan.partition.name


def _sites(images: "ImageSet") -> list[dict[str, Any]]:
    """One row per site: what it holds."""
    rows = []
    for site in dict.fromkeys(images.sites):
        held = [i for i, owner in enumerate(images.sites) if owner == site]
        labels = Counter(images.batch.labels[held].tolist())
        rows.append(
            {
                "site": site,
                "images": len(held),
                "patients": len({images.batch.patients[i] for i in held}),
                "classes": {name: labels[label] for label, name in enumerate(images.classes)},
            }
        )
    return rows
