"""What is done with a folder of which one file is another: a command, or a function that reads it."""

import io
import os
import sys
from collections.abc import Callable
from contextlib import chdir
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import click
import typer

from fluoroscope import strict_json
from fluoroscope.attacks.common.checkpoint import Checkpoint
from fluoroscope.cli import app
from fluoroscope.cli.app import program
from fluoroscope.decoders.apart import _Worker
from fluoroscope.errors import BadInput
from fluoroscope.progress_file import read_progress
from fluoroscope.scenarios.isolation import _followed, _Kept
from fluoroscope.scenarios.recorded_update import gather
from fluoroscope.site.guard_history import read_history
from fluoroscope.site.learned import read_learned
from fluoroscope.site.ledger import Ledger, read_ledger
from fluoroscope.site.noise_key import noise_key
from tests.fuzz.materials import midway

Read = Callable[[Path], object]


@cache
def _program() -> click.Command:
    """Built once: typer takes longer for it than most readers for a file."""
    return typer.main.get_command(program())


def command(*arguments: str) -> Read:
    """The command line, in the folder."""

    def read(here: Path) -> None:
        sys.argv = ["fluoroscope", *(each.replace("HERE", str(here)) for each in arguments)]
        app.program = _program
        app.main()

    return read


def several(*reads: Read) -> Read:
    def read(here: Path) -> None:
        for each in reads:
            try:
                each(here)
            except SystemExit as ended:
                if ended.code not in (0, None):
                    raise

    return read


def checkpoint(here: Path) -> None:
    Checkpoint(here / "checkpoint", 0.0).keeper(0, "key").resume(midway())


def gathered(here: Path) -> None:
    """What an attack would be given: the process that it has takes seconds to start."""
    evidence = gather(here / "federation", None, None)
    assert evidence.record.network.build().state_dict().keys() >= evidence.record.state_before.keys()


def arguments(here: Path) -> None:
    """A command line of which one word is another; nobody can type half a character or NUL."""
    newest = max(here.glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    try:
        words = strict_json.loads(newest.read_bytes())
    except ValueError:
        words = None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise BadInput("no command line.")
    with chdir(here):  # a word may be the name of a file that is written
        command(*(word.replace("\ud800", "?") for word in words))(here)


def decoders_answer(here: Path) -> None:
    """What the process that decodes says: a file may have taken it over."""
    worker = object.__new__(_Worker)
    said = (here / "decoder.bin").open("rb")
    worker._process = SimpleNamespace(stdin=io.BytesIO(), stdout=said, kill=lambda: None, pid=os.getpid())
    found = worker._within(60.0, {"kind": "picture", "path": None})
    assert (
        found is None or isinstance(found, str) or all(isinstance(x, str | None) for x in (found.patient, found.site))
    )


def attacks_answer(here: Path) -> None:
    """What the process of an attack says, which may be anybody's."""
    process = SimpleNamespace(
        stdout=(here / "attack.bin").open("rb"), kill=lambda: None, wait=lambda *_: 0, returncode=0
    )
    _followed(process, "ridge", lambda i, n: None, _Kept(here / "theirs", None))


def learned(here: Path) -> None:
    read_learned(here)


def progress(here: Path) -> None:
    read_progress(here / "audit")


def door(here: Path) -> None:
    ledger = here / "ledger.jsonl"
    read_history(ledger)
    noise_key(ledger, "x")
    read_ledger(ledger)
    assert Ledger(ledger)


def pages(here: Path) -> None:
    """Every page of the live view; what it cannot read it says on the page."""
    from tests.web.conftest import client_of

    with client_of(here) as client:
        ids = [run["id"] for run in client.get("/api/runs").json()["runs"]]
        answers = [client.get("/"), *(client.get(f"/runs/{each}") for each in ids)]
        answers.append(client.get("/compare", params={"before": ids[0], "after": ids[-1]}))
        for name in ("findings.json", "report.html", "calibration.json"):
            answers += [client.get(f"/files/{each}/{name}") for each in ids]
    assert all(answer.status_code in (200, 404) for answer in answers), answers


def inspect(here: Path, pattern: str = "") -> None:
    """The file that was changed, which is the newest."""
    newest = max((path for path in here.glob(pattern or "*.*")), key=lambda path: path.stat().st_mtime_ns)
    command("inspect", str(newest))(here)
