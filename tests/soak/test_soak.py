"""The short form of `make soak`: a federation and a study that are killed now and then end as if they had not been."""

import pytest

from tests.soak.commands import COMMANDS
from tests.soak.killing import Kill, operations, run_and_kill
from tests.soak.soaking import soak

BY_NAME = {command.name: command for command in COMMANDS}


@pytest.mark.parametrize(("name", "kills"), [("federate", 4), ("study", 2)])
def test_nothing_is_lost(name, kills, tmp_path):
    found = list(soak(BY_NAME[name], kills, 1, tmp_path))
    assert sum(len(each.kills) for each in found) == kills
    assert [each.wrong for each in found if each.wrong] == []


def test_a_kill_comes_before_its_operation(tmp_path):
    """The oracle: of three files that are written one after another, those before the kill are there."""
    out = tmp_path / "out"
    out.mkdir()

    def run():
        for name in "abc":
            (out / name).write_text(name)

    assert operations(run_and_kill(run, out, None, tmp_path / "whole")) == 3
    for path in out.iterdir():
        path.unlink()
    (tmp_path / "elsewhere").write_text("does not count")
    assert run_and_kill(run, out, Kill(2), tmp_path / "killed").code == -9
    assert [path.name for path in out.iterdir()] == ["a"]
