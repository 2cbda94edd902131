"""`fluoroscope audit --updates`: updates that were recorded, attacked as they are."""

from collections.abc import Sequence
from pathlib import Path

from fluoroscope.cli import options
from fluoroscope.cli.audit_options import AuditOptions
from fluoroscope.cli.bar import bar
from fluoroscope.cli.training_options import TrainingOptions
from fluoroscope.errors import Misconfigured


def run_updates(
    folder: Path,
    out: Path,
    model: str | None,
    images: Sequence[str],
    holds: Sequence[str],
    public: str | None,
    trained: TrainingOptions,
    seconds: float,
    budget: float,
    seed: int,
    how: AuditOptions,
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
    from fluoroscope.cli.audit import announce, tell
    from fluoroscope.cli.meter_inputs import importable_here
    from fluoroscope.cli.next_steps import next_steps

    importable_here()
    asked = asked_updates(
        folder,
        public=public,
        model=model,
        arguments=trained.arguments,
        images=_by_site(images, "--images", "SITE=FOLDER"),
        holds={site: _count(site, said) for site, said in _by_site(holds, "--holds", "SITE=NUMBER").items()},
        training=trained.plain_training(),
        classes=trained.class_names,
        size=trained.size,
        defences=trained.defences,
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
    about = f"each takes {seconds:g} s at most; {done} of {len(rows)} are finished."
    if not announce(how, {"cells": rows, "finished": done, "seconds": seconds}, budget, rows, about):
        return
    with bar("audit") as progress:
        chosen = options.cell_engine(how.engine, how.workers) or LOCAL
        found = run_asked(asked, out, chosen, lambda at, cells, what: progress(at, cells, what[:40]))
    again = f"fluoroscope audit --updates {folder} ..."  # with the options that it was given
    tell(found, out, how, next_steps(found, out, again))


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
