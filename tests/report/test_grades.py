"""Grades: what is not tested has none, what is unclear is no A, and the worst cell decides."""

import json
from itertools import pairwise, product

import pytest

from fluoroscope.findings import Cell, read_findings
from fluoroscope.report.grades import FEW, GRADES, LEAKS, MANY, gained, gains, grade_of, graded, graded_today, worst
from fluoroscope.report.rules import RISK_RULES
from tests.report.audits import make_audit


def cell(kind, **scores):
    return Cell(id="c", kind=kind, defence="none", status="done", scores=scores)


@pytest.mark.parametrize("severity", ["critical", "high", "medium", "low", "unknown"])
def test_more_is_never_graded_better(severity):
    leaks = [GRADES.index(grade_of("leaks", severity, gain)) for gain in (0.0, FEW, FEW + 0.01, MANY, MANY + 0.01, 1.0)]
    unclear = [GRADES.index(grade_of("unclear", severity, gain)) for gain in (0.0, FEW, FEW + 0.01, 1.0)]
    assert all(a <= b for a, b in [*pairwise(leaks), *pairwise(unclear)])
    assert min(leaks) >= GRADES.index("C")


@pytest.mark.parametrize(("level", "gain"), list(product(["unclear", "leaks"], [0.0, 0.1, 0.4, 1.0, None])))
def test_only_what_holds_is_an_a(level, gain):
    assert all(grade_of(level, severity, gain) not in ("A", "?") for severity in LEAKS)
    assert grade_of("holds", "critical", gain) == "A"
    assert grade_of("not tested", "critical", gain) == "?"


def test_one_patients_image_is_never_a_small_leak():
    assert grade_of("leaks", "critical", 0.001) == "D"
    assert {rule.severity for rule in RISK_RULES} <= set(LEAKS), "every rule has its row"


def test_the_worst_counts_and_what_was_not_tested_takes_the_a():
    assert worst(["A", "E", "C"]) == "E"
    assert worst(["A", "?"]) == "B"
    assert worst(["?", "?"]) == worst([]) == "?"
    assert worst(["?", "D"]) == "D"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (cell("reconstruction", told_apart={"value": 1.0, "chance": 0.125}), 1.0),
        (cell("reconstruction", told_apart={"value": 0.125, "chance": 0.125}), 0.0),
        (cell("reconstruction", told_apart={"value": 0.05, "chance": 0.125}), 0.0),
        # one sure guess of 8 patients is an eighth of them
        (cell("reconstruction", told_apart={"value": 1, "chance": 0}, found={"value": 1}, images={"value": 8}), 1 / 8),
        (cell("membership", auc={"value": 0.75, "chance": 0.5}), 0.5),
        (cell("source", accuracy={"value": 0.5, "chance": 0.25}), 1 / 3),
        (cell("label-counts", gain={"value": 0.1}, error_public={"value": 0.4}), 0.25),
        (cell("crafted-model", rate={"value": 0.9}), 0.9),
        (cell("metrics", visible={"value": 8}), None),
        (cell("membership", auc={"value": None}), None),
    ],
)  # fmt: skip
def test_a_gain_is_a_share_of_what_there_was_beyond_guessing(found, expected):
    assert gained(found) == (None if expected is None else pytest.approx(expected))


def test_what_is_unclear_is_judged_by_the_worse_end(audit):
    wide = cell("membership", auc={"value": 0.5, "low": 0.3, "high": 0.9, "chance": 0.5})
    assert gained(wide) == 0.0
    assert gained(wide, worse_end=True) == pytest.approx(0.8)


def test_an_audits_grades(audit):
    findings = read_findings(audit).findings
    table = {
        verdict.threat: [graded(findings, verdict, defence.label).grade for defence in findings.defences]
        for verdict in findings.verdicts
    }
    assert table["curious-server"] == ["E", "E", "C", "A"]
    assert table["curious-client"] == ["A"] * 4
    assert table["outsider"] == ["?"] * 4


def test_the_guard_is_counted_in_only_where_it_stands(tmp_path):
    """Today nobody inspects models; under every setting the findings count the guard in."""
    make_audit(tmp_path)
    document = json.loads((tmp_path / "findings.json").read_text())
    document["verdicts"][1] |= {"level": "leaks", "stopped_by": "guard"}
    for each in document["verdicts"][1]["levels"]:
        each["level"] = each["kinds"][0]["level"] = "holds"
    (tmp_path / "findings.json").write_text(json.dumps(document))
    findings = read_findings(tmp_path).findings
    assert graded_today(findings, findings.verdicts[1], "none").grade == "E"
    assert graded(findings, findings.verdicts[1], "none").grade == "A"
    assert gains(findings, "none")["crafted-model"] == pytest.approx(0.91)


def test_what_is_not_shown_to_leak_gained_nothing(audit):
    findings = read_findings(audit).findings
    assert gains(findings, "clip-and-noise 0.5")["reconstruction"] == 0.0
    assert gains(findings, "none")["reconstruction"] > 0.5
