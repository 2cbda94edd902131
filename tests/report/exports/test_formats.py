"""What pipelines and committees are given: valid, complete, and no more than the findings say."""

import json
from datetime import date

import jsonschema
import pytest
import yaml

from fluoroscope.findings import read_findings
from fluoroscope.report.accepted import Acceptance
from fluoroscope.report.exports.brief import brief
from fluoroscope.report.exports.formats import FORMATS
from fluoroscope.report.risks import risks
from fluoroscope.report.rules import RISK_RULES
from tests.report.audits import DEFENCES
from tests.report.exports.standards import check_junit, check_sarif
from tests.report.test_risks import changed

TODAY = date(2026, 5, 1)


def accepted(risk, **how):
    said = {"id": risk.id, "level": risk.level, "owner": "privacy office", "reason": "until | June <b>"}
    return Acceptance(**{**said, "expires": date(2026, 6, 30), **how})


def written(audit, name, setting=None, acceptances=(), without_names=False):
    how = FORMATS[name]
    return how.write(brief(audit, setting, acceptances, TODAY, without_names or how.public))


@pytest.fixture
def found(audit):
    return read_findings(audit)


def of(found, rule, setting):
    return next(risk for risk in risks(found) if (risk.rule.id, risk.defence) == (rule, setting))


@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("setting", DEFENCES)
def test_sarif_is_valid_and_declares_every_rule(found, setting, bare):
    document = json.loads(written(found, "sarif", setting, without_names=bare))
    check_sarif(document)
    (run,) = document["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == [rule.id for rule in RISK_RULES]
    assert [each["partialFingerprints"]["fluoroscopeFinding/v1"] for each in run["results"]] == [
        risk.id for risk in risks(found) if risk.defence == setting
    ]


def test_the_check_of_sarif_can_fail(found):
    document = json.loads(written(found, "sarif"))
    document["runs"][0]["results"][0]["level"] = "error"  # of a result that passes
    with pytest.raises(jsonschema.ValidationError):
        check_sarif(document)
    document = json.loads(written(found, "sarif"))
    del document["runs"][0]["tool"]["driver"]["rules"][0]
    with pytest.raises((AssertionError, IndexError)):
        check_sarif(document)


def test_levels_in_sarif_are_those_of_the_gate(found):
    (run,) = json.loads(written(found, "sarif", "clip-and-noise 0.5"))["runs"]
    said = {each["properties"]["id"]: (each["kind"], each["level"]) for each in run["results"]}
    words = {"holds": ("pass", "none"), "leaks": ("fail", "error")}
    for risk in risks(found):
        if risk.defence == "clip-and-noise 0.5":
            assert said[risk.id] == words.get(risk.level, ("fail", "warning"))


def test_a_result_points_at_the_line_of_its_cell(found):
    (run,) = json.loads(written(found, "sarif", "none"))["runs"]
    result = run["results"][0]
    line = result["locations"][0]["physicalLocation"]["region"]["startLine"]
    assert '"reconstruction-0-north-1"' in (found.folder / "findings.json").read_text().splitlines()[line - 1]


def test_acceptances_in_sarif_and_junit(found):
    risk = of(found, "reconstruction", "clip-and-noise 0.5")
    acceptances = [accepted(risk), accepted(risk, id="source-00000000")]
    document = json.loads(written(found, "sarif", risk.defence, acceptances))
    check_sarif(document)
    (run,) = document["runs"]
    (one,) = [each for each in run["results"] if each["suppressions"]]
    assert one["properties"]["id"] == risk.id
    assert one["suppressions"][0]["properties"] == {"owner": "privacy office", "expires": "2026-06-30"}
    (told,) = run["invocations"][0]["toolConfigurationNotifications"]
    assert "source-00000000" in told["message"]["text"]
    root = check_junit(written(found, "junit", risk.defence, acceptances))
    (skipped,) = root.iter("skipped")
    assert "privacy office until 2026-06-30" in skipped.get("message")
    assert "source-00000000" in root.find("testsuite/system-err").text


@pytest.mark.parametrize("setting", DEFENCES)
def test_junit_is_valid_and_fails_where_the_gate_does(found, setting):
    root = check_junit(written(found, "junit", setting))
    cases = {case.get("name").rpartition("[")[2].rstrip("]"): case for case in root.iter("testcase")}
    for risk in risks(found):
        if risk.defence == setting:
            outcome = {"holds": None, "not tested": "error"}.get(risk.level, "failure")
            assert [child.tag for child in cases[risk.id]] == ([outcome] if outcome else [])


def test_junit_holds_whatever_a_reason_says(audit, tmp_path):
    def odd(document):
        document["verdicts"][0]["levels"][0]["kinds"][0]["why"] = {"text": "a\x00b\x1b<c>& ]]>", "numbers": []}

    root = check_junit(written(changed(audit, tmp_path, odd), "junit", "none"))
    assert next(root.iter("failure")).get("message") == "ab<c>& ]]>"


def test_json_has_every_finding_and_every_control(found):
    risk = of(found, "reconstruction", "none")
    document = json.loads(written(found, "json", "none", [accepted(risk)]))
    assert [each["id"] for each in document["findings"]] == [each.id for each in risks(found)]
    assert document["findings"][0]["accepted"]["owner"] == "privacy office"
    assert risk.id not in document["open"]
    assert {each["status"] for each in document["controls"]} <= {"met", "not met", "not tested"}


@pytest.mark.parametrize("name", ["md", "dpia"])
def test_tables_in_markdown_are_whole(found, name):
    """A hospital or a reason with a | or a < cannot break a row."""
    text = written(found, name, "none", [accepted(of(found, "reconstruction", "none"))])
    width = None
    for line in text.splitlines():
        if not line.startswith("|"):
            width = None
            continue
        cells = line.replace("\\|", "").count("|")
        assert width in (None, cells), line
        width = cells
    assert "until \\| June &lt;b>" in text
    for risk in risks(found):
        assert (risk.id in text) == (name == "md" or risk.defence == "none")


def test_the_annex_leaves_to_the_controller_what_is_theirs(found):
    text = written(found, "dpia")
    assert all(f"35(7)({letter})" in text for letter in "abcd")
    assert "To be written by the controller" in text
    assert "Sees each client's update by itself." in text


@pytest.mark.parametrize("setting", DEFENCES)
def test_a_leak_card_has_twelve_lines_of_yaml_and_markdown(found, setting):
    text = written(found, "card", setting)
    assert len(text.splitlines()) == 12
    _, head, body = text.split("---\n")
    card = yaml.safe_load(head)
    label = setting if setting == "none" else f"setting {list(DEFENCES).index(setting)}"
    assert card["setting"] == label
    assert card["found"]["reconstruction"] == of(found, "reconstruction", setting).level
    assert card["privacy"]["epsilon"] == (8.0 if "dp-sgd" in setting else None)
    assert body.startswith("## What this model's training leaks\n")
    assert not any(name in text for name in ("north", "south", "west"))


@pytest.mark.parametrize("name", FORMATS)
def test_the_same_findings_give_the_same_bytes(found, name):
    assert written(found, name) == written(found, name)


@pytest.mark.parametrize("name", FORMATS)
def test_no_export_claims_that_data_are_anonymous(found, name):
    """The tale itself lists the sentence as one that is not safe; nothing else says the word."""
    text = written(found, name).lower()
    assert text.count("anonym") == (1 if name in ("md", "dpia") else 0)
    assert "anonym" not in written(found, name, without_names=True).lower()
