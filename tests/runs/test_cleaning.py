"""What is patients' goes, all else stays: also after a kill at any step, and never through a link."""

import json
import shutil
from pathlib import Path

import pytest

from fluoroscope.atomic_write import write_text
from fluoroscope.errors import BadInput
from fluoroscope.progress_file import progress_in
from fluoroscope.report.audit_report import write_report
from fluoroscope.runs.cleaning import clean, cleaning_of
from fluoroscope.runs.lock import run_lock
from fluoroscope.runs.manifest import read_manifest, write_manifest
from fluoroscope.runs.verification import verified_runs
from tests.cli.test_cli import fluoroscope
from tests.runs.folders import audit_folder, federation_folder, tree, write

KEPT = {"findings.json", "timing.json", "report.html", "notes.txt", "run-manifest.json"}


def quick_page(folder: Path) -> None:
    """As a page is written: whole, or not at all."""
    write_text(folder / "report.html", "without images" if not (folder / "gallery").exists() else "data:image/png")


def cleaned(folder: Path, write_page=quick_page) -> None:
    for each in reversed(cleaning_of(folder)):
        clean(each, write_page)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = audit_folder(tmp_path_factory.mktemp("made") / "audit")
    quick_page(folder)
    write_manifest(folder, "audit")
    return folder


@pytest.fixture
def audited(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "audit"))


def test_looking_changes_nothing_and_lists_what_goes_with_its_size(audited):
    before = tree(audited)
    (found,) = cleaning_of(audited)
    going = {each.path.name: (each.files, each.bytes) for each in found.going}
    assert tree(audited) == before
    assert set(going) == {"cells", "checkpoints", "federations", "gallery", "report.pdf"}
    assert going["cells"] == (2, len("{}image"))
    assert going["gallery"][0] == sum(name.startswith("gallery/") for name in before)
    assert set(found.stays) == KEPT


def test_images_go_and_findings_page_and_what_is_not_ours_stay(audited):
    findings = (audited / "findings.json").read_bytes()
    assert "data:image/png" in (audited / "report.html").read_text()
    cleaned(audited, write_report)
    assert tree(audited) == KEPT
    assert (audited / "findings.json").read_bytes() == findings
    page = (audited / "report.html").read_text()
    assert "data:image" not in page
    assert "The images are not here" in page


def test_a_page_is_not_made_of_half_a_gallery(audited):
    next((audited / "gallery").rglob("*.png")).unlink()
    with pytest.raises(BadInput, match="missing or damaged"):
        write_report(audited, show_images=True)


def test_the_manifest_names_what_stays_by_the_digests_that_it_had(audited):
    before = read_manifest(audited)
    cleaned(audited)
    (found,) = verified_runs(audited).values()
    assert found.holds
    assert set(found.whole) == KEPT - {"run-manifest.json"}
    assert found.manifest.files["findings.json"] == before.files["findings.json"]
    (audited / "findings.json").write_text("{}")
    assert verified_runs(audited)["."].damaged == ("findings.json",)


def test_a_damaged_file_that_stays_is_not_made_whole_by_cleaning(audited):
    (audited / "timing.json").write_text("{}")
    cleaned(audited)
    assert verified_runs(audited)["."].damaged == ("timing.json",)


def test_a_kill_at_any_step_leaves_what_a_second_call_ends(made, tmp_path, monkeypatch):
    class Killed(BaseException):
        pass

    steps, last = 0, 0

    def step(real):
        def called(*arguments, **named):
            nonlocal steps
            steps += 1
            if steps == last:
                raise Killed
            return real(*arguments, **named)

        return called

    ended, wanted = False, None
    while not ended:
        folder = Path(shutil.copytree(made, tmp_path / f"run-{last}"))
        with monkeypatch.context() as patched:
            for what, name in ((Path, "rename"), (Path, "mkdir"), (shutil, "rmtree"), (Path, "replace")):
                patched.setattr(what, name, step(getattr(what, name)))
            patched.setattr("os.unlink", step(__import__("os").unlink))
            steps = 0
            try:
                cleaned(folder)
                ended = last > 0
            except Killed:
                assert (folder / "findings.json").is_file()
        cleaned(folder)
        assert tree(folder) == KEPT, f"killed at step {last}"
        content = {name: (folder / name).read_bytes() for name in KEPT}
        wanted = wanted or content
        assert content == wanted
        assert verified_runs(folder)["."].holds
        last += 1
    assert last > 20


