"""How far a run is: what it writes, and what a watcher makes of it when it is killed."""

import json
import os
import signal
import subprocess
import sys

import pytest

from fluoroscope import progress_file
from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.progress_file import RunProgress, progress_in, read_progress, without_folders

RUN = """
import sys, time
from pathlib import Path
from fluoroscope.progress_file import progress_in
with progress_in(Path(sys.argv[1]), "audit") as tell:
    tell(1, 4, "a cell")
    print("here", flush=True)
    time.sleep(600)
"""


def said(**changes):
    usual = {"kind": "audit", "began": 1000.0, "updated": 1010.0, "pid": 1, "machine": "elsewhere"}
    return RunProgress.model_validate({**usual, **changes})


def test_it_says_how_far_and_how_it_ended(tmp_path):
    out = tmp_path / "deep" / "run"
    with progress_in(out, "study") as tell:
        assert read_progress(out).standing(0) == "running"
        tell(2, 5, "x" * 1000)
        tell(3, 5, "y")
    found = read_progress(out)
    assert (found.kind, found.state, found.done, found.total, found.found, found.what) == (
        "study", "finished", 5, 5, 2, "y",
    )  # fmt: skip
    assert [path.name for path in out.iterdir()] == ["progress.json"], "no remains"


def test_a_failure_is_told_with_its_sentence_and_goes_on(tmp_path):
    with pytest.raises(Misconfigured), progress_in(tmp_path, "audit"):
        raise Misconfigured("rounds must be at least 1, not 0.")
    assert read_progress(tmp_path).reason == "rounds must be at least 1, not 0."
    with pytest.raises(ZeroDivisionError), progress_in(tmp_path, "audit"):
        _ = 1 / 0
    assert (read_progress(tmp_path).state, read_progress(tmp_path).reason) == ("failed", "ZeroDivisionError")
    with pytest.raises(KeyboardInterrupt), progress_in(tmp_path, "audit"):
        raise KeyboardInterrupt
    assert read_progress(tmp_path).state == "stopped"


def test_a_folder_that_cannot_be_written_stops_no_run(tmp_path):
    (tmp_path / "file").write_text("")
    with progress_in(tmp_path / "file" / "run", "audit") as tell:
        tell(1, 2, "a")
    assert read_progress(tmp_path / "file" / "run") is None


def test_a_killed_run_is_stopped_and_not_running_for_ever(tmp_path):
    with subprocess.Popen([sys.executable, "-c", RUN, str(tmp_path)], stdout=subprocess.PIPE) as run:
        run.stdout.readline()
        assert read_progress(tmp_path).standing(0) == "running"
        run.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, run.pid, os.WEXITED | os.WNOWAIT)  # dead, and not yet buried
        assert read_progress(tmp_path).state == "running", "it could not say so"
        assert read_progress(tmp_path).standing(0) == "stopped"
        run.wait()
    assert read_progress(tmp_path).standing(0) == "stopped"


def test_another_process_under_the_same_number_is_not_the_run(tmp_path):
    with progress_in(tmp_path, "audit"):
        content = json.loads((tmp_path / "progress.json").read_text())
        (tmp_path / "progress.json").write_text(json.dumps({**content, "started": "17"}))
        assert read_progress(tmp_path).standing(0) == "stopped"


def test_on_another_machine_the_age_of_the_news_counts():
    assert said().standing(1069) == "running"
    assert said().standing(1071) == "stopped"
    assert said(state="finished").standing(9e9) == "finished"


def test_time_left_by_speed_by_forecast_and_within_the_budget():
    assert said().seconds_left(1010) is None
    assert said(expected=50).seconds_left(1010) == 40
    # Half of what was new took ten seconds; what was found took none.
    assert said(done=6, found=2, total=10).seconds_left(1010) == pytest.approx(10)
    assert said(done=6, found=2, total=10, expected=50).seconds_left(1010) == pytest.approx((10 + 40) / 2)
    assert said(done=6, found=2, total=10, budget=13).seconds_left(1010) == pytest.approx(3)
    assert said(done=10, total=10).seconds_left(1010) == 0


@pytest.mark.parametrize("content", ["", "{", "[]", '{"kind": "audit"}', '{"format": 2}', "\x00" * 100, "9" * 100_000])
def test_a_damaged_file_is_named(tmp_path, content):
    (tmp_path / "progress.json").write_text(content)
    with pytest.raises(BadInput, match=r"progress\.json is damaged; delete it"):
        read_progress(tmp_path)


def test_readers_find_it_whole_while_it_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(progress_file, "_EVERY", 0.0)
    with progress_in(tmp_path, "audit") as tell:
        for i in range(300):
            tell(i, 300, "a cell " * (i % 40))
            assert read_progress(tmp_path).kind == "audit"


def test_a_failed_run_names_no_folder(tmp_path):
    """The file is sent around with the run: folders name a user and a server."""
    private = tmp_path / "Anna K" / "images"
    with pytest.raises(BadInput), progress_in(tmp_path / "Anna K/run", "audit"):
        raise BadInput(
            f"{private}/7.png: cannot be read (no file '/srv/pacs/x.dcm'); see {tmp_path / 'Anna K/run'}/cells."
        )
    reason = read_progress(tmp_path / "Anna K/run").reason
    assert reason == "images/7.png: cannot be read (no file 'x.dcm'); see cells."


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("folder:/home/anna/x has no image", "folder:x has no image"),
        ("a ratio of 1/2 and http://host/a/b", "a ratio of 1/2 and http://host/a/b"),
        ("~/images/x.png and ./plans/p.toml", "x.png and ./plans/p.toml"),
        ("['/a/b/c', '/d/e']", "['c', 'e']"),
    ],
)
def test_folders_are_taken_from_a_sentence(text, left):
    assert without_folders(text) == left
