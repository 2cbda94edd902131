"""Cells of membership and source inference: fair candidates, both seats, and what a defence at the server changes."""

import pytest
import torch

from fluoroscope.cells import CellContext
from fluoroscope.federation.task import load_task
from fluoroscope.studies import STUDIES
from fluoroscope.studies.p3 import candidates as p3_candidates
from fluoroscope.studies.p3.candidates import ROUND, VICTIM, Overfitted, case
from fluoroscope.studies.p3.membership import Membership, Source, _seen
from fluoroscope.studies.p3.shadow_rounds import joined
from fluoroscope.studies.study import Row

TINY = {
    "size": 28,
    "images": 100,
    "clients": 3,
    "batch_size": 8,
    "epochs": 2,
    "pretrain": 1,
    "members": 6,
    "shadows": 4,
    "others": 2,
}


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setitem(p3_candidates.SCALES, "small", TINY)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("membership")


def run(cell, folder):
    return Row(cell.settings, cell.run(CellContext(0, folder, folder / "checkpoint")), None, 1.0)


def pictures(images):
    return {image.numpy().tobytes() for image in images}


def test_half_of_the_candidates_are_the_victims_and_half_nobodys():
    task = load_task(Overfitted("none", "small").plan(0))
    asked = case(task, 6)
    members, others = (pictures(asked.candidates.images[kind]) for kind in (asked.members, ~asked.members))
    assert len(members) == len(others) > 0
    assert members <= pictures(task.train_batch(VICTIM).images)
    held = [*task.partition.auxiliary, *(i for c in task.clients for i in (*c.train, *c.validation))]
    known = pictures(task.images.batch.images[held])
    assert not (others | pictures(asked.pool.images)) & known
    assert not others & pictures(asked.pool.images)
    labels = asked.candidates.labels
    assert sorted(labels[asked.members].tolist()) == sorted(labels[~asked.members].tolist())


@pytest.mark.parametrize("attack", ["loss", "lira"])
def test_a_row_of_membership(folder, attack):
    row = run(Membership("client", attack, "none", seeds=2), folder)
    for name in ("seat", "attack", "privacy", "seeds", "members", "advantage", "p_value", "tpr_at_5_fpr", "accuracy"):
        assert row[name] is not None
    assert 0 <= row["auc_low"] <= row["auc"] <= row["auc_high"] <= 1
    assert row["attack"] == attack
    assert row["shadows"] == (4 if attack == "lira" else None)


def test_a_defence_at_the_server_hides_nothing_from_the_server(folder):
    for attack in ("loss", "lira"):
        plain, private = (run(Membership("server", attack, p, seeds=1), folder) for p in ("none", "global-dp"))
        same = {"auc", "auc_low", "auc_high", "advantage", "tpr_at_5_fpr"}
        assert {name: plain[name] for name in same} == {name: private[name] for name in same}
    plain, private = (Overfitted(p, "small").trained(0, folder) for p in ("none", "global-dp"))
    assert not torch.equal(plain.state(ROUND)["fc.weight"], private.state(ROUND)["fc.weight"]), "the clients' seat"


def test_scores_do_not_depend_on_the_truth(folder, tmp_path):
    """Nothing changes for an attacker when the answers are destroyed."""
    trained = Overfitted("none", "small").trained(0, folder)
    asked = case(trained.task, 6)
    destroyed = asked._replace(members=torch.zeros_like(asked.members))
    for attack in ("loss", "lira"):
        cell = Membership("server", attack, "none")
        true, blind = (
            cell._scores(trained, each, CellContext(0, tmp_path / name, tmp_path))
            for name, each in (("true", asked), ("blind", destroyed))
        )
        assert torch.equal(true, blind)


def test_the_client_sees_no_clients_update(folder):
    """What it is granted of a round is the model that came of it; the server is granted what a client sent."""
    trained = Overfitted("none", "small").trained(0, folder)
    client, server = (_seen(trained, seat) for seat in ("client", "server"))
    assert client.update is None
    assert torch.equal(client.state_before["fc.weight"], trained.state(ROUND)["fc.weight"])
    assert server.cohort == (trained.task.clients[VICTIM].name,)
    assert server.update is not None


def test_the_rehearsed_mean_is_the_federations(folder):
    """An attacker that knew every client's model would have the global model itself."""
    trained = Overfitted("none", "small").trained(0, folder)
    sent = [trained.store.load(ROUND, split.name).state_after for split in trained.task.clients]
    model = joined(trained.task, trained.state(ROUND - 1), sent, torch.Generator())
    assert len({len(split.train) for split in trained.task.clients}) == 1
    for name, value in trained.state(ROUND).items():
        torch.testing.assert_close(model[name], value, rtol=0, atol=1e-6)


def test_a_defence_at_the_client_is_rehearsed_and_its_epsilon_told(folder):
    row = run(Membership("server", "lira", "dp-sgd", seeds=1), folder)
    assert row["epsilon"] > 0
    assert run(Membership("server", "loss", "global-dp", seeds=1), folder)["epsilon"] is None


def test_a_row_of_source_inference(folder):
    row = run(Source("none", seeds=2), folder)
    assert row["low"] <= row["accuracy"] <= row["high"]
    assert row["chance"] == pytest.approx(1 / 3)
    assert row["records"] == sum(
        len(c.train) for seed in (0, 1) for c in load_task(Overfitted("none", "small").plan(seed)).clients
    )
    assert run(Source("metric-privacy", seeds=2), folder)["accuracy"] == row["accuracy"]


def test_figures_are_drawn_and_both_sizes_declared(folder):
    rows = [run(Membership(seat, "loss", "none", seeds=1), folder) for seat in ("server", "client")]
    assert STUDIES.get("p3/membership").draw("m", rows).axes
    assert STUDIES.get("p3/source").draw("s", [run(Source("none", seeds=1), folder)]).axes
    for name, rows_of in (("p3/membership", 16), ("p3/source", 4)):
        for size in ("small", "paper"):
            assert len(STUDIES.get(name).grid(size, None)) == rows_of
