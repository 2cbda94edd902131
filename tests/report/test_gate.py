"""The gate: every threat must hold, and every limit be kept."""

import json

import pytest

from fluoroscope.errors import Misconfigured
from fluoroscope.findings import read_findings
from fluoroscope.report.gate import Limit, judge
from tests.report.audits import as_format_1

RECOMMENDED = "dp-sgd ε=8"


def levels(judged):
    return {each.threat: (each.level, each.passed) for each in judged.levels}


def test_without_a_limit_the_levels_are_judged(audit):
    found = judge(read_findings(audit), [])
    assert (found.defence, found.passed) == (RECOMMENDED, True)
    assert set(levels(found).values()) == {("holds", True)}


@pytest.mark.parametrize(
    ("allow", "broken"),
    [
        ([], {"curious-server", "malicious-server", "outsider"}),
        (["unclear"], {"outsider"}),
        (["not-tested"], {"curious-server", "malicious-server"}),
        (["not tested", "unclear"], set()),
        (["curious-server=unclear"], {"malicious-server", "outsider"}),
        (["curious-server=unclear", "malicious-server=unclear", "outsider=not-tested"], set()),
        (["leaks"], {"curious-server", "malicious-server", "outsider"}),
    ],
)
def test_nothing_but_holds_passes_unless_it_is_allowed_by_name(audit, allow, broken):
    found = judge(read_findings(audit), [], "clip-and-noise 0.5", allow)
    assert {threat for threat, (_, passed) in levels(found).items() if not passed} == broken
    assert found.passed == (not broken)


def test_a_leak_breaks_it(audit):
    found = judge(read_findings(audit), [], "none", ["unclear", "not-tested"])
    assert levels(found)["curious-server"] == ("leaks", False)
    assert judge(read_findings(audit), [], "none", ["unclear", "not-tested", "leaks"]).passed


@pytest.mark.parametrize("allow", ["holds", "fine", "ghost=unclear", "curious-server=", ""])
def test_what_cannot_be_allowed(audit, allow):
    with pytest.raises(Misconfigured, match="names no level: it takes unclear, not-tested, leaks"):
        judge(read_findings(audit), [], None, [allow])


def test_the_new_limits(audit):
    found = judge(read_findings(audit), [Limit("leak", 0.02), Limit("told_apart", 0.25)])
    by = {}
    for each in found.limits:
        by.setdefault(each.limit.metric, []).append(each)
    assert all(each.passed for each in by["leak"] if each.missing is None)
    assert {each.end for each in by["told_apart"] if each.missing is None} == {"high"}
    assert not judge(read_findings(audit), [Limit("told_apart", 0.2)]).passed


def test_an_attack_that_gave_up_breaks_a_limit(audit):
    found = judge(read_findings(audit), [Limit("rdlv", 9.0)], "none", ["leaks", "unclear", "not-tested"])
    assert not found.passed
    (missing,) = [each.missing for each in found.limits if not each.passed]
    assert missing == "span-south gave up: the update has no step that span can read"


def test_findings_of_format_1_are_not_known_to_hold(audit, tmp_path):
    document = as_format_1(json.loads((audit / "findings.json").read_text()))
    (tmp_path / "findings.json").write_text(json.dumps(document))
    found = judge(read_findings(tmp_path), [Limit("rdlv", 1.0)])
    assert {each.level for each in found.levels} == {"not tested"}
    assert all("run it again" in each.missing for each in found.levels)
    assert not found.passed
