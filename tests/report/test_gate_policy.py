"""Findings frozen as limits: the audit itself just keeps them, and nothing worse does."""

import json

import pytest

from fluoroscope.errors import Misconfigured
from fluoroscope.findings import read_findings
from fluoroscope.report.gate import judge
from fluoroscope.report.gate_policy import frozen, policy_text, read_gate_policy
from tests.report.audits import DEFENCES, make_audit
from tests.report.test_risks import changed, claim_cell


def held(audit, policy):
    return judge(audit, policy.limits, policy.defence, policy.allow, may_lack=policy.may_lack)


def on_disk(policy, folder):
    (folder / "gate.toml").write_text(policy_text(policy), encoding="utf-8")
    return read_gate_policy(folder / "gate.toml")


@pytest.mark.parametrize("label", DEFENCES)
def test_an_audit_keeps_its_own_policy(audit, tmp_path, label):
    found = read_findings(audit)
    policy = frozen(found, label)
    assert on_disk(policy, tmp_path) == policy
    assert held(found, policy).passed
    assert {limit.kind for limit in policy.limits} >= {"reconstruction", "client-inference", "membership", "federation"}


def test_each_limit_is_the_worst_that_was_found(audit):
    found = read_findings(audit)
    worst = max(
        cell.scores["leak"].high for cell in found.findings.cells if cell.defence == "none" and "leak" in cell.scores
    )
    assert frozen(found, "none").most["reconstruction"]["leak"] == worst


def test_a_weaker_audit_breaks_it(audit, tmp_path):
    policy = frozen(read_findings(audit), "percentile-gaussian 0.05")
    judged = held(read_findings(make_audit(tmp_path, stopped=0.6)), policy)
    assert not judged.passed
    assert {each.limit.metric for each in judged.limits if not each.passed} >= {"leak", "auc", "rdlv"}


def test_a_tighter_policy_per_kind_is_not_hidden_by_another_kind(audit, tmp_path):
    """AUC of membership may not grow to what client inference has."""

    def members(document):
        cell = next(c for c in document["cells"] if c["id"] == "membership-0")
        cell["scores"]["auc"] |= {"value": 0.85, "low": 0.8, "high": 0.9}

    policy = frozen(read_findings(audit), "none")
    broken = [each for each in held(changed(audit, tmp_path, members), policy).limits if not each.passed]
    assert [(each.limit.kind, each.cell) for each in broken] == [("membership", "membership-0")]


def test_a_cell_that_had_no_result_may_lack_one_and_no_other_may(audit, tmp_path):
    def lost(document):
        cell = next(c for c in document["cells"] if c["id"] == "reconstruction-3-north-1")
        cell.update(status="failed", reason="no memory")

    found = read_findings(audit)
    policy = frozen(found)
    assert set(policy.may_lack) == {"span-dp", "crafted-dp"}
    broken = [each for each in held(changed(audit, tmp_path, lost), policy).limits if not each.passed]
    assert {each.cell for each in broken} == {"reconstruction-3-north-1"}


@pytest.mark.parametrize(
    ("frozen_as", "now", "passes"),
    [
        ("leaks", "leaks", True), ("leaks", "unclear", True), ("leaks", "holds", True), ("leaks", "not tested", False),
        ("unclear", "unclear", True), ("unclear", "leaks", False), ("unclear", "not tested", False),
        ("not tested", "not tested", True), ("not tested", "unclear", True), ("not tested", "leaks", False),
        ("holds", "holds", True), ("holds", "unclear", False), ("holds", "not tested", False),
    ],
)  # fmt: skip
def test_levels_may_not_become_worse(audit, tmp_path, frozen_as, now, passes):
    def at(level):
        def change(document):
            for verdict in document["verdicts"]:
                verdict["levels"][0]["level"] = level if verdict["threat"] == "curious-server" else "holds"

        return changed(audit, tmp_path, change)

    policy = frozen(at(frozen_as), "none")
    assert held(at(now), policy).passed == passes


def test_a_refuted_claim_breaks_the_gate(audit, tmp_path):
    read = changed(audit, tmp_path, lambda d: d["cells"].append(claim_cell("dp-sgd ε=8", 8.0, 9.0)))
    judged = judge(read, [])
    assert [(each.threat, each.level) for each in judged.levels if not each.passed] == [("claim", "leaks")]
    assert judge(read, [], allow=["claim=leaks"]).passed


def test_a_policy_with_a_wrong_key(tmp_path):
    (tmp_path / "gate.toml").write_text("[most.reconstruction]\nleak = 'much'\n")
    with pytest.raises(Misconfigured, match=r"most.reconstruction.leak"):
        read_gate_policy(tmp_path / "gate.toml")
    (tmp_path / "gate.toml").write_text("alow = []\n")
    with pytest.raises(Misconfigured, match="did you mean 'allow'"):
        read_gate_policy(tmp_path / "gate.toml")
    (tmp_path / "gate.toml").write_text("[least.reconstruction]\nleak = 0.1\n")
    policy = read_gate_policy(tmp_path / "gate.toml")
    (tmp_path / "a").mkdir()
    with pytest.raises(Misconfigured, match="no cell measures"):
        held(read_findings(make_audit(tmp_path / "a")), policy)
    assert json.dumps(policy.model_dump(mode="json"))
