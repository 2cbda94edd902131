"""The catalogue of scores: complete, in one place, and asked by everyone who judges."""

import ast
import json
from dataclasses import replace
from pathlib import Path

import pytest

from fluoroscope.audit import scored
from fluoroscope.audit.scored import Measured, scores_of
from fluoroscope.errors import Misconfigured
from fluoroscope.findings import Finding, Findings, Score, read_findings
from fluoroscope.findings import metrics as catalogue
from fluoroscope.findings.metrics import KINDS, LEAKS, METRICS, declared, metric, metric_of
from fluoroscope.report.comparison import Change, Side, compare
from fluoroscope.report.gate import Limit, judge
from fluoroscope.report.view import leakiest
from fluoroscope.scores.intervals import Interval


@pytest.fixture
def turned(monkeypatch):
    """A catalogue in which less of every leak is worse."""
    flipped = [each if each.higher_is_leakier is None else replace(each, higher_is_leakier=False) for each in METRICS]
    monkeypatch.setattr(catalogue, "METRICS", flipped)


def test_a_name_has_one_metric_in_cells_of_one_kind():
    pairs = [(each.name, kind) for each in METRICS for kind in each.kinds]
    assert len(set(pairs)) == len(pairs)
    assert {kind for _, kind in pairs} <= set(KINDS)


@pytest.mark.parametrize("each", METRICS, ids=lambda each: f"{each.name}-{each.kinds[0]}")
def test_every_metric_says_what_it_is(each):
    assert each.label
    assert each.meaning
    assert format(0.5, each.format)


def test_what_is_compared_between_defences_is_a_leak():
    for kind, names in LEAKS.items():
        for name in names:
            assert all(each.higher_is_leakier for each in declared(name, kind)), (kind, name)


def test_one_name_may_mean_two_things():
    assert metric("auc", "federation").higher_is_leakier is None
    assert metric("auc", "client-inference").higher_is_leakier is True
    assert metric("accuracy", "source").meaning != metric("accuracy", "federation").meaning


def test_an_unknown_metric_is_called_by_its_name_and_keeps_the_file_s_direction():
    score = Score(value=1.0, higher_is_leakier=False)
    assert metric("calibration_error").title == "Calibration error"
    assert metric_of("source", "calibration_error", score).leak(1.0) == -1.0
    assert metric_of("reconstruction", "rdlv", Score(value=1.0)).higher_is_leakier is True


def test_a_cell_cannot_write_what_is_not_declared():
    with pytest.raises(LookupError, match=r"'rdvl' of reconstruction .* findings/metrics.py"):
        scores_of("reconstruction", rdvl=0.1)
    with pytest.raises(LookupError, match="'rdlv' of guard"):
        scores_of("guard", rdlv=0.1)


def test_no_cell_makes_a_score_of_its_own():
    """Every score of an audit comes from `scores_of`, which takes the direction from the catalogue."""
    for path in Path(scored.__file__).parent.glob("*.py"):
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        made = [each for each in calls if isinstance(each.func, ast.Name) and each.func.id == "Score" and each.keywords]
        said = {word.arg for each in made for word in each.keywords}
        assert "higher_is_leakier" not in said or path.name == "scored.py", path.name


def test_a_score_holds_what_was_measured():
    found = scores_of("reconstruction", rdlv=Interval(0.2, 0.1, float("nan"), 8), recognised=Measured(3, 8), images=8)
    assert found["rdlv"] == Score(value=0.2, low=0.1, high=None, n=8, chance=None, higher_is_leakier=True)
    assert found["recognised"] == Score(value=3.0, n=8, higher_is_leakier=True)
    assert found["images"].higher_is_leakier is None
    written = Finding(scores=found, attacked="stand-ins").model_dump(mode="json", exclude_unset=True)
    assert list(written["scores"]["images"]) == ["value", "low", "high", "n", "chance", "higher_is_leakier"]
    assert Finding.model_validate(written) == Finding(scores=found, attacked="stand-ins")


# --- who asks the catalogue; the verdicts' own test is in tests/audit/test_verdicts.py ------------------------------


def change(name, before, after, kind="reconstruction"):
    return Change({"kind": kind}, name, *(Side(Score(value=value), "") for value in (before, after)))


def test_compare_asks_the_metric(audit):
    assert change("rdlv", 0.1, 0.2).leaks_more is True
    assert change("rdlv", 0.2, 0.1).leaks_more is False
    assert change("rdlv", 0.2, 0.2).leaks_more is None
    assert change("refused", 5, 3, "guard").leaks_more is True
    assert change("accuracy", 0.8, 0.9, "federation").leaks_more is None
    assert change("accuracy", 0.8, 0.9, "source").leaks_more is True
    found = read_findings(audit)
    assert {each.leaks_more for each in compare(found, found).changes} == {None}


def test_compare_follows_the_metric(turned):
    assert change("rdlv", 0.1, 0.2).leaks_more is False


def test_the_gate_asks_the_metric():
    assert Limit("auc", 0.6).measured_by == ("client-inference", "membership", "source")
    assert Limit("rate", 0).measured_by == ("crafted-model", "guard")
    assert Limit("accuracy", 0.8, at_least=True).measured_by == ("federation",)


def test_the_gate_refuses_a_limit_on_the_wrong_side(audit):
    with pytest.raises(Misconfigured, match="'rdlv' of which less is worse"):
        judge(read_findings(audit), [Limit("rdlv", 0, at_least=True)])
    with pytest.raises(Misconfigured, match="'refused' of which more is worse"):
        judge(read_findings(audit), [Limit("refused", 0)])


def test_the_gate_follows_the_metric(audit, monkeypatch):
    found = read_findings(audit)
    monkeypatch.setattr(catalogue, "METRICS", [replace(metric("rdlv"), higher_is_leakier=False)])
    with pytest.raises(Misconfigured, match="'rdlv' of which more is worse"):
        judge(found, [Limit("rdlv", 0)])


def test_the_page_follows_the_metric(audit, turned):
    cells = [(i, cell) for i, cell in enumerate(read_unchecked(audit)) if cell.kind == "reconstruction"]
    least = min(cell.scores["rdlv"].value for _, cell in cells if "rdlv" in cell.scores)
    assert leakiest(cells, "rdlv")[1].value == least


def read_unchecked(folder):
    """The cells of a file whose directions the turned catalogue would contradict."""
    return Findings.model_validate(json.loads((folder / "findings.json").read_text())).cells
