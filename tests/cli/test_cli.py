"""The commands as a person and as a machine call them."""

import io
import json
import shutil
import signal
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from fluoroscope.cli import main
from fluoroscope.errors import BadInput
from tests.data.pictures import class_folders

PLAN = """
rounds = 2
[data]
source = "phantom/chest"
size = 28
images = 120
[partition]
name = "iid"
clients = 2
[model]
name = "small-cnn"
"""


@dataclass
class Done:
    returncode: int
    stdout: str
    stderr: str


def fluoroscope(*arguments: object, cwd: Path) -> Done:
    """The program in this process: what its entry point prints, and how it exits."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(cwd)
        patch.setenv("COLUMNS", "160")
        patch.setattr(sys, "argv", ["fluoroscope", *map(str, arguments)])
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
    return Done(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("cli")
    (folder / "plan.toml").write_text(PLAN)
    done = fluoroscope("federate", "plan.toml", "--out", "run", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    (folder / "printed.json").write_text(done.stdout)
    return folder


def test_federate_prints_json_and_writes_a_page(run):
    printed = json.loads((run / "printed.json").read_text())
    assert [row["round"] for row in printed["rounds"]] == [1, 2]
    assert printed["test"]["last"]["images"] > 0
    assert printed == {**json.loads((run / "run/summary.json").read_text()), "page": "run/index.html"}
    page = (run / "run/index.html").read_text()
    assert f"{printed['test']['last']['accuracy']:.3f}" in page
    assert "http://" not in page.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    ), "a page needs no network"


def test_federate_again_is_done_at_once(run):
    again = fluoroscope("federate", "plan.toml", "--out", "run", cwd=run)
    assert again.returncode == 0
    assert "who holds what" in again.stdout
    assert "page: run/index.html" in again.stdout


def test_records_lists_and_verifies(run):
    listed = json.loads(fluoroscope("records", "run", "--json", "--verify", cwd=run).stdout)
    assert [row["recorded"] for row in listed["rounds"]] == [0, 2, 2]
    assert listed["not_covered"] == []
    held = json.loads((run / "run/run-manifest.json").read_text())
    assert listed["digest"] == held["digest"]
    there = {str(path.relative_to(run / "run")) for path in (run / "run").rglob("*") if path.is_file()}
    assert set(held["files"]) == there - {"run-manifest.json"}
    assert listed["files"] == len(there) - 1
    for name in ("rounds/0002/client-2.safetensors", "rounds/0001/timing.json", "run-manifest.json"):
        victim = run / "run" / name
        content = victim.read_bytes()
        victim.write_bytes(content[:-2] + b"x}")
        bad = fluoroscope("records", "run", "--verify", cwd=run)
        victim.write_bytes(content)
        assert bad.returncode == 2
        assert victim.name in bad.stderr
        assert "Traceback" not in bad.stderr


def test_records_without_a_manifest_are_verified_by_their_checksums(run, tmp_path):
    old = Path(shutil.copytree(run / "run", tmp_path / "run"))
    (old / "run-manifest.json").unlink()
    listed = json.loads(fluoroscope("records", "run", "--json", "--verify", cwd=tmp_path).stdout)
    assert listed["not_covered"] == ["checksums.json", *(f"rounds/{r:04d}/timing.json" for r in range(3))]
    assert listed["digest"] is None
    refused = fluoroscope("records", "run", "--sign", "key", cwd=tmp_path)
    assert (refused.returncode, "no key" in refused.stderr) == (2, True)
    for name in ("rounds/0002/global.safetensors", "result.json", "summary.json"):
        content = (old / name).read_bytes()
        (old / name).write_bytes(content[:-1] + b"x")
        bad = fluoroscope("records", "run", "--verify", cwd=tmp_path)
        (old / name).write_bytes(content)
        assert bad.returncode == 2
        assert name.split("/")[-1] in bad.stderr


def test_a_signed_run_is_verified_with_the_key_that_signed_it(run, tmp_path):
    shutil.copytree(run / "run", tmp_path / "run")
    (tmp_path / "secret").write_bytes(b"s" * 32)
    (tmp_path / "other").write_bytes(b"t" * 32)
    assert fluoroscope("records", "run", "--sign", "secret", cwd=tmp_path).returncode == 0
    again = fluoroscope("records", "run", "--verify", "--key", "secret", "--json", cwd=tmp_path)
    assert json.loads(again.stdout)["signature"] == "hmac-sha256"
    wrong = fluoroscope("records", "run", "--verify", "--key", "other", cwd=tmp_path)
    assert (wrong.returncode, "not of this key" in wrong.stderr) == (2, True)


def test_clean_lists_and_then_removes_what_is_patients(run, tmp_path):
    shutil.copytree(run / "run", tmp_path / "run")
    listed = json.loads(fluoroscope("clean", "run", "--json", cwd=tmp_path).stdout)
    there = {str(path.relative_to(tmp_path / "run")) for path in (tmp_path / "run").rglob("*.safetensors")}
    assert {row["path"] for row in listed["runs"][0]["going"]} == there
    assert "7 files" in fluoroscope("clean", "run", "--yes", cwd=tmp_path).stdout
    assert not list((tmp_path / "run").rglob("*.safetensors"))
    assert fluoroscope("records", "run", "--verify", cwd=tmp_path).returncode == 0
    assert "nothing of patients" in fluoroscope("clean", "run", cwd=tmp_path).stdout


def test_data_show_writes_a_sheet_and_the_split(tmp_path):
    done = fluoroscope(
        "data", "show", "phantom/fundus", "--size", 32, "--images", 60, "--partition", "iid", "--json", cwd=tmp_path
    )
    shown = json.loads(done.stdout)
    assert shown["images"] == 60
    assert shown["channels"] == 3
    assert sum(shown["classes"].values()) == 60
    assert {row["part"] for row in shown["split"]} >= {"client-1", "test"}
    assert (tmp_path / "sheet.png").read_bytes()[:4] == b"\x89PNG"


def test_the_sheet_is_never_among_the_images(tmp_path):
    """Where it would be taken for one of them the next time."""
    class_folders(tmp_path / "chests")
    for _ in range(2):
        done = fluoroscope("data", "show", ".", "--json", cwd=tmp_path / "chests")
        assert done.returncode == 0, done.stderr
        assert Path(json.loads(done.stdout)["sheet"]) == tmp_path.resolve() / "chests-sheet.png"
    assert (tmp_path / "chests-sheet.png").stat().st_mode & 0o077 == 0, "patients are its owner's alone"
    bad = fluoroscope("data", "show", "chests", "--out", "chests/sick/x.png", cwd=tmp_path)
    assert bad.returncode == 2
    assert "would lie among the images" in bad.stderr


def test_data_show_tells_who_holds_what(tmp_path):
    class_folders(tmp_path / "held" / "north", count=10)
    class_folders(tmp_path / "held" / "south", count=5, classes=("sick",))
    sites = "".join(f'[[data.site]]\nname = "{name}"\nsource = "folder:held/{name}"\n' for name in ("north", "south"))
    (tmp_path / "sites.toml").write_text(f"[data]\nsize = 28\n{sites}")
    done = fluoroscope("data", "show", "sites.toml", "--json", cwd=tmp_path)
    shown = json.loads(done.stdout)
    assert shown["sites"] == [
        {"site": "north", "images": 20, "patients": 20, "classes": {"normal": 10, "sick": 10}},
        {"site": "south", "images": 5, "patients": 5, "classes": {"normal": 0, "sick": 5}},
    ]
    assert [row["part"] for row in shown["split"]] == ["north", "south", "test", "auxiliary", "unused"]
    printed = fluoroscope("data", "show", "folder:held", "--folders", "sites", cwd=tmp_path).stdout
    assert "2 sites" in printed
    refused = fluoroscope("data", "show", "sites.toml", "--size", 32, cwd=tmp_path)
    assert refused.returncode == 2
    assert "leave out all options but --out" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["federate", "nowhere.toml", "--out", "x"], "cannot read the plan nowhere.toml"),
        (["federate", "plan.toml", "--out", "run", "--seed", "5"], "another plan"),
        (["federate", "plan.toml", "--out", "x", "--device", "cuda:7"], "--device cpu"),
        (["federate", "plan.toml", "--out", "x", "--engine", "rai"], "did you mean 'ray'"),
        (["federate", "plan.toml"], "--out"),
        (["records", "nowhere"], "nowhere/run.json is missing"),
        (["data", "show", "phantom/ches"], "did you mean 'phantom/chest'"),
        (["data", "show", "phantom/chest", "--partition", "p1", "--images", "50"], "short of images"),
        (["data", "show", "phantom/chest", "--images", "0"], "images"),
    ],
)
def test_wrong_input_is_one_sentence_and_exit_code_2(run, arguments, message):
    done = fluoroscope(*arguments, cwd=run)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_debug_shows_the_traceback_wherever_it_stands(run):
    with pytest.raises(BadInput, match="nowhere"):
        fluoroscope("records", "nowhere", "--debug", cwd=run)


def test_a_page_for_clients_that_take_turns(run):
    text = PLAN.replace("clients = 2", "clients = 4") + "[strategy]\nfraction = 0.5\n"
    (run / "turns.toml").write_text(text)
    done = fluoroscope("federate", "turns.toml", "--out", "turns", "--json", cwd=run)
    assert done.returncode == 0, done.stderr
    rounds = json.loads(done.stdout)["rounds"]
    assert [len(row["clients"]) for row in rounds] == [2, 2]
    assert [len(row["validation"]) for row in rounds] == [4, 4]


def test_the_split_shown_is_the_split_trained_on(run):
    told = ["--size", 28, "--images", 120, "--partition", "iid", "--set", "clients=2", "--json"]
    shown = json.loads(fluoroscope("data", "show", "phantom/chest", *told, cwd=run).stdout)["split"]
    assert shown == json.loads((run / "printed.json").read_text())["clients"]


def test_ctrl_c_is_not_success(tmp_path):
    (tmp_path / "plan.toml").write_text(PLAN.replace("rounds = 2", "rounds = 500"))
    script = Path(sys.executable).parent / "fluoroscope"
    command = [script, "federate", "plan.toml", "--out", "run"]
    running = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (tmp_path / "run/rounds/0001").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    try:
        _, said = running.communicate(timeout=60)
    except subprocess.TimeoutExpired:  # Python drops an interrupt that arrives inside a destructor: one presses again
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "the same command goes on from what is whole on disk" in said


def test_the_console_script_is_installed(tmp_path):
    script = Path(sys.executable).parent / "fluoroscope"
    done = subprocess.run([script, "federat"], cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (2, "")
    assert "No such command 'federat'" in done.stderr


def test_help_teaches_with_examples(tmp_path):
    for command in (["demo"], ["federate"], ["data", "show"], ["records"]):
        assert "Example" in fluoroscope(*command, "--help", cwd=tmp_path).stdout
