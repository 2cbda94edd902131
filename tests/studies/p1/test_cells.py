"""P1's cells: noise as the paper has it, victims that nobody trained on, and what an attack is deprived of."""

from dataclasses import replace

import pytest
import torch

from fluoroscope.attacks.common.initialisation import PriorImage
from fluoroscope.attacks.gradient_inversion.attack import Inversion
from fluoroscope.cells import CellContext
from fluoroscope.data.phantoms.font import glyph
from fluoroscope.federation.task import load_task
from fluoroscope.scenarios.stand_ins import held_out_indices
from fluoroscope.scores.legibility import read
from fluoroscope.studies import STUDIES
from fluoroscope.studies.p1 import federation as p1_federation
from fluoroscope.studies.p1.cells import Inverted
from fluoroscope.studies.p1.federation import Federation, Trained

TINY = {
    "rounds": 1,
    "model": {"name": "small-cnn"},
    "data": {"size": 28, "images": 120},
    "partition": {"name": "p1", "clients": [1, 9], "validation": 2, "test": 20, "auxiliary": 20},
    "training": {"lr": 0.02},
    "strategy": {},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("p1")


@pytest.fixture
def trained(monkeypatch, folder) -> Trained:
    monkeypatch.setitem(p1_federation.SCALES, "small", TINY)
    monkeypatch.setitem(p1_federation.STAGES, "small", (1,))
    return Federation("small", "phantom/chest", "pretrained").trained(0, folder)


def test_victims_are_held_out_patients_and_the_prior_is_none_of_them(trained):
    clients = trained.held_out(3, 2, burn_in=False)
    patients = [patient for client in clients for patient in client.patients]
    assert len(set(patients)) == len(patients) == 6
    task = trained.task
    known = {i for client in task.clients for i in (*client.train, *client.validation)} | set(task.partition.auxiliary)
    assert not set(patients) & {task.images.batch.patients[i] for i in known}
    alone = trained.held_out(3, 1, burn_in=False)
    assert [c.patients[0] for c in alone] == [c.patients[0] for c in clients], "the same first images"
    public = task.images.batch.images[list(task.partition.auxiliary)]
    torch.testing.assert_close(trained.prior, public.mean(0))


def test_burned_in_victims_are_the_same_patients(trained):
    (plain,), (burned,) = trained.held_out(1, 1, False), trained.held_out(1, 1, True)
    assert plain.patients == burned.patients
    assert 0 < (plain.images != burned.images).float().mean() < 0.5


def test_a_cell_scores_every_image_of_every_client(trained, folder, tmp_path):
    cell = Inverted("bn-only", "small", 1, victims=2, batch_size=2, iterations=2)
    result = cell.run(CellContext(0, folder, tmp_path))
    similar, leaked = {"images", "found", "ssim", "ssim_median", "ssim_prior"}, {"rdlv", "rdlv_low", "rdlv_high"}
    assert set(result.measures) == similar | leaked | {"seconds"}
    assert result.measures["found"] == 4
    assert result.measures["rdlv_low"] <= result.measures["rdlv"] <= result.measures["rdlv_high"]
    assert result.images["originals"].shape == result.images["reconstructions"].shape == (2, 1, 28, 28)
    again = cell.run(CellContext(0, folder, tmp_path))
    assert again.measures["ssim"] == result.measures["ssim"]


def test_without_the_checkpoint_another_network_stands_in(trained, folder, tmp_path):
    whole = Inverted("bn-only", "small", 1, victims=1, iterations=3)
    deprived = replace(whole, without="checkpoint")
    results = [cell.run(CellContext(0, folder, tmp_path)) for cell in (whole, deprived)]
    assert results[0].measures["ssim"] != results[1].measures["ssim"]


def test_what_an_attack_is_deprived_of():
    whole = Inverted("bn-only", "small", 1, victims=1, iterations=7)
    assert isinstance(whole.attack, Inversion)
    assert whole.attack.budget.iterations == 7
    assert replace(whole, without="bn loss").attack.objective.batchnorm_weight == 0
    assert isinstance(whole.attack.start, PriorImage)
    assert not isinstance(replace(whole, without="prior").attack.start, PriorImage)
    assert replace(whole, without="unrolling").attack.objective.steps == "merged"
    assert whole.attack == replace(whole, without="checkpoint").attack, "deprived of what it sees, not of a part"


def test_rows_of_the_papers_figures():
    for name in ("p1/fig-3", "p1/fig-5", "p1/fig-6", "p1/fig-7"):
        for size in ("small", "paper"):
            for cell in STUDIES.get(name).grid(size, None):
                asked = {"attack", "client", "round", "batch_size", "local_steps", "sigma0", "victims"}
                assert asked <= set(cell.settings)
    assert STUDIES.get("p1/fig-7").paper({"batch_size": 1, "local_steps": 1}) == {"ssim_prior": 0.37}
    assert STUDIES.get("p1/fig-6").paper({"batch_size": 4, "local_steps": 1}) is None


def test_the_plan_of_each_size_is_one(tmp_path):
    for scale in ("small", "paper"):
        plan = Federation(scale, "phantom/chest", "scratch").plan(0)
        assert plan.strategy.pretrain_epochs == 0
        assert Federation(scale, "phantom/chest", "pretrained").plan(0).strategy.pretrain_epochs > 0
    assert load_task(Federation("small", "phantom/chest", "scratch").plan(0)).images.size == 64


def test_burned_in_text_is_read_in_the_reconstruction(trained, folder, tmp_path):
    cell = Inverted("bn-only", "small", 1, victims=2, burn_in=True, iterations=2)
    measures = cell.run(CellContext(0, folder, tmp_path)).measures
    assert 0 <= measures["legible_low"] <= measures["legible"] <= measures["legible_high"] <= 1
    assert 0 < measures["legible_chance"] < 0.2
    (index,), (_,) = held_out_indices(trained.task, 2, 1)
    (burned, _) = trained.held_out(2, 1, burn_in=True)
    original = read(burned.images[0], trained.writing(index), glyph)
    assert original.read == original.truth, "the original can be read in full"
