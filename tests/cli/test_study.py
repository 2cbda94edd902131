"""`fluoroscope study` as a person and as a machine call it."""

import json

import pytest

from fluoroscope.studies import STUDIES
from tests.cli.test_cli import fluoroscope
from tests.studies.conftest import RAN, study

assert study  # a fixture


@pytest.fixture
def counting(study, monkeypatch):
    monkeypatch.setitem(STUDIES._parts, study.name, study)
    return study


def test_every_study_is_listed(tmp_path):
    listed = json.loads(fluoroscope("study", "list", "--json", cwd=tmp_path).stdout)["studies"]
    p4 = {f"p4/table-{i}" for i in range(1, 5)} | {f"p4/fig-{i}" for i in range(1, 8)}
    assert p4 | {f"p1/fig-{i}" for i in (3, 5, 6, 7)} <= {row["study"] for row in listed}
    assert all(row["claim"] and row["cells"]["small"] for row in listed)
    assert "p1/fig-6" in fluoroscope("study", "list", cwd=tmp_path).stdout


def test_json_is_the_findings_and_nothing_else(counting, tmp_path):
    done = fluoroscope("study", "run", counting.name, "--seed", 4, "--json", "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert set(printed) == {"study", "size", "seed", "seconds", "date", "rows"}
    assert printed == json.loads((tmp_path / "out/t/counting/findings.json").read_text())
    assert [row["paper"] for row in printed["rows"]] == [{"square": 1.0}, {"square": 4.5, "cube": 8}, None]


def test_a_person_gets_the_table_with_the_papers_numbers(counting, tmp_path):
    done = fluoroscope("study", "run", counting.name, "--out", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for words in ("Squares grow.", "square (paper)", "4.5", "out/t/counting/figure.png", "out/t/counting/table.md"):
        assert words in done.stdout
    fluoroscope("study", "run", counting.name, "--out", "out", cwd=tmp_path)
    assert RAN == [1, 2, 3], "nothing is run twice"


@pytest.mark.slow  # tests/cells does the same with cells that cost less to import
def test_studies_are_verified_and_cleaned(counting, tmp_path):
    fluoroscope("study", "run", counting.name, "--out", "out", cwd=tmp_path)
    listed = json.loads(fluoroscope("records", "out", "--verify", "--json", cwd=tmp_path).stdout)
    there = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert (listed["files"], listed["not_covered"]) == (len(there) - 1, [])
    assert any(name.startswith("cells/") for name in there)
    fluoroscope("study", "run", counting.name, "--out", "out", cwd=tmp_path)
    assert fluoroscope("clean", "out", "--yes", cwd=tmp_path).returncode == 0
    left = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert {"t/counting/findings.json", "t/counting/table.md"} <= left
    assert not [name for name in left if name.startswith("cells/") or "figure" in name]
    assert fluoroscope("records", "out", "--verify", cwd=tmp_path).returncode == 0


@pytest.mark.slow
def test_workers_and_their_number_change_nothing(counting, tmp_path):
    rows = []
    for workers in (1, 2):
        out = f"out-{workers}"
        done = fluoroscope("study", "run", counting.name, "--workers", workers, "--json", "--out", out, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        rows.append(json.loads(done.stdout)["rows"])
    assert rows[0] == rows[1]
    assert RAN == [1, 2, 3], "two workers ran elsewhere"


def test_several_studies_and_one_that_fails(counting, tmp_path, monkeypatch):
    from dataclasses import replace

    broken = replace(counting, name="t/broken", draw=lambda title, rows: 1 / 0)
    monkeypatch.setitem(STUDIES._parts, "t/broken", broken)
    told = ["study", "run", "t/broken", counting.name, "--out", "out"]
    done = fluoroscope(*told, "--json", cwd=tmp_path)
    assert done.returncode == 4
    first, second = json.loads(done.stdout)["studies"]
    assert (first["study"], first["failed"]) == ("t/broken", "ZeroDivisionError: division by zero")
    assert (second["rows"], second["failed"]) == (3, "")
    monkeypatch.setitem(STUDIES._parts, "t/broken", replace(broken, draw=counting.draw))
    again = fluoroscope(*told, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "fluoroscope study claims out" in again.stdout + again.stderr
    assert RAN == [1, 2, 3], "nothing was run twice"


def test_claims_by_what_was_run(counting, tmp_path):
    fluoroscope("study", "run", counting.name, "--out", "out", cwd=tmp_path)
    page = fluoroscope("study", "claims", "out", cwd=tmp_path)
    assert page.returncode == 0, page.stderr
    assert "Made by `fluoroscope study claims out`" in page.stdout
    assert "not run" in page.stdout
    read = json.loads(fluoroscope("study", "claims", "out", "--format", "json", "--paper", "P4", cwd=tmp_path).stdout)
    assert {claim["paper"] for claim in read["claims"]} == {"P4"}
    kept = fluoroscope("study", "claims", "out", "--tables", "--keep", "kept", cwd=tmp_path).stdout
    assert "Made by `fluoroscope study claims kept --tables`" in kept
    assert "| number | square | square, paper |" in kept
    assert (tmp_path / "kept/t/counting.json").exists()


def test_a_real_study_on_other_data(tmp_path, monkeypatch):
    """The smallest of them: two cells of P4 with two images and three iterations."""
    from dataclasses import replace

    whole = STUDIES.get("p4/fig-2")
    cells = [replace(cell, images=2, iterations=3) for cell in whole.cells["small"][1:2]]
    monkeypatch.setitem(STUDIES._parts, "p4/fig-2", replace(whole, cells={"small": cells, "paper": cells}))
    told = ["study", "run", "p4/fig-2", "--size", "paper", "--data", "phantom/brain", "--json", "--out", "out"]
    done = fluoroscope(*told, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["rows"]
    asked = {"images", "model", "init", "distance", "lr", "lambda2", "mse", "ssim", "non_converging", "seconds"}
    assert asked | {"curves", "paper"} <= set(row)
    assert row["data"] == "phantom/brain"
    assert row["curves"]["iteration"] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "p4/tabel-2"], "did you mean 'p4/table-2'"),
        (["run", "p4/table-2", "--size", "huge"], "small or paper"),
        (["run", "p4/table-2", "--data", "phantom/ches"], "did you mean 'phantom/chest'"),
        (["run", "p4/table-2", "--engine", "rey"], "local:WORKERS, ray or ray:ADDRESS, not 'rey'"),
        (["run", "p4/table-2", "--engine", "ray", "--workers", "2"], "--workers 2 is for --engine local"),
        (["run", "p4/table-2", "--workers", "0"], "--workers"),
        (["run"], "or give --all"),
        (["run", "p4/table-2", "--all"], "or give --all"),
        (["run", "p4/table-4", "--data", "folder:a", "--data", "MNIST=folder:b"], "name the data set of each"),
        (["run", "p4/table-4", "--sets", "none.toml"], "is no TOML file"),
        (["claims", "nowhere"], "there is no folder 'nowhere'"),
        (["claims", ".", "--format", "html"], "md or json"),
        (["claims", ".", "--paper", "P5"], "P1, P2, P3 or P4"),
    ],
)
def test_wrong_input_is_one_sentence_and_exit_code_2(arguments, message, tmp_path):
    done = fluoroscope("study", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_help_teaches_with_examples(tmp_path):
    for command in ("list", "run", "claims"):
        assert "Example" in fluoroscope("study", command, "--help", cwd=tmp_path).stdout
