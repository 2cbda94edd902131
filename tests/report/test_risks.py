"""Findings with ids: the same from run to run, whatever is added and whatever comes out."""

import json
import re

import pytest

from fluoroscope.findings import read_findings
from fluoroscope.report.risks import risks
from fluoroscope.report.rules import RISK_RULES, rule_of
from tests.report.audits import as_format_1, make_audit, score


def changed(audit, folder, change):
    document = json.loads((audit / "findings.json").read_text())
    change(document)
    (folder / "findings.json").write_text(json.dumps(document))
    return read_findings(folder)


def by_setting(audit):
    return {(risk.rule.id, risk.threat, risk.defence): risk for risk in risks(audit)}


def claim_cell(defence, said=8.0, proved=1.0, status="done"):
    scores = {"epsilon": score(said, 0, leaky=None), "epsilon_lower": score(proved, 0)} if status == "done" else {}
    cell = {"id": f"claim-{defence}", "kind": "claim", "threat": None, "defence": defence, "settings": {}}
    return {**cell, "status": status, "scores": scores}


def test_a_finding_per_kind_of_attack_and_setting(audit):
    found = risks(read_findings(audit))
    assert len({risk.id for risk in found}) == len(found) == 4 * 5
    assert all(re.fullmatch(r"[a-z-]+-[0-9a-f]{8}", risk.id) for risk in found)


def test_ids_stay_between_runs_with_other_results_and_more_cells(audit, tmp_path):
    before = by_setting(read_findings(audit))
    weaker = make_audit(tmp_path, stopped=0.2)
    document = json.loads((weaker / "findings.json").read_text())
    document["seed"] = 8
    document["cells"].append({**document["cells"][1], "id": "one more"})
    for verdict in document["verdicts"]:
        for level in verdict["levels"]:
            level["level"] = "leaks"
            for kind in level["kinds"]:
                kind["level"] = "leaks"
    (weaker / "findings.json").write_text(json.dumps(document))
    after = by_setting(read_findings(weaker))
    assert {key: risk.id for key, risk in before.items()} == {key: risk.id for key, risk in after.items()}
    assert {risk.level for risk in after.values()} == {"leaks"}


def test_another_strength_of_a_defence_is_another_finding(audit, tmp_path):
    def stronger(document):
        document["defences"][1]["parts"] = [{"name": "percentile-gaussian", "sigma": 0.05}]

    before, after = by_setting(read_findings(audit)), by_setting(changed(audit, tmp_path, stronger))
    moved = {key[2] for key in before if before[key].id != after[key].id}
    assert moved == {"percentile-gaussian 0.05"}


def test_where_a_checkout_lies_is_no_part_of_an_id(audit, tmp_path):
    ids = []
    for folder in ("/home/anna/work", "/srv"):

        def placed(document, folder=folder):
            document["defences"][1]["parts"] = [{"name": "own", "file": f"{folder}/defence.py"}]

        ids.append([risk.id for risk in risks(changed(audit, tmp_path, placed))])
    assert ids[0] == ids[1]


def test_the_severity_is_the_rules_where_it_leaks(audit):
    found = by_setting(read_findings(audit))
    assert found["reconstruction", "curious-server", "none"].severity == "critical"
    assert found["reconstruction", "curious-server", "clip-and-noise 0.5"].severity == "unknown"
    assert found["reconstruction", "curious-server", "dp-sgd ε=8"].severity == "none"
    assert found["attacker", "outsider", "none"].severity == "unknown"


@pytest.mark.parametrize(
    ("proved", "status", "level"),
    [(1.0, "done", "holds"), (9.0, "done", "leaks"), (None, "left out", "not tested")],
)
def test_a_claim_is_a_finding_where_canaries_were_planned(audit, tmp_path, proved, status, level):
    read = changed(audit, tmp_path, lambda d: d["cells"].append(claim_cell("dp-sgd ε=8", 8.0, proved, status)))
    found = by_setting(read)["claim", "claim", "dp-sgd ε=8"]
    assert found.level == level
    assert found.cell == "claim-dp-sgd ε=8"
    if level == "leaks":
        assert "at least 9" in found.why
        assert "does not do what it says" in found.why


def test_older_files_say_one_thing_per_attacker(audit, tmp_path):
    document = as_format_1(json.loads((audit / "findings.json").read_text()))
    (tmp_path / "findings.json").write_text(json.dumps(document))
    found = risks(read_findings(tmp_path))
    assert {(risk.rule.id, risk.level) for risk in found} == {("attacker", "not tested")}
    assert all("run it again" in risk.why for risk in found)


def test_every_rule_says_what_to_do():
    assert len({rule.id for rule in RISK_RULES}) == len(RISK_RULES)
    assert all(rule.remedy.endswith(".") and rule.asks.endswith(".") for rule in RISK_RULES)
    assert rule_of("guard").id == "attacker"
