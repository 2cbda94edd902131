"""P4's cells: the gradient itself, the registered attacks, and when an image counts as converged."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from fluoroscope.attacks import ATTACKS
from fluoroscope.attacks.gradient_inversion.distances import AdaptiveGaussian
from fluoroscope.cells import CellContext
from fluoroscope.data import Request, load
from fluoroscope.models import Architecture
from fluoroscope.studies import STUDIES
from fluoroscope.studies.p4.cells import Configuration, converged, gradients
from fluoroscope.studies.p4.variance_gaussian import VarianceGaussian
from fluoroscope.types import Reconstruction


def test_the_client_sends_the_gradient_itself():
    batch = load("phantom/chest", Request(size=32, images=2, seed=5)).batch
    (first, second) = gradients("lenet5", 2, batch, seed=3)
    model = Architecture("lenet5", 1, 2, 32).build(3)
    loss = nn.functional.cross_entropy(model(batch.images[1:]), batch.labels[1:])
    for (name, p), g in zip(model.named_parameters(), torch.autograd.grad(loss, list(model.parameters())), strict=True):
        assert torch.equal(second.update[name], -g)
        assert torch.equal(second.state_before[name], p)
    assert not torch.equal(first.update["fc.weight"], second.update["fc.weight"])


@pytest.mark.parametrize(
    ("init", "distance", "lr", "name"),
    [
        ("TG", "Eucl", 0.1, "eucl-tg"),
        ("Unif", "Eucl", 0.1, "eucl-unif"),
        ("TG", "AG", 0.1, "ag-tg"),
        ("Unif", "AG", 0.1, "ag-unif"),
        ("Normal", "Eucl", 1.0, "dlg"),
    ],
)
def test_a_configuration_is_the_registered_attack(init, distance, lr, name):
    ours = Configuration(init, distance, images=1, iterations=100, lr=lr).attack
    assert replace(ours, name=name, snapshots=None) == ATTACKS.get(name)


def test_converged_as_p4_counts_it():
    original = torch.zeros(1, 1, 4, 4)

    def guess(start, last, diverged=False):
        ends = (torch.full_like(original, value**0.5) for value in (start, last))
        start, last = ends
        return Reconstruction(last, None, 0.0, start=start, last=last, diverged=diverged)

    assert converged(guess(1.0, 0.5), original)
    assert not converged(guess(1.0, 1.0), original), "not below the start"
    assert not converged(guess(9.0, 2.25), original), "2 or more"
    assert not converged(guess(1.0, float("nan")), original)
    assert not converged(guess(1.0, 0.5, diverged=True), original)


def test_a_cell_gives_means_over_the_converged_and_curves(tmp_path):
    cell = Configuration("TG", "AG", images=2, iterations=4, model="lenet5")
    result = cell.run(CellContext(0, tmp_path, tmp_path / "checkpoint"))
    assert set(result.measures) == {"mse", "ssim", "non_converging", "seconds", "mse_random", "ssim_random"}
    assert result.curves["iteration"] == [0, 1, 2, 3, 4]
    assert result.measures["non_converging"] < 2
    assert result.curves["mse"][-1] == pytest.approx(result.measures["mse"])
    assert result.curves["mse"][-1] < result.curves["mse"][0]
    assert result.images["by iteration"].shape == (5, 1, 32, 32)


def test_sapags_scale_is_n_times_the_adaptive_one():
    rng = torch.Generator().manual_seed(0)
    seen = [torch.randn(5, 4, generator=rng), torch.randn(7, generator=rng)]
    for layer in seen:  # on one layer, where 1/layer is 1
        moved = layer + 1e-3 * torch.randn(layer.shape, generator=rng)
        narrow, wide = VarianceGaussian()([moved], [layer]), AdaptiveGaussian()([moved], [layer])
        exponent = -torch.log1p(-wide)
        torch.testing.assert_close(narrow, -torch.expm1(-layer.numel() * exponent), rtol=1e-3, atol=1e-6)


def test_the_papers_tables_are_copied_right():
    """The cells that P4's text or tables single out."""
    paper = STUDIES.get("p4/table-1").paper
    assert paper({"init": "TG", "distance": "Gaussian", "lambda2": 200}) == {
        "mse": 4.7e-3,
        "ssim": 0.88,
        "non_converging": 19,
    }
    assert paper({"init": "Unif", "distance": "AG", "lambda2": None})["mse"] == 2.1e-2
    paper = STUDIES.get("p4/table-3").paper
    assert paper({"init": "TG", "distance": "AG", "lambda2": None}) == {
        "mse": 5.71e-3,
        "ssim": 0.850,
        "non_converging": 6,
    }
    assert paper({"init": "Unif", "distance": "Gaussian", "lambda2": 1})["non_converging"] == 100
    assert STUDIES.get("p4/table-2").paper({"init": "Unif", "distance": "Eucl", "lr": 1.0}) == {"non_converging": 27}
    assert STUDIES.get("p4/table-4").paper({"init": "Unif", "distance": "AG"})["non_converging CIFAR"] == 13


def test_every_study_has_the_papers_grid():
    sizes = {"p4/table-1": 18, "p4/table-2": 8, "p4/table-3": 22, "p4/fig-2": 4}
    for name, cells in sizes.items():
        study = STUDIES.get(name)
        grid = study.grid("paper", None)
        assert len(grid) == cells
        assert {cell.images for cell in grid} == {100}
        for size in ("small", "paper"):
            for cell in study.grid(size, None):
                study.paper(cell.settings)  # every row is one of the paper's
