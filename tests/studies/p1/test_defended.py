"""Cells of P1's defence studies: the client that is meant, the defence on its update, and what is counted."""

import pytest

from fluoroscope.cells import CellContext, Result
from fluoroscope.studies import STUDIES
from fluoroscope.studies.p1 import federation as p1_federation
from fluoroscope.studies.p1.defended import NEAREST, Defended
from tests.studies.p1.test_cells import TINY

NOISE = (("percentile-gaussian", (("noise_scale", 1000.0),)),)


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setitem(p1_federation.SCALES, "small-clients", TINY)
    monkeypatch.setitem(p1_federation.STAGES, "small-clients", (1,))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("defended")


DONE: dict[Defended, Result] = {}
"""A cell is a function of its settings, so several tests may read one."""


def run(folder, tmp_path, **changes):
    cell = Defended(**{"client": 9, "scale": "small-clients", "round": 1, "victims": 2, "quick": True, **changes})
    if cell not in DONE:
        DONE[cell] = cell.run(CellContext(0, folder, tmp_path))
    return cell, DONE[cell]


def test_rows_have_what_the_paper_s_figures_show(folder, tmp_path):
    cell, result = run(folder, tmp_path, attack_name="bn-only")
    for name in ("client", "images", "batch_size", "round", "sigma0", "clip_norm", "noise_multiplier"):
        assert name in cell.settings
    for name in ("rdlv", "rdlv_low", "rdlv_high", "iip", "test_accuracy", "epsilon"):
        assert name in result.measures
    assert (cell.settings["images"], cell.settings["client"]) == (1, "client-9")
    assert 0 <= result.measures["iip"] <= 1
    assert result.measures["epsilon"] is None
    assert len(result.curves["k_iip"]) == len(NEAREST)
    assert result.curves["k_iip"] == sorted(result.curves["k_iip"]), "more neighbours, more hits"


def test_a_client_of_several_images_is_attacked_as_it_is(folder, tmp_path):
    cell, result = run(folder, tmp_path, client=1, attack_name="bn-only")
    assert (cell.settings["images"], cell.settings["victims"]) == (8, 1)
    assert result.images["embedded originals"].shape == (8, 640)


def test_the_defence_is_on_the_update_that_is_attacked(folder, tmp_path):
    _, plain = run(folder, tmp_path, attack_name="bn-only")
    _, noised = run(folder, tmp_path, attack_name="bn-only", defence=NOISE)
    assert noised.measures["rdlv"] < plain.measures["rdlv"]


@pytest.mark.slow  # tests/federation and tests/studies/p3 have epsilons, too
def test_epsilon_stands_beside_dp_sgd(folder, tmp_path):
    private = (("dp-sgd", (("clip_norm", 1.0), ("noise_multiplier", 2.0))),)
    cell, result = run(folder, tmp_path, attack_name="dlg", defence=private, model="lenet5")
    assert result.measures["epsilon"] > 0
    assert (cell.settings["clip_norm"], cell.settings["noise_multiplier"]) == (1.0, 2.0)


def test_the_study_of_all_clients_attacks_each_early_and_late_and_many_patients_in_the_ninth_s_place():
    cells = STUDIES.get("p1/nine-clients").grid("small", None)
    of_p1 = [cell for cell in cells if cell.attack_name == "epochwise"]
    assert {(cell.client, cell.round) for cell in of_p1} == {(c, r) for c in range(1, 10) for r in (1, 30)}
    assert all(cell.victims >= 12 for cell in cells)
    assert {cell.attack_name for cell in cells if cell.client == 9} == {"epochwise", "span", "map-inversion"}


@pytest.mark.parametrize("name", ["p1/fig-4", "p1/fig-8", "p1/fig-8-fundus", "p1/fig-9", "p1/fig-10", "p1/fig-11"])
def test_every_figure_is_declared_in_both_sizes(name):
    study = STUDIES.get(name)
    assert study.cells["small"]
    assert study.cells["paper"]
    assert {cell.client for cell in study.cells["paper"]} == set(range(1, 10)) or name == "p1/fig-9"


def test_figures_are_drawn(folder, tmp_path):
    from fluoroscope.studies.study import Row

    rows = []
    for client in (1, 9):
        cell, result = run(folder, tmp_path, client=client, attack_name="bn-only")
        rows.append(Row(cell.settings, result, None, 1.0))
    for name in (
        "p1/fig-4",
        "p1/nine-clients",
        "p1/fig-8",
        "p1/fig-9",
        "p1/fig-10",
        "p1/fig-11",
        "frontier/kept-at-home",
    ):
        figure = STUDIES.get(name).draw(name, rows)
        assert figure.axes
