"""How a run stands: under way with the time left, finished, stopped, failed, or broken and why."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fluoroscope import strict_json
from fluoroscope.errors import BadInput, FluoroscopeError
from fluoroscope.findings import Audit, read_findings
from fluoroscope.web.federation_files import read_federation
from fluoroscope.web.guarded_files import Root
from fluoroscope.web.runs import Run, told_in

State = Literal["running", "finished", "stopped", "failed", "broken"]
GO_ON = "The same command goes on where it was."


@dataclass(frozen=True)
class Standing:
    """One run at one time."""

    run: Run
    state: State
    """As far as its files tell; a process that is gone has stopped."""
    fraction: float = 0.0
    """Of the work that is done, from 0 to 1."""
    what: str = ""
    """What is being done, or why nothing is."""
    seconds_left: float | None = None
    began: float | None = None
    updated: float | None = None
    """When the last news came, in seconds of the wall clock."""
    levels: tuple[tuple[str, str], ...] = ()
    """Of a finished audit: each threat with its level."""


def standing(root: Root, run: Run, now: Callable[[], float] = time.time) -> Standing:
    """How the run stands now; what cannot be read is broken, with a sentence."""
    try:
        return _KINDS[run.kind](root, run, now())
    except FluoroscopeError as problem:
        return Standing(run, "broken", what=str(problem))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        # Files of another version, or half a file: one bad run must not hide the others.
        return Standing(run, "broken", what=f"its files cannot be read ({type(problem).__name__}).")


def read_audit(root: Root, run: Run) -> Audit | None:
    """The findings of an audit, once there are some."""
    if not root.has(run.folder / "findings.json"):
        if (run.folder / "findings.json").is_symlink():
            raise BadInput("findings.json is a link out of the folder, or no plain file.")
        return None
    return read_findings(root.inside(run.folder))


def _audit(root: Root, run: Run, now: float) -> Standing:
    told = told_in(root, run.folder)
    if told is not None and told.standing(now) != "finished":
        return _told(root, run, now)
    found = read_audit(root, run)
    if found is None and told is not None:
        return Standing(run, "broken", what="it says that it is finished, and findings.json is missing.")
    if found is None:
        cells = len(list(run.folder.glob("cells/*.json")))
        return Standing(run, "stopped", what=f"{cells} cells are finished. {GO_ON}", updated=_changed(run.folder))
    levels = tuple((verdict.threat, verdict.level) for verdict in found.findings.verdicts)
    began = None if told is None else told.began
    return Standing(run, "finished", 1.0, "", None, began, _changed(run.folder / "findings.json"), levels)


def _told(root: Root, run: Run, now: float) -> Standing:
    """As the run says itself."""
    told = told_in(root, run.folder)
    if told is None:
        return Standing(
            run, "stopped", what=f"It says nothing of how far it came. {GO_ON}", updated=_changed(run.folder)
        )
    state = told.standing(now)
    what = {"failed": told.reason, "stopped": f"It was stopped at: {told.what or 'its start'}. {GO_ON}"}.get(
        state, told.what
    )
    left = told.seconds_left(now) if state == "running" else None
    return Standing(run, state, told.fraction, what, left, told.began, told.updated)


def _result_or_told(name: str) -> Callable[[Root, Run, float], Standing]:
    """For runs whose result is one JSON file, written last."""

    def stand(root: Root, run: Run, now: float) -> Standing:
        told, result = told_in(root, run.folder), run.folder / name
        if (told is None or told.standing(now) == "finished") and root.has(result):
            strict_json.loads(root.read(result))
            return Standing(run, "finished", 1.0, began=told.began if told else None, updated=_changed(result))
        return _told(root, run, now)

    return stand


def _federation(root: Root, run: Run, now: float) -> Standing:
    found = read_federation(root, run.folder)
    done = max((each.number for each in found.rounds), default=0)
    if found.finished:
        return Standing(run, "finished", 1.0, f"{done} rounds", updated=_changed(run.folder / "result.json"))
    state: State = "running" if found.running(now) else "stopped"
    what = (
        f"round {min(done + 1, found.planned)} of {found.planned}"
        if state == "running"
        else (f"It was stopped after round {done} of {found.planned}. {GO_ON}")
    )
    left = found.seconds_left(now) if state == "running" else None
    return Standing(run, state, done / found.planned if found.planned else 0.0, what, left, None, found.updated)


def _changed(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None


_KINDS: dict[str, Callable[[Root, Run, float], Standing]] = {
    "audit": _audit,
    "study": _result_or_told("findings.json"),
    "calibration": _result_or_told("calibration.json"),
    "federation": _federation,
}
