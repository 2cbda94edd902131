"""`fluoroscope init`: a plan to start from, fitted to the images that are there."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fluoroscope.cli import console, options
from fluoroscope.errors import BadInput, FluoroscopeError, Misconfigured

if TYPE_CHECKING:
    from fluoroscope.data.survey import Survey

_SHOWN = 6


def add_to(app: typer.Typer) -> None:
    """Enter the command."""

    @app.command(
        epilog="Examples: fluoroscope init images/   |   fluoroscope init images/ mine.toml --budget 60   |   "
        "fluoroscope init plan.toml --preset p1 (on phantoms)   |   fluoroscope init plan.toml --data dicom:scans/"
    )
    def init(
        what: Annotated[
            str | None,
            typer.Argument(
                help="Your images: a folder, a .npz file or a source as in `data show`; or PLAN.", show_default=False
            ),
        ] = None,
        plan: Annotated[
            Path | None, typer.Argument(help="The file to write. default: plan.toml", show_default=False)
        ] = None,
        preset: Annotated[
            str | None, typer.Option(help="quick, p1, p2 or p3: what the audit is about. default: quick")
        ] = None,
        data: Annotated[
            str | None, typer.Option(help="Your images, in the place of the first argument; default: phantoms.")
        ] = None,
        clients: Annotated[
            int | None, typer.Option(min=2, help="Hospitals with equal shares; default: as the images suggest.")
        ] = None,
        model: Annotated[str | None, typer.Option(help="Another network, such as resnet18.")] = None,
        budget: Annotated[float | None, typer.Option(min=0.1, help="Minutes that the audit may take.")] = None,
        seed: options.Seed = None,
        force: Annotated[bool, typer.Option("--force", help="Write over a file that is there.")] = False,
    ) -> None:
        """Look at your images and write an audit's plan that fits them, with comments: their size, channels, classes,
        patients and sites. Change it, then give it to `fluoroscope audit`."""
        from fluoroscope.audit.fitted import fitted
        from fluoroscope.audit.plan import read_audit_plan
        from fluoroscope.audit.presets import PRESETS, customised
        from fluoroscope.audit.schedule import cells_of
        from fluoroscope.data.survey import survey

        images, path = _told_apart(what, plan, data)
        if path.exists() and not force:
            raise BadInput(f"{path} is there already; choose another name, or --force to write over it.")
        if preset is None and images is None and sys.stdin.isatty():
            for name, about in PRESETS.items():
                console.say(f"{name}: {about}")
            preset = typer.prompt("preset", default="quick")
            images = (
                typer.prompt("images (a folder, or a source as in `data show`; empty for phantoms)", default="") or None
            )
            budget = budget or typer.prompt("minutes", default=10.0, type=float)
        if images is None or images.startswith("phantom/"):
            own = (
                4 if images is not None and (preset or "quick") == "quick" else None
            )  # it has numbers of chest phantoms
            text = customised(preset or "quick", images, clients or own, model, budget, seed)
        else:
            seen = survey(_rooted(images))
            _tell(seen)
            text = customised(preset or "quick", _rooted(images), None, model, budget, seed)
            text = fitted(text, seen, clients, keep_partition=(preset or "quick") != "quick")
        _write(path, text)
        try:  # what cannot be done with these images is named here, not later
            cells_of(read_audit_plan(path))
        except FluoroscopeError:
            path.unlink()
            raise
        console.say(f"plan: {path}")
        console.say(f"next: fluoroscope audit {path} --dry-run")


def _told_apart(what: str | None, plan: Path | None, data: str | None) -> tuple[str | None, Path]:
    """The images, if any, and the file to write: the first argument is either."""
    if what is not None and (what.endswith(".toml") or (data is not None and plan is None)):
        if plan is not None:
            raise Misconfigured(f"{what} and {plan} are two plans; give your images first, then one plan.")
        return data, Path(what)
    if what is not None and data is not None:
        raise Misconfigured(f"{what} and --data {data} both say where the images are; keep one of them.")
    return what or data, plan or Path("plan.toml")


def _rooted(source: str) -> str:
    """The source by its full path, as a plan may lie elsewhere."""
    from fluoroscope.data import SOURCES

    kind, colon, location = source.partition(":")
    if colon and kind in SOURCES and location:
        return f"{kind}:{Path(location).expanduser().resolve()}"
    path = Path(source).expanduser()
    return str(path.resolve()) if path.exists() else source


def _write(path: Path, text: str) -> None:
    from fluoroscope.atomic_write import write_text

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
    except OSError as problem:
        raise BadInput(f"{path} cannot be written: {problem.strerror}.") from problem


def _tell(seen: "Survey") -> None:
    """What was seen, before anything is made of it."""
    from fluoroscope.audit.fitted import proposed_side

    sides = f"{seen.sides[0]}" if len(seen.sides) == 1 else f"{seen.sides[0]} to {seen.sides[-1]}"
    colour = "colour" if seen.channels == 3 else "grey"
    console.say(f"images: {seen.images}, {colour}, {sides} pixels a side; the plan takes {proposed_side(seen)}")
    console.say(f"classes: {_counted(seen.classes)}")
    whose = " (as many as images: if two are of one patient, say so in an images.csv)"
    console.say(f"patients: {seen.patients}{whose if seen.one_image_per_patient else ''}")
    said = _counted(seen.sites) if seen.sites else "not known; the plan makes hospitals up, write your own"
    console.say(f"sites: {said}{', by the names or the layout of the folders' if seen.tables else ''}")


def _counted(counts: Mapping[str, int]) -> str:
    shown = [f"{name} {count}" for name, count in list(counts.items())[:_SHOWN]]
    return ", ".join(shown) + (f", ... ({len(counts)} in all)" if len(counts) > _SHOWN else "")
