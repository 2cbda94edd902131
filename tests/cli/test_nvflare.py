"""`fluoroscope nvflare install`, as a site's engineer types it."""

import pytest
from typer.testing import CliRunner

from fluoroscope.cli.app import program
from fluoroscope.errors import BadInput


@pytest.fixture
def site(tmp_path):
    for name in ("startup", "local"):
        (tmp_path / "site-1" / name).mkdir(parents=True)
    (tmp_path / "appetite.toml").write_text("")
    return tmp_path / "site-1"


def run(*arguments: object):
    return CliRunner().invoke(program(), ["nvflare", "install", *map(str, arguments)])


def test_install_and_check(site, tmp_path):
    assert run(site, "--check").exit_code == 4
    done = run(site, "--policy", tmp_path / "appetite.toml")
    assert done.exit_code == 0, done.output
    assert "written" in done.stdout
    again = run(site, "--policy", tmp_path / "appetite.toml")
    assert "already so" in again.stdout
    checked = run(site, "--check")
    assert checked.exit_code == 0
    assert str(tmp_path / "appetite.toml") in checked.stdout


def test_a_scope_that_is_left_open_is_named(site, tmp_path):
    (site / "local" / "privacy.json").write_text('{"scopes": [{"name": "lax"}]}')
    done = run(site, "--policy", tmp_path / "appetite.toml", "--scope", "strict")
    assert done.exit_code == 4
    assert "'lax'" in done.stdout
    assert run(site, "--check").exit_code == 4


@pytest.mark.parametrize("arguments", [["--policy", "missing.toml"], [], ["--check", "--policy", "appetite.toml"]])
def test_wrong_input_writes_nothing(site, arguments):
    done = run(site, *arguments)
    assert isinstance(done.exception, BadInput)
    assert not list((site / "local").iterdir())
