"""P3's cells at a tiny scale: rows with the paper's columns, federations in and out, shadow sets of nobody's."""

from dataclasses import replace

import pytest

from fluoroscope.cells import CellContext
from fluoroscope.federation.task import load_task
from fluoroscope.studies import STUDIES
from fluoroscope.studies.p3 import client_inference as p3_inference
from fluoroscope.studies.p3 import federation as p3_federation
from fluoroscope.studies.p3 import numbers as printed
from fluoroscope.studies.p3.cells import Accuracy
from fluoroscope.studies.p3.client_inference import ClientInference
from fluoroscope.studies.p3.federation import PRIVACIES, STRATEGIES, TARGET, Federation
from fluoroscope.studies.study import Row

TINY = {
    "size": 28,
    "images": 200,
    "rounds": 2,
    "batch_size": 32,
    "epochs": 1,
    "pretrain": 1,
    "inference": 1,
    "noise": 0.01,
}


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setitem(p3_federation._SCALES, "small", TINY)
    monkeypatch.setitem(p3_federation._SHORT, "small", 1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("p3")


def run(cell, folder):
    result = cell.run(CellContext(0, folder, folder / "checkpoint"))
    return Row(cell.settings, result, None, 1.0)


@pytest.fixture
def utility(folder):
    cells = [Accuracy("fedavg", privacy, "homogeneous", seeds=2) for privacy in ("none", "metric-privacy")]
    return [run(cell, folder) for cell in cells]


def test_a_row_of_utility_has_the_papers_columns(utility):
    plain, private = utility
    for name in ("strategy", "privacy", "split", "seeds", "accuracy", "accuracy_std", "f1", "precision", "auc", "loss"):
        assert plain[name] is not None
        assert private[name] is not None
    assert plain["distance"] is None, "nobody measures it without the defence"
    assert private["distance"] > 0
    assert plain.result.curves["round"] == [1, 2]
    assert 0 <= plain["accuracy"] <= 1


def test_the_test_set_gives_a_roc(folder):
    row = run(Accuracy("fedavg", "none", "homogeneous", "test", seeds=2), folder)
    curves = row.result.curves
    assert len(curves["false_positive_rate"]) == len(curves["true_positive_rate"])
    assert curves["true_positive_rate"][-1] == 1
    assert 0 <= row["auc"] <= 1


def test_a_strategy_that_needs_them_starts_from_parameters_of_the_servers():
    for strategy in STRATEGIES:
        plan = Federation(strategy, "none", "homogeneous", "small").plan(0, 0)
        assert (plan.strategy.pretrain_epochs > 0) == (strategy in ("fedavgm", "fedopt", "fedyogi"))


@pytest.fixture
def game(folder):
    return run(ClientInference("fedavg", "none", game=True, seeds=2), folder)


def test_a_row_of_client_inference_has_the_papers_columns(game):
    for name in ("strategy", "privacy", "split", "seeds", "shadow", "aggregated", "target", "difference"):
        assert game[name] is not None
    assert game["auc_low"] <= game["auc"] <= game["auc_high"]
    assert 0 < game["p_value"] <= 1
    curves = game.result.curves
    assert curves["false_positive_rate"][0] == curves["true_positive_rate"][0] == 0


def test_the_game_is_played_without_the_target_too():
    inside, outside = (
        load_task(Federation("fedavg", "none", split, "small").plan(0, 0))
        for split in ("odd-client", "without-odd-client")
    )
    names = [client.name for client in inside.clients]
    assert TARGET in names
    assert [client.name for client in outside.clients] == [name for name in names if name != TARGET]


@pytest.mark.parametrize("kind", ["overlapping", "disjoint"])
def test_shadow_sets_are_the_targets_or_nobodys(monkeypatch, folder, kind):
    made, draw = [], p3_inference.shadow_set

    def watched(*arguments):
        made.append(draw(*arguments))
        return made[-1]

    monkeypatch.setattr(p3_inference, "shadow_set", watched)
    run(ClientInference("fedavg", "none", kind, seeds=1), folder)
    (shadow,) = made
    task = load_task(Federation("fedavg", "none", "odd-client", "small").plan(0, 0))
    batch = task.images.batch
    held = {c.name: _pictures(batch.images[[*c.train, *c.validation]]) for c in task.clients}
    assert len(shadow) > 0
    if kind == "overlapping":
        assert _pictures(shadow.images) <= held[TARGET]
    else:
        assert not any(_pictures(shadow.images) & pictures for pictures in held.values())
        assert not _pictures(shadow.images) & _pictures(batch.images[list(task.partition.auxiliary)])


def _pictures(images):
    return {image.numpy().tobytes() for image in images}


def test_figures_are_drawn(utility, game):
    for name in ("p3/table-4", "p3/fig-b2"):
        assert STUDIES.get(name).draw(name, utility).axes
    for name in ("p3/client-inference", "p3/table-9"):
        assert STUDIES.get(name).draw(name, [game]).axes


def test_the_papers_numbers_stand_beside_the_rows_they_belong_to():
    """One cell of each table, read off the page."""
    row = {"strategy": "fedprox", "privacy": "global-dp", "split": "non-iid"}
    assert STUDIES.get("p3/table-4").paper(row) == {"accuracy": 0.879, "accuracy_std": 0.008}
    assert STUDIES.get("p3/table-6").paper(row) == {"accuracy": 0.878, "accuracy_std": 0.016}
    assert STUDIES.get("p3/table-7").paper(row) == {"accuracy": 0.886, "f1": 0.871, "precision": 0.904}
    assert STUDIES.get("p3/readings").paper(row) == STUDIES.get("p3/table-6").paper(row)
    assert STUDIES.get("p3/table-d15").paper(row) == {"aggregated": 1.846, "target": 2.681, "difference": 31.173}
    assert STUDIES.get("p3/table-11").paper(row)["test_loss"] == 1.744
    assert not STUDIES.get("p3/table-4").paper(row | {"privacy": "metric (inverse, weights)"}), "P3 prints one reading"


def test_p3s_differences_follow_from_its_losses():
    """Its tables agree with its formula, but for rounding."""
    for aggregated, target, percent in printed.INFERENCE.values():
        for a, t, p in zip(aggregated, target, percent, strict=True):
            assert 100 * (t - a) / t == pytest.approx(p, abs=0.25)


def test_every_table_has_six_strategies_and_three_columns():
    for name in ("table-4", "table-5", "table-6", "table-7", "table-a12", "table-11"):
        grid = STUDIES.get(f"p3/{name}").grid("paper", None)
        seen = {(cell.strategy, cell.privacy) for cell in grid}
        assert {(s, p) for s in STRATEGIES for p in printed.COLUMNS} <= seen
        assert {p for _, p in seen} <= set(PRIVACIES)


def test_other_data_is_another_cell():
    study = STUDIES.get("p3/table-4")
    ours, theirs = study.grid("paper", None)[0], study.grid("paper", "folder:x")[0]
    assert theirs == replace(ours, data="folder:x")
    assert theirs.attack != ours.attack
