"""A killed study loses at most the running cell, and nothing finished is run twice."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from fluoroscope.attacks import ATTACKS
from fluoroscope.cells import LOCAL, ONE_BY_ONE, CellStore, Local, Result, key, run_cells
from fluoroscope.errors import BadInput, Unsupported
from fluoroscope.studies.run import run, write_findings
from fluoroscope.studies.table import beside, common, markdown
from fluoroscope.types import Knowledge
from tests.studies.conftest import KILLED_AT, RAN, Counting


def test_a_killed_study_goes_on_with_the_cell_that_was_running(study, tmp_path):
    KILLED_AT.append(3)
    with pytest.raises(KeyboardInterrupt):
        run(study, "small", 0, None, tmp_path)
    assert RAN == [1, 2]
    KILLED_AT.clear()
    resumed = run(study, "small", 0, None, tmp_path)
    assert RAN == [1, 2, 3]
    whole = run(study, "small", 0, None, tmp_path / "elsewhere")
    assert _numbers(resumed) == _numbers(whole)
    for a, b in zip(resumed.rows, whole.rows, strict=True):
        torch.testing.assert_close(a.result.images["image"], b.result.images["image"])


def test_cells_are_shared_by_studies_and_not_by_seeds_or_data(study, tmp_path):
    run(study, "small", 0, None, tmp_path)
    run(replace(study, name="t/other"), "paper", 0, None, tmp_path)
    assert RAN == [1, 2, 3, 0, 4, 5, 6, 7, 8]
    run(study, "small", 1, None, tmp_path)
    assert RAN[9:] == [1, 2, 3]
    rows = run(study, "small", 1, "phantom/brain", tmp_path).rows
    assert RAN[12:] == [1, 2, 3]
    assert {row["data"] for row in rows} == {"phantom/brain"}


def test_rows_name_images_and_not_where_they_lie(study, tmp_path):
    images = tmp_path / "images"
    images.mkdir()
    found = run(study, "small", 0, f"folder:{images}", tmp_path / "out")
    assert {row["data"] for row in found.rows} == {"folder:images"}
    files = write_findings(found, tmp_path / "out")
    assert not any(str(tmp_path) in files[name].read_text(encoding="utf-8") for name in ("findings", "table"))


def test_a_cell_is_another_when_its_attack_or_its_files_change(tmp_path, monkeypatch):
    folder = tmp_path / "images"
    folder.mkdir()
    cell = Counting(1, f"folder:{folder}")
    before = key(cell, 0)
    assert key(cell, 0) == before
    (folder / "a.png").write_bytes(b"x")
    with_file = key(cell, 0)
    assert with_file != before
    other = replace(ATTACKS.get("bn-only"), restarts=2)
    monkeypatch.setattr(Counting, "attack", property(lambda self: other))
    assert key(cell, 0) not in (before, with_file)


def test_a_cell_is_the_same_in_every_process(monkeypatch):
    """Sets have another order in every process; here by another order of insertion."""
    one, two = frozenset([0, 8]), frozenset([8, 0])
    assert repr(one) != repr(two)
    keys = set()
    for capabilities in (one, two):
        attack = Knowledge("server", capabilities)
        monkeypatch.setattr(Counting, "attack", property(lambda self, attack=attack: attack))
        keys.add(key(Counting(1), 0))
    assert len(keys) == 1


def test_a_cell_that_cannot_be_run_is_a_finding(study, tmp_path, monkeypatch):
    def refuse(self, bench):
        raise Unsupported("two steps are too many.")

    with monkeypatch.context() as patch:
        patch.setattr(Counting, "run", refuse)
        findings = run(study, "small", 0, None, tmp_path)
    assert findings.plain()["rows"][0]["failed"] == "two steps are too many."
    assert "two steps are too many." in markdown(findings.rows)
    assert findings.rows[0]["square"] is None
    assert run(study, "small", 0, None, tmp_path).rows[0]["square"] == 1, "tried again"


def test_only_parallel_studies_run_on_workers_unasked(study, tmp_path, monkeypatch):
    used = []

    def watch(cells, seed, out, engine, on_cell):
        used.append(engine)
        return run_cells(cells, seed, out, Local(1), on_cell)

    monkeypatch.setattr("fluoroscope.studies.run.run_cells", watch)
    run(study, "small", 0, None, tmp_path)
    run(replace(study, parallel=True), "small", 0, None, tmp_path)
    run(study, "small", 0, None, tmp_path, engine=Local(3))
    assert used == [ONE_BY_ONE, LOCAL, Local(3)]


def test_a_damaged_cell_is_named(study, tmp_path):
    run(study, "small", 0, None, tmp_path)
    next((tmp_path / "cells").glob("*.json")).write_text("{")
    with pytest.raises(BadInput, match=r"is damaged .* delete it"):
        run(study, "small", 0, None, tmp_path)


def test_a_cell_is_whole_or_not_there(tmp_path):
    store = CellStore(tmp_path)
    assert store.load("x") is None
    store.save("x", {"a": 1}, Result({"b": 2.0}, {"c": [1.0, None]}, {"d": torch.ones(2)}), 3.0)
    result, seconds = store.load("x")
    assert (result.measures, result.curves, seconds) == ({"b": 2.0}, {"c": [1.0, None]}, 3.0)
    assert torch.equal(result.images["d"], torch.ones(2))
    assert {path.name for path in tmp_path.iterdir()} == {"x.json", "x.safetensors"}


def test_findings_table_and_figure_are_written(study, tmp_path):
    told = []
    findings = run(study, "small", 7, None, tmp_path, lambda done, cells, what: told.append((done, cells, what)))
    assert told[0] == (0.0, 3, "phantom/chest, 1")
    assert (1.5, 3, "phantom/chest, 2") in told
    assert told[-1][:2] == (3.0, 3)
    files = write_findings(findings, tmp_path)
    read = json.loads(files["findings"].read_text())
    assert list(read) == ["study", "size", "seed", "seconds", "date", "rows"]
    assert (read["study"], read["size"], read["seed"]) == ("t/counting", "small", 7)
    first = {"data": "phantom/chest", "number": 1, "square": 1, "undefined": None}
    assert read["rows"][0] == {**first, "curves": {"iteration": [0, 1], "square": [0.0, 1.0]}, "paper": {"square": 1.0}}
    assert read["rows"][2]["paper"] is None
    pixels = np.asarray(Image.open(files["png"]).convert("L"), dtype=float)
    assert pixels.std() > 5, "a blank figure"
    assert "<svg" in files["svg"].read_text()
    assert "Squares grow." in files["table"].read_text()


def test_the_papers_numbers_stand_beside_ours(study, tmp_path):
    rows = run(study, "small", 0, None, tmp_path).rows
    first, second, third = beside(rows)
    assert list(first) == ["data", "number", "square", "square (paper)", "undefined", "cube (paper)"]
    assert (second["square"], second["square (paper)"], second["cube (paper)"]) == ("4", "4.5", "8")
    assert third["square (paper)"] == "–"
    assert common(rows) == {"data": "phantom/chest"}, "said once above the table"
    assert common(rows[:1]) == {}
    lines = markdown(rows).splitlines()
    assert lines[0].startswith("| data")
    assert len({len(line) for line in lines}) == 1, "columns are aligned"


def _numbers(findings):
    return [(row.settings, row.result.measures["square"], row.result.curves, row.paper) for row in findings.rows]
