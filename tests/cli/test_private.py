"""Runs on patients' images: their owner's alone under any umask; nothing that is sent around names a place."""

import getpass
import json
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_cli import fluoroscope
from tests.data.pictures import class_folders

PLAN = """
rounds = 1
[data]
source = "folder:hospital-of-anna/chests"
size = 28
[partition]
name = "iid"
clients = 2
auxiliary = 0.3
[model]
name = "small-cnn"
[audit]
budget_minutes = 5
threats = ["curious-server"]
attacks = ["ridge"]
clients = ["client-1"]
inference = []
membership = []
victims = 2
simulations = 8
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """A federation and an audit of it, with everybody let in by the umask; exports and pages of both kinds."""
    place = tmp_path_factory.mktemp("private")
    class_folders(place / "hospital-of-anna/chests", 30, 28, ("opaque-anna", "clear-anna"))
    (place / "plan.toml").write_text(PLAN)
    place.chmod(0o755)
    before = os.umask(0)
    try:
        for command in (
            ("federate", "plan.toml", "--out", "runs/records"),
            ("audit", "plan.toml", "--out", "runs/audit", "--workers", "1", "--show-images"),
            ("report", "runs/audit", "--format", "sarif", "--format", "md", "--format", "json", "--format", "dpia"),
            ("report", "runs/audit", "--numbers-only", "--format", "html", "--format", "md", "--format", "sarif"),
        ):
            done = fluoroscope(*command, cwd=place)
            assert done.returncode == 0, done.stderr
    finally:
        os.umask(before)
    return place


def test_every_folder_and_file_is_the_owners_alone(place):
    assert list((place / "runs/audit/gallery").glob("*.png"))
    for run in ("records", "audit"):
        paths = [place / "runs" / run, *(place / "runs" / run).rglob("*")]
        modes = {str(path): (path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in paths}
        assert {name: oct(mode) for name, (folder, mode) in modes.items() if mode != (0o700 if folder else 0o600)} == {}


def test_what_is_sent_around_names_no_path_no_user_and_no_machine(place):
    secret = [str(place), "hospital-of-anna", str(Path.home()), f"/{getpass.getuser()}/"]
    secret += [name for name in (socket.gethostname(), socket.getfqdn()) if len(name) > 3]  # shorter ones are in words
    for path in sorted((place / "runs").rglob("*")):
        if path.is_file() and path.name != "plan.private.json":
            content = path.read_bytes()
            assert not [name for name in secret if name.encode() in content], path
    assert "hospital-of-anna" in (place / "runs/records/plan.private.json").read_text(), "where they stay"


def test_numbers_only_has_no_image(place):
    for path in (place / "runs/audit").glob("*numbers*"):
        content = path.read_text()
        for image in ("data:image", "<img", "image/png", "client-1", "chests", "opaque-anna", "clear-anna"):
            assert image not in content, path


def test_an_audit_is_verified_whole_and_cleaned(place):
    audit = place / "runs/audit"
    listed = json.loads(fluoroscope("records", audit, "--verify", "--json", cwd=place).stdout)
    there = [path for path in audit.rglob("*") if path.is_file() and not path.name.endswith(".lock")]
    assert (listed["files"], listed["not_covered"]) == (len(there) - 1, [])
    picture = next(audit.glob("gallery/*.png"))
    whole = picture.read_bytes()
    picture.write_bytes(whole[:-1])
    bad = fluoroscope("records", audit, "--verify", cwd=place)
    assert (bad.returncode, picture.name in bad.stderr) == (2, True)
    picture.write_bytes(whole)
    assert fluoroscope("clean", audit, "--yes", cwd=place).returncode == 0
    assert not [path for path in audit.rglob("*") if path.suffix in (".png", ".safetensors")]
    assert "data:image" not in (audit / "report.html").read_text()
    assert fluoroscope("records", audit, "--verify", cwd=place).returncode == 0
    assert fluoroscope("gate", audit, cwd=place).returncode in (0, 4)
    again = fluoroscope("clean", place, "--yes", cwd=place)
    assert (again.returncode, "nothing in it is touched" in again.stderr) == (2, True)


def test_a_kill_leaves_a_clean_that_the_next_one_ends(place):
    """As a person would: kill -9 in the middle of deleting, then the same command."""
    records = place / "runs/records"
    script = "import os, shutil, signal; shutil.rmtree = lambda path: os.kill(os.getpid(), signal.SIGKILL); "
    script += f"import sys; sys.argv = ['fluoroscope', 'clean', {str(records)!r}, '--yes']; "
    script += "from fluoroscope.cli import main; main()"
    killed = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=120, check=False)
    assert killed.returncode == -9
    assert list(records.glob(".fluoroscope-removed/*"))
    assert fluoroscope("clean", records, "--yes", cwd=place).returncode == 0
    assert not list(records.rglob("*.safetensors"))
    assert not (records / "plan.private.json").exists()
    assert not list(records.glob(".fluoroscope-removed"))
    assert fluoroscope("records", records, "--verify", cwd=place).returncode == 0
