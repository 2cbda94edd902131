"""Cells on workers: in order, never twice, the same on any number of them; a kill loses and leaves nothing."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from fluoroscope.cells import LOCAL, ONE_BY_ONE, Local, Ray, engine_of, run_cells, store
from fluoroscope.cells.local import cores
from fluoroscope.errors import Misconfigured

from ..data.pictures import class_folders
from .counted import Counted, runs, workers

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
from pathlib import Path
from fluoroscope.cells import engine_of
from fluoroscope.cells import run_cells
from tests.cells.counted import Counted
cells = [Counted(int(number), does) for number, _, does in (word.partition(":") for word in sys.argv[3:])]
run_cells(cells, 0, Path(sys.argv[1]), engine_of(sys.argv[2]))
"""


def start(out: Path, engine: str, *cells: str) -> subprocess.Popen:
    arguments = [sys.executable, "-c", PROGRAM, str(out), engine, *cells]
    return subprocess.Popen(arguments, cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True)


def wait_for(what, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def same(these, those) -> bool:
    return all(
        (a.failed, a.result.measures, a.result.curves) == (b.failed, b.result.measures, b.result.curves)
        and torch.equal(a.result.images["image"], b.result.images["image"])
        for a, b in zip(these, those, strict=True)
    )


def test_the_order_is_that_of_the_cells_and_none_is_run_twice(tmp_path):
    told = []
    cells = [Counted(1, seconds=0.5), Counted(2), Counted(3), Counted(1, seconds=0.5)]
    first = run_cells(cells, 0, tmp_path, Local(2), lambda *news: told.append(news))
    assert sorted(runs(tmp_path)) == [1, 2, 3]
    assert len(workers(tmp_path) - {os.getpid()}) == 2
    assert told[0] == (0.0, 4, "1, ")
    assert told[-1][:2] == (4.0, 4)
    assert any(done % 1 for done, _, _ in told), "running cells count in part"
    assert not (tmp_path / "checkpoints").exists()

    again = run_cells([Counted(4), *reversed(cells)], 0, tmp_path, Local(1))
    assert sorted(runs(tmp_path)) == [1, 2, 3, 4]
    assert same(again[1:], reversed(first))

    whole = run_cells(cells, 0, tmp_path / "one", Local(1))
    assert same(first, whole), "one worker and two"


@pytest.mark.slow
def test_ray_gives_the_same(tmp_path):
    # In a process of its own: Ray warns freely, and warnings are errors here.
    program = start(tmp_path / "ray", "ray", "1", "2", "3:unsupported")
    _, errors = program.communicate(timeout=120)
    assert program.returncode == 0, errors
    assert sorted(runs(tmp_path / "ray")) == [1, 2, 3]
    cells = [Counted(1), Counted(2)]
    kept = run_cells(cells, 0, tmp_path / "ray", Local(1))
    assert sorted(runs(tmp_path / "ray")) == [1, 2, 3], "the driver has kept them"
    assert same(kept, run_cells(cells, 0, tmp_path / "here", Local(1)))


def test_a_cell_has_one_thread_unless_it_is_timed(tmp_path):
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        (one,) = run_cells([Counted(1)], 0, tmp_path, Local(1))
        assert torch.get_num_threads() == 2, "as it was"
        (timed,) = run_cells([Counted(2)], 0, tmp_path, ONE_BY_ONE)
    finally:
        torch.set_num_threads(threads)
    assert (one.result.measures["threads"], timed.result.measures["threads"]) == (1, 2)


def test_a_cell_that_cannot_be_run_is_an_outcome_and_is_not_kept(tmp_path):
    cells = [Counted(1, "unsupported"), Counted(2), Counted(3, "misconfigured")]
    failed = [outcome.failed for outcome in run_cells(cells, 0, tmp_path, Local(1))]
    assert failed == ["two steps are too many.", None, "there is no such thing."]
    run_cells(cells, 0, tmp_path, Local(1))
    assert sorted(runs(tmp_path)) == [1, 1, 2, 3, 3]
    with pytest.raises(Misconfigured, match="no such thing"):
        run_cells([cells[2], Counted(4, "misconfigured")], 0, tmp_path, Local(1))


@pytest.mark.parametrize("engine", [Local(1), Local(2)])
def test_what_a_cell_raises_comes_from_a_worker_too(tmp_path, engine):
    """One start of the workers for every kind of failure, and one worker for what stops a run."""
    cells = [Counted(n, does) for n, does in enumerate(("unsupported", "", "misconfigured", "unexpected", "odd"))]
    failed = [outcome.failed for outcome in run_cells(cells, 0, tmp_path, engine, keep_failures=True)]
    assert failed[:3] == ["two steps are too many.", None, "there is no such thing."]
    assert failed[3] == "ZeroDivisionError: division by zero."
    assert "Odd: a." in failed[4]
    with pytest.raises(ZeroDivisionError) as raised:
        run_cells([cells[3]], 0, tmp_path, engine)
    if engine == Local(2):
        assert "counted.py" in raised.value.__notes__[0], "where it happened"


def test_a_cell_whose_attack_cannot_be_built_is_an_outcome(tmp_path, monkeypatch):
    def refuse(self):
        raise Misconfigured(f"there is no attack {self.number}.")

    monkeypatch.setattr(Counted, "attack", property(refuse))
    with pytest.raises(Misconfigured, match="no attack 1"):
        run_cells([Counted(1), Counted(2)], 0, tmp_path, Local(1))
    failed = run_cells([Counted(1), Counted(2)], 0, tmp_path, Local(1), keep_failures=True)
    assert [outcome.failed for outcome in failed] == ["there is no attack 1.", "there is no attack 2."]


def test_a_cell_that_workers_cannot_import_is_named(tmp_path, monkeypatch):
    class Elsewhere(Counted):
        """Of a module that only this process has."""

    Elsewhere.__module__, Elsewhere.__qualname__ = "nowhere", "Elsewhere"
    monkeypatch.setitem(sys.modules, "nowhere", SimpleNamespace(Elsewhere=Elsewhere))
    with pytest.raises(Misconfigured, match=r"cannot import the cell \(No module named 'nowhere'\)"):
        run_cells([Elsewhere(1)], 0, tmp_path, Local(2))


def test_no_cluster_is_said_at_once(tmp_path):
    with pytest.raises(Misconfigured, match=r"no Ray cluster answers at '127\.0\.0\.1:1'"):
        run_cells([Counted(1)], 0, tmp_path, Ray("127.0.0.1:1"))


def test_a_killed_worker_is_replaced_once_and_the_others_go_on(tmp_path):
    cells = [Counted(1, "dies"), Counted(2), Counted(3, "dies once"), Counted(4)]
    first, *others = run_cells(cells, 0, tmp_path, Local(2))
    assert first.failed == "2 workers were killed while they ran it, perhaps for want of memory: try fewer workers."
    assert [outcome.failed for outcome in others] == [None] * 3
    assert sorted(runs(tmp_path)) == [1, 1, 2, 3, 3, 4]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_run_loses_no_finished_cell_and_leaves_no_worker(tmp_path, how):
    parent = start(tmp_path / "out", "local:2", "1", "2", "3:waits", "4:waits")
    out = tmp_path / "out"
    wait_for(lambda: sorted(runs(out)) == [1, 2, 3, 4] and len(list((out / "cells").glob("*.json"))) == 2)
    if how == signal.SIGINT:
        os.killpg(parent.pid, how)  # as a terminal sends it, to the workers too
    else:
        os.kill(parent.pid, how)
    _, errors = parent.communicate(timeout=30)
    assert parent.returncode == -how
    assert errors.count("Traceback") == (how == signal.SIGINT), "only the parent's own"
    wait_for(lambda: not any(map(alive, workers(out))), 10)
    (out / "go").touch()
    cells = [Counted(1), Counted(2), Counted(3, "waits"), Counted(4, "waits")]
    assert not any(outcome.failed for outcome in run_cells(cells, 0, out, Local(1)))
    assert sorted(runs(out)) == [1, 2, 3, 3, 4, 4]


def test_engines_by_name():
    assert engine_of("local") == LOCAL == Local(None)
    assert engine_of("local:4") == Local(4)
    assert engine_of("ray") == Ray()
    assert engine_of("ray:ray://head:10001") == Ray("ray://head:10001")
    assert cores() >= 1
    for wrong in ("locl", "local:", "local:many", "ray:", ""):
        with pytest.raises(Misconfigured, match="local:WORKERS, ray or ray:ADDRESS"):
            engine_of(wrong)
    with pytest.raises(Misconfigured, match="at least 1 worker, not 0"):
        engine_of("local:0")
    with pytest.raises(Misconfigured, match="run on 1 worker"):
        Local(2, threads=None)


def test_a_file_that_nobody_reads_changes_no_key(tmp_path):
    """Neither what systems leave behind, nor a hidden link to nowhere, nor a note beside the folders."""
    images = class_folders(tmp_path / "images")
    cell = SimpleNamespace(data=f"folder:{images}")
    before = list(store._files(cell.data))
    assert len(before) == 6
    for name in (".DS_Store", "sick/.DS_Store", "sick/Thumbs.db", "notes.txt", ".hidden/x.png"):
        (images / name).parent.mkdir(exist_ok=True)
        (images / name).write_bytes(b"x")
    (images / ".dangling").symlink_to(tmp_path / "nowhere")
    assert list(store._files(cell.data)) == before
    (images / "sick/0.png").write_bytes(b"another")
    assert list(store._files(cell.data)) != before
