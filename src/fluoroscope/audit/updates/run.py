"""Runs an audit of recorded updates: what fits the budget, then the same files as a plan's audit."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fluoroscope.audit.cell import titled, told_apart
from fluoroscope.audit.kept import discard_unreadable
from fluoroscope.audit.run import OnProgress, make_folders, written
from fluoroscope.audit.updates.asked import AskedUpdates, NamedDefence, asked_updates
from fluoroscope.audit.updates.findings import found_in_updates
from fluoroscope.cells import LOCAL, CellStore, Engine, key, run_cells
from fluoroscope.findings import Audit
from fluoroscope.progress_file import progress_in
from fluoroscope.runs.manifest import write_manifest

_LATE = "the budget was spent before it was done; the same command goes on with it"


def audit_updates(
    folder: str | Path,
    out: str | Path,
    *,
    public: str,
    model: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    images: Mapping[str, str] | None = None,
    holds: Mapping[str, int] | None = None,
    training: Mapping[str, Any] | None = None,
    classes: Sequence[str] | None = None,
    size: int | None = None,
    defences: Sequence[NamedDefence] = (),
    seconds: float = 90.0,
    budget_minutes: float = 30.0,
    seed: int = 0,
    engine: Engine = LOCAL,
    on_progress: OnProgress = lambda done, cells, what: None,
) -> Audit:
    """Attack updates that were recorded, as they are, and write findings of them; what is finished is not run again.

    Args:
        folder: what an integration recorded, or a folder per client with `before.pt` and `after.pt`.
        out: a folder; findings.json, timing.json and the gallery are written to it.
        public: public images of the same kind and classes: what an attacker would learn from.
        model: `package.module:function` or a registered name; None takes what the records name.
        arguments: what the function is called with.
        images: by client, the source of its own images: guesses about it are scored. Others' cannot be.
        holds: by client, how many images it trained on, where neither its record nor its images say.
        training: keys of a plan's [training], for updates whose record does not say how the client trained.
        classes: all classes in the order of the outputs; default: those of all images, sorted by name.
        size: pixels that images are brought to; default: as the network or the images have them.
        defences: (name, settings) of what stood before the updates.
        seconds: per update and kind of attack, by the clock.
        budget_minutes: for all of it; what does not fit is left out, and named.
        seed: of who is simulated, and of all that attacks draw.
        engine: where cells run; by default on all cores, so call it under `if __name__ == "__main__":`.
        on_progress: told how much is done, of how many cells, and what runs.

    Returns:
        What was found, as `read_findings` gives it. The level is leaks, unclear or not tested: that a setting holds is
        never said without the same attack on updates without a defence.

    Raises:
        BadInput: there is no update in the folder, images cannot be read, or the network is another.
        Misconfigured: a site, a setting or a defence is not known.

    Example:
        >>> import fluoroscope as fl
        >>> fl.audit_updates("nowhere", "out", public="phantom/chest")
        Traceback (most recent call last):
        fluoroscope.errors.BadInput: there is no folder nowhere: give one that an integration recorded updates in.
    """
    asked = asked_updates(
        Path(folder),
        public,
        model=model,
        arguments=arguments,
        images=images,
        holds=holds,
        training=training,
        classes=classes,
        size=size,
        defences=defences,
        seconds=seconds,
        budget_minutes=budget_minutes,
        seed=seed,
    )
    return run_asked(asked, Path(out), engine, on_progress)


def run_asked(asked: AskedUpdates, out: Path, engine: Engine = LOCAL, on_progress: OnProgress | None = None) -> Audit:
    """The same, of what was looked through before."""
    began = time.monotonic()
    make_folders(out, private=True)
    cells, until = told_apart(asked.cells), began + 60 * asked.budget_minutes
    discard_unreadable(CellStore(out / "cells"), [key(cell, asked.seed) for cell in cells])
    with progress_in(out, "audit", budget=60 * asked.budget_minutes) as keep:

        def tell(done: float, cells: int, what: str) -> None:
            keep(done, cells, what)
            if on_progress is not None:
                on_progress(done, cells, what)

        ended = run_cells(cells, asked.seed, out, engine, tell, keep_failures=True, until=until, title=titled)
        outcomes = {cell.id: outcome for cell, outcome in zip(cells, ended, strict=True) if not outcome.left_out}
        left_out = {cell.id: _LATE for cell in cells if cell.id not in outcomes}
        findings = found_in_updates(asked, outcomes, left_out, out)
        seconds = {name: outcome.seconds for name, outcome in outcomes.items()}
        audited = written(findings, seconds, time.monotonic() - began, asked.budget_minutes, out)
    write_manifest(out, "audit")
    return audited


def finished(asked: AskedUpdates, out: Path) -> int:
    """How many of its cells are kept from an earlier run."""
    store = CellStore(out / "cells")
    return sum(store.has(key(cell, asked.seed)) for cell in asked.cells)
