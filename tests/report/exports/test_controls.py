"""Controls: computed from findings, so that another finding is another status."""

import pytest

from fluoroscope.findings import read_findings
from fluoroscope.report.exports.brief import brief
from fluoroscope.report.exports.controls import CONTROLS, judged_controls
from fluoroscope.report.risks import risks
from tests.report.audits import score
from tests.report.test_risks import changed, claim_cell

DP, NOISE = "dp-sgd ε=8", "clip-and-noise 0.5"


def statuses(audit, setting):
    return {
        (each.control.framework.split()[0], each.control.reference): each.outcome
        for each in judged_controls(brief(audit, setting))
    }


def test_a_setting_without_a_claim_meets_no_control_about_epsilon(audit):
    found = statuses(read_findings(audit), NOISE)
    for key in (("OWASP", "12.3.1"), ("OWASP", "12.6.1"), ("OWASP", "12.6.4"), ("NIST", "unit of privacy")):
        assert found[key].status == "not met", key
        assert found[key].rests_on
    for key in (("OWASP", "12.3.2"), ("OWASP", "12.6.2"), ("OWASP", "12.6.3"), ("NIST", "hazards")):
        assert found[key].status == "not tested", key


@pytest.mark.parametrize(("proved", "status"), [(1.0, "met"), (9.0, "not met"), (None, "not tested")])
def test_canaries_decide_about_a_claim(audit, tmp_path, proved, status):
    def claimed(document):
        document["cells"].append(claim_cell(DP, 8.0, proved, "done" if proved else "failed"))
        document["defences"][3]["claim"] |= {"relation": "replace-one", "trust": "local"}

    read = changed(audit, tmp_path, claimed)
    found = statuses(read, DP)
    (claim,) = [risk.id for risk in risks(read) if risk.threat == "claim"]
    assert found["OWASP", "12.3.2"].status == found["NIST", "hazards"].status == status
    assert found["OWASP", "12.3.2"].rests_on == (claim,)
    assert found["OWASP", "12.6.3"].status == ("met" if proved else "not tested")
    # An epsilon that canaries refute counts for nothing.
    asked = [
        ("OWASP", "12.6.1"),
        ("NIST", "unit of privacy"),
        ("NIST", "neighbouring relation"),
        ("NIST", "trust model"),
    ]
    assert {found[key].status for key in asked} == {"not met" if proved == 9.0 else "met"}
    assert found["OWASP", "12.3.1"].status == status


def test_an_epsilon_without_its_relation_is_not_enough(audit):
    found = statuses(read_findings(audit), DP)
    assert found["NIST", "unit of privacy"].status == "met"
    assert found["NIST", "neighbouring relation"].status == "not met"


@pytest.mark.parametrize(("visible", "status"), [(4.0, "not met"), (0.0, "met"), (None, "not tested")])
def test_metrics_in_the_clear(audit, tmp_path, visible, status):
    def told(document):
        if visible is not None:
            cell = {"id": "metrics", "kind": "metrics", "threat": "curious-server", "defence": DP, "settings": {}}
            document["cells"].append({**cell, "status": "done", "scores": {"visible": score(visible, 0)}})

    assert statuses(changed(audit, tmp_path, told), DP)["OWASP", "12.6.2"].status == status


@pytest.mark.parametrize(
    ("levels", "status"),
    [
        (("holds", "holds", "holds"), "met"),
        (("leaks", "holds", "holds"), "not met"),
        (("holds", "unclear", "holds"), "not met"),
        (("holds", "holds", "not tested"), "not tested"),
        (("leaks", "holds", "not tested"), "not met"),
    ],
)
def test_extraction_must_be_shown_to_fail(audit, tmp_path, levels, status):
    def set_to(document):
        kinds = dict(zip(("reconstruction", "crafted-model", "membership"), levels, strict=True))
        document["verdicts"] = document["verdicts"][:3]
        for verdict in document["verdicts"]:
            for kind in verdict["levels"][3]["kinds"]:
                kind["level"] = kinds.get(kind["kind"], "holds")

    read = changed(audit, tmp_path, set_to)
    found = statuses(read, DP)["EDPB", "extraction"]
    assert found.status == status
    ids = {risk.rule.id: risk.id for risk in risks(read) if risk.defence == DP}
    assert set(found.rests_on) == {ids[kind] for kind in ("reconstruction", "crafted-model", "membership")}


def test_an_attack_without_a_result_is_no_adversarial_test(audit, tmp_path):
    def lost(document):
        document["verdicts"] = document["verdicts"][:3]
        document["verdicts"][0]["levels"][3]["kinds"][0]["level"] = "not tested"

    assert statuses(read_findings(audit), NOISE)["ISO/IEC", "8.2.3"].status == "not met"  # the outsider
    assert statuses(changed(audit, tmp_path, lost), DP)["ISO/IEC", "8.2.3"].status == "not met"


def test_a_threat_model_that_is_not_written_down(audit, tmp_path):
    def silent(document):
        document["threats"][0]["assumed"] = []

    assert statuses(read_findings(audit), DP)["ISO/IEC", "6.2"].status == "met"
    assert statuses(changed(audit, tmp_path, silent), DP)["ISO/IEC", "6.2"].status == "not met"


def test_what_is_met_rests_on_something(audit):
    read = read_findings(audit)
    known = {risk.id for risk in risks(read)} | {cell.id for cell in read.findings.cells}
    for setting in (DP, NOISE, "none"):
        for key, outcome in statuses(read, setting).items():
            assert outcome.rests_on or outcome.status != "met", key
            assert set(outcome.rests_on) <= known


def test_the_list_is_whole():
    assert [(each.framework, each.reference) for each in CONTROLS if "AISVS" in each.framework] == [
        ("OWASP AISVS C12", number) for number in ("12.3.1", "12.3.2", "12.6.1", "12.6.2", "12.6.3", "12.6.4")
    ]
    assert {each.framework for each in CONTROLS} == {
        "OWASP AISVS C12", "NIST SP 800-226", "ISO/IEC 27559", "EDPB Opinion 28/2024", "SATRE v2",
    }  # fmt: skip
