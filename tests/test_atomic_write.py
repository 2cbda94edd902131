"""Files and folders of their owner alone, under any umask."""

import os
import shutil
import stat
from pathlib import Path

import pytest
import torch

from fluoroscope.atomic_write import (
    copy_file,
    is_private,
    make_folder,
    make_run_folder,
    replace_text,
    write_bytes,
    write_new,
    write_tensors,
    write_text,
)
from tests.soak.killing import Kill, operations, run_and_kill


@pytest.fixture(params=[0o000, 0o022, 0o077, 0o777], ids=oct)
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_written_into_a_private_folder_is_private(tmp_path, umask):
    tmp_path.chmod(0o755)
    make_folder(tmp_path / "run", private=True)
    make_folder(tmp_path / "run/rounds/0001")
    write_text(tmp_path / "run/run.json", "{}")
    write_bytes(tmp_path / "run/rounds/0001/a.png", b"image")
    write_tensors(tmp_path / "run/rounds/0001/a.safetensors", {"a": torch.ones(1)})
    found = {path: mode(path) for path in (tmp_path / "run").rglob("*")}
    assert {found[path] for path in found if path.is_dir()} | {mode(tmp_path / "run")} == {0o700}
    assert {found[path] for path in found if path.is_file()} == {0o600}
    assert len(found) == 5


def test_elsewhere_the_umask_decides(tmp_path):
    before = os.umask(0o022)
    try:
        tmp_path.chmod(0o755)
        make_folder(tmp_path / "run/rounds")
        write_text(tmp_path / "run/run.json", "{}")
        write_text(tmp_path / "run/own.json", "{}", private=True)
        assert mode(tmp_path / "run/rounds") == 0o755
        assert mode(tmp_path / "run/run.json") == 0o644
        assert mode(tmp_path / "run/own.json") == 0o600
    finally:
        os.umask(before)


def test_nobody_else_sees_a_private_file_before_it_is_whole(tmp_path, umask, monkeypatch):
    seen = []
    monkeypatch.setattr("fluoroscope.atomic_write.sync", lambda part: seen.append(mode(part)))
    write_text(tmp_path / "a", "text", private=True)
    assert seen == [0o600]


def test_a_folder_that_was_there_stays_and_those_inside_are_private(tmp_path, umask):
    tmp_path.chmod(0o755)
    make_run_folder(tmp_path, ("cells",), private=True)
    assert mode(tmp_path) == 0o755
    assert is_private(tmp_path / "cells")
    make_run_folder(tmp_path / "new", ("cells",), private=True)
    assert mode(tmp_path / "new") == 0o700
    assert not (tmp_path / "new/cells").exists()


def test_a_file_in_the_place_of_a_folder_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="file"):
        make_folder(tmp_path / "file")


WRITERS = {
    "write_text": lambda path: write_text(path, "new" * 9999),
    "write_bytes": lambda path: write_bytes(path, b"new" * 9999, private=True),
    "replace_text": lambda path: replace_text(path, "new" * 9999),
    "copy_file": lambda path: copy_file(path.with_name("other"), path),
    "write_tensors": lambda path: write_tensors(path, {"a": torch.ones(99)}),
    "write_new": lambda path: write_new(path, b"new" * 9999),
}


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("there", [True, False], ids=["over an old file", "where there is none"])
def test_a_kill_at_any_step_leaves_the_old_file_or_the_new_one(tmp_path, name, there):
    if name == "write_new" and there:
        pytest.skip("it leaves a file that is there alone")
    folder, path = tmp_path / "run", tmp_path / "run/file"

    def laid_out():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / "other").write_text("new" * 9999)
        if there:
            path.write_text("old")

    laid_out()
    steps = operations(run_and_kill(lambda: WRITERS[name](path), folder, None, tmp_path / "whole"))
    new, old = path.read_bytes(), b"old" if there else None
    assert steps >= 1
    for step in range(1, steps + 1):
        laid_out()
        assert run_and_kill(lambda: WRITERS[name](path), folder, Kill(step), tmp_path / "killed").code == -9
        assert (path.read_bytes() if path.exists() else None) in (old, new)
        WRITERS[name](path) if not path.exists() or name != "write_new" else None
        assert path.read_bytes() == new, "and the next one ends it"
        assert {each.name for each in folder.iterdir() if not each.name.endswith(".part")} == {"file", "other"}


def test_a_new_file_gives_way_to_one_that_is_there(tmp_path):
    (tmp_path / "file").write_text("old")
    with pytest.raises(FileExistsError):
        write_new(tmp_path / "file", b"new")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"file": "old"}


@pytest.mark.parametrize("name", [".", "there"])
def test_a_folder_is_not_written_over(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    Path("there").mkdir()
    with pytest.raises(IsADirectoryError):
        write_text(Path(name), "text")
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
