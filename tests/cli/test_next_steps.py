"""What an audit ends with: commands that fit what was found."""

from pathlib import Path

import pytest

from fluoroscope.cli.next_steps import next_steps
from fluoroscope.findings import read_findings
from tests.report.audits import make_audit

PLAN = Path("plan.toml")


@pytest.fixture(scope="module")
def audit(tmp_path_factory):
    return read_findings(make_audit(tmp_path_factory.mktemp("audit")))


def changed(audit, defence="dp-sgd ε=8", statuses=None, **levels):
    """The audit with other levels, statuses and another recommendation."""
    findings = audit.findings
    verdicts = [
        v.model_copy(update={"level": levels.get(v.threat.replace("-", "_"), "holds")}) for v in findings.verdicts
    ]
    cells = [
        cell.model_copy(update={"status": status})
        for cell, status in zip(findings.cells, [*(statuses or []), *["done"] * len(findings.cells)], strict=False)
    ]
    advice = findings.recommendation.model_copy(update={"defence": defence})
    update = {"verdicts": tuple(verdicts), "cells": tuple(cells), "recommendation": advice}
    return type(audit)(audit.folder, findings.model_copy(update=update), audit.document, audit.timing)


def steps(audit, plan=PLAN):
    return next_steps(audit, Path("runs/mine"), "fluoroscope audit plan.toml", plan)


def test_what_did_not_fit_comes_first_with_twice_the_time(audit):
    first, second, *_ = steps(changed(audit, statuses=["left out", "left out", "failed"]))
    assert first.startswith("fluoroscope audit plan.toml --budget 20   # 2 cells did not fit")
    assert "1 cell failed" in second


def test_a_recommended_setting_is_tried_and_compared(audit):
    first, last = steps(changed(audit, curious_server="leaks"))
    assert "“dp-sgd ε=8” from [[audit.compare]] to [[defence]] in plan.toml" in first
    assert "fluoroscope compare runs/mine runs/mine-defended" in first
    assert last.startswith("fluoroscope serve runs ")


def test_where_nothing_helps_noise_is_calibrated(audit):
    assert steps(changed(audit, None, curious_server="leaks"))[0].startswith(
        "fluoroscope calibrate plan.toml --defence"
    )
    assert not [step for step in steps(changed(audit, None, malicious_server="leaks")) if "calibrate" in step]
    assert not [step for step in steps(changed(audit, None, curious_server="leaks"), plan=None) if "plan.toml" in step]


def test_what_holds_goes_to_a_gate_and_what_is_unclear_needs_more(audit):
    assert steps(changed(audit)) == [
        "fluoroscope gate runs/mine   # for a pipeline: exit code 4 as soon as a threat does not hold any more"
    ]
    assert "raise victims" in steps(changed(audit, curious_client="unclear"))[0]
