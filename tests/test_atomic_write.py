"""Files and folders of their owner alone, under any umask."""

import os
import stat

import pytest
import torch

from fluoroscope.atomic_write import is_private, make_folder, make_run_folder, write_bytes, write_tensors, write_text


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
