"""`fluoroscope audit --updates`: updates that were recorded, attacked as they are."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fluoroscope.cli import console, options
from fluoroscope.cli.bar import bar
from fluoroscope.cli.training_options import named_defence
from fluoroscope.errors import Misconfigured


def run_updates(
    folder: Path,
    out: Path,
    model: str | None,
    model_arguments: Sequence[str],
    images: Sequence[str],
    holds: Sequence[str],
    public: str | None,
    size: int | None,
    classes: str | None,
    training: dict[str, Any],
    defences: Sequence[str],
    seconds: float,
    budget: float,
    seed: int,
    engine: str | None,
    workers: int | None,
    show_images: bool,
    pdf: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Say what will be done, do it, and tell what came of it."""
    if public is None:
        raise Misconfigured(
            "--updates needs --public: public images of the same kind, which attacks learn from and guesses are "
            "compared with."
        )
    # torch takes seconds to import: `--help` should not wait for it.
    from fluoroscope.audit.updates.asked import asked_updates
    from fluoroscope.audit.updates.run import finished, run_asked
    from fluoroscope.cells import LOCAL
    from fluoroscope.cli.audit import tell
    from fluoroscope.cli.meter_inputs import importable_here

    importable_here()
    asked = asked_updates(
        folder,
        public=public,
        model=model,
        arguments=options.parsed(list(model_arguments)),
        images=_by_site(images, "--images", "SITE=FOLDER"),
        holds={site: _count(site, said) for site, said in _by_site(holds, "--holds", "SITE=NUMBER").items()},
        training=training,
        classes=None if classes is None else [name.strip() for name in classes.split(",")],
        size=size,
        defences=[named_defence(each) for each in defences],
        seconds=seconds,
        budget_minutes=budget,
        seed=seed,
    )
    rows = [
        {
            "what": cell.kind,
            "client": cell.told.client,
            "round": cell.told.round,
            "its images": "here" if cell.told.images else "not here: guesses cannot be checked",
        }
        for cell in asked.cells
    ]
    done = finished(asked, out)
    if as_json and dry_run:
        console.print_json({"cells": rows, "finished": done, "seconds": seconds})
        return
    if not as_json:
        console.print_table(f"to be run, within {budget:g} min", rows)
        console.say(f"each takes {seconds:g} s at most; {done} of {len(rows)} are finished.")
    if dry_run:
        return
    with bar("audit") as progress:
        chosen = options.cell_engine(engine, workers) or LOCAL
        found = run_asked(asked, out, chosen, lambda at, cells, what: progress(at, cells, what[:40]))
    tell(found, out, show_images, pdf, as_json)


def _by_site(said: Sequence[str], option: str, form: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for each in said:
        site, equals, value = each.partition("=")
        if not equals or not site or not value:
            raise Misconfigured(f"{option} takes {form}, not {each!r}.")
        if site in found:
            raise Misconfigured(f"{option} names {site!r} twice.")
        found[site] = value
    return found


def _count(site: str, said: str) -> int:
    if not said.isdecimal() or not int(said):
        raise Misconfigured(f"--holds {site}= takes a number of images, not {said!r}.")
    return int(said)