def test_links_are_removed_and_never_followed(audited, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    write(elsewhere / "precious.png", "image")
    shutil.rmtree(audited / "gallery")
    (audited / "gallery").symlink_to(elsewhere)
    (audited / "cells" / "link").symlink_to(elsewhere)
    (found,) = cleaning_of(audited)
    assert [each.link for each in found.going if each.path.name == "gallery"] == [True]
    cleaned(audited)
    assert tree(audited) == KEPT
    assert (elsewhere / "precious.png").read_text() == "image"


def test_what_lies_behind_a_linked_folder_stays(tmp_path):
    records = federation_folder(tmp_path / "records")
    shutil.move(records / "rounds", tmp_path / "elsewhere")
    (records / "rounds").symlink_to(tmp_path / "elsewhere")
    cleaned(records)
    assert (tmp_path / "elsewhere/0001/north.safetensors").is_file()


def test_records_lose_models_updates_and_paths_and_the_runs_inside_them_theirs(tmp_path):
    records = federation_folder(tmp_path / "records")
    cleaned(records)
    assert tree(records) == {
        "run.json",
        "result.json",
        "rounds/0000/manifest.json",
        "rounds/0001/manifest.json",
        "attacks/dlg-north/findings.json",
        "calibration/calibration.json",
    }
    cleaned(records)


def test_a_page_that_cannot_be_written_again_goes(audited):
    def fails(folder):
        raise BadInput("no")

    for each in cleaning_of(audited):
        clean(each, fails)
    assert tree(audited) == KEPT - {"report.html"}
    assert verified_runs(audited)["."].holds


def test_an_audit_that_was_killed_before_its_findings_can_be_cleaned(tmp_path):
    write(tmp_path / "run/cells" / f"{'b' * 24}.safetensors", "image")
    write(tmp_path / "run/federations/a/rounds/0001/north.safetensors", "update")
    cleaned(tmp_path / "run")
    assert not tree(tmp_path / "run")


@pytest.mark.parametrize("content", [None, "", "[]", "{", json.dumps({"cells": []}), "[" * 100_000])
def test_a_folder_that_is_no_run_is_refused(tmp_path, content):
    write(tmp_path / "gallery/mine.png", "image")
    write(tmp_path / "cells/mine.json", "{}")
    if content is not None:
        write(tmp_path / "findings.json", content)
    with pytest.raises(BadInput, match="nothing in it is touched"):
        cleaning_of(tmp_path)


def test_links_and_files_in_the_place_of_the_folder_are_refused(audited, tmp_path):
    (tmp_path / "link").symlink_to(audited)
    with pytest.raises(BadInput, match="is a link"):
        cleaning_of(tmp_path / "link")
    with pytest.raises(BadInput, match="is no folder"):
        cleaning_of(audited / "findings.json")


def test_a_run_that_is_at_work_is_left_alone(tmp_path):
    folder = federation_folder(tmp_path / "run")
    before = tree(folder)
    with run_lock(folder):
        refused = fluoroscope("clean", folder, "--yes", cwd=tmp_path)
    assert (refused.returncode, tree(folder)) == (2, before)
    assert "is at work: a process trains in it" in refused.stderr
    with progress_in(folder / "calibration", "calibration"):
        refused = fluoroscope("clean", folder, "--yes", cwd=tmp_path)
    assert refused.returncode == 2
    assert "calibration is at work" in refused.stderr
    assert fluoroscope("clean", folder, "--yes", cwd=tmp_path).returncode == 0
