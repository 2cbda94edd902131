"""The curious server's inferences as cells: what each finds on a federation that was trained once."""

import pytest

from fluoroscope.audit.client_metrics import ClientMetrics
from fluoroscope.audit.kept import finding_of
from fluoroscope.audit.label_counts import LabelCounts
from fluoroscope.audit.membership import Membership, _cases
from fluoroscope.audit.source import Source
from fluoroscope.cells import CellContext, key
from fluoroscope.errors import Unsupported
from fluoroscope.federation.task import load_task

from .conftest import plan_of

CLIENTS = ("client-5", "client-4", "client-1", "client-3")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("inferences")


def plan(**changes):
    return plan_of(training={"epochs": 3}, audit={"clients": list(CLIENTS)}, **changes).federation("none")


def found(cell, folder):
    return finding_of(cell.run(CellContext(0, folder, folder / "checkpoint")))


def test_label_counts_are_nearer_than_the_public_mix(folder):
    cell = LabelCounts("none", plan().model_dump_json(), ("client-4", "client-3"), 1, stand_ins=6, simulations=24)
    finding = found(cell, folder)
    scores = finding.scores
    assert scores["gain"].low > 0
    assert scores["p_value"].value < 0.05
    assert scores["error"].value < scores["error_public"].value
    assert (scores["gain"].n, scores["error_clients"].n) == (14, 2)
    assert scores["error"].higher_is_leakier is False
    assert len(finding.curves) == 2
    assert all(len(curve.x) == 14 for curve in finding.curves.values())


@pytest.mark.parametrize("name", ["loss", "lira-offline", "rmia"])
def test_membership_asks_of_as_many_members_as_others(folder, name):
    cell = Membership("none", plan().model_dump_json(), CLIENTS, 1, name, shadows=2)
    finding = found(cell, folder)
    scores = finding.scores
    members = scores["members"].value
    assert scores["auc"].n == 2 * members
    assert scores["auc"].chance == 0.5
    assert 0 <= scores["auc"].low <= scores["auc"].value <= scores["auc"].high <= 1
    assert scores["fpr"].value == pytest.approx(1 / members), "20 others allow no hundredth"
    assert scores["tpr"].chance == scores["fpr"].value
    assert len(finding.curves["auc by size"].x) <= len(CLIENTS)


def test_nobody_is_a_stranger_to_two_clients():
    task = load_task(plan())
    cases = _cases(task, [4, 3, 0, 2], seed=0)
    strangers = [i for case in cases.values() for i in case.strangers]
    assert len(strangers) == len(set(strangers))
    assert set(strangers) <= set(task.partition.test)
    for place, case in cases.items():
        assert int(case.members.sum()) * 2 == len(case.members)
        labels = case.candidates.labels
        assert sorted(labels[case.members].tolist()) == sorted(labels[~case.members].tolist()), place


def test_source_is_beside_always_naming_the_largest(folder):
    scores = found(Source("none", plan().model_dump_json(), CLIENTS, 1), folder).scores
    records = 1 + 8 + 32 + 32
    assert scores["records"].value == records
    assert scores["accuracy"].chance == pytest.approx(32 / records)
    assert 0 < scores["p_value"].value <= 1
    with pytest.raises(Unsupported, match="tells clients apart"):
        Source("none", plan().model_dump_json(), ("client-1",), 1).run(CellContext(0, folder, folder / "c"))


def test_metrics_that_leave_are_counted(folder):
    finding = found(ClientMetrics("none", plan().model_dump_json()), folder)
    values = {name: score.value for name, score in finding.scores.items()}
    # The number of images and the loss of the training; of the validation the number of images and five scores.
    assert values == {"visible": 8, "counted": 5, "single": 1}
    assert finding.curves["told"].y_label.endswith("client-5 tells")
    assert finding.curves["told"].y[0] > 0


def test_who_did_not_take_part_is_said(folder):
    cell = Source("none", plan().model_dump_json(), ("client-2",), 1)
    with pytest.raises(Unsupported, match="client-2 took part in round 1"):
        cell.run(CellContext(0, folder, folder / "c"))


def test_a_cell_is_known_by_its_attack_in_every_process():
    """An attack that holds a function would have another name in each."""
    cell = Membership("none", plan().model_dump_json(), CLIENTS, 1, "lira-offline", shadows=2)
    assert key(cell, 0) == key(Membership("none", plan().model_dump_json(), CLIENTS, 1, "lira-offline", 2), 0)
    assert " at 0x" not in repr(cell.attack)
