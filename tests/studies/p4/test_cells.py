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
from fluoroscope.studies.p4.cells import Configuration, converged, gradients, worse_than_first
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
    ours = Configuration(init, distance, images=1, iterations=100, lr=lr, form="paper").attack
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
    cell = Configuration("TG", "Eucl", images=2, iterations=4, classes=10)
    result = cell.run(CellContext(0, tmp_path, tmp_path / "checkpoint"))
    assert {"mse", "ssim", "ssim_all", "worse_than_first", "mse_random", "ssim_random"} <= set(result.measures)
    assert result.measures["non_converging_low"] <= result.measures["non_converging"]
    assert result.measures["non_converging"] <= result.measures["non_converging_high"]
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
    cifar = {"init": "Unif", "distance": "AG", "dataset": "CIFAR"}
    assert STUDIES.get("p4/table-4").paper(cifar) == {"non_converging": 13}


def test_every_study_has_the_papers_grid():
    sizes = {"p4/table-1": 18, "p4/table-2": 8, "p4/table-3": 22, "p4/fig-2": 4}
    for name, cells in sizes.items():
        study = STUDIES.get(name)
        grid = study.grid("paper", None)
        assert len(grid) == cells
        assert {(cell.images, cell.classes) for cell in grid} == {(100, 100)}
        assert {(cell.images, cell.classes) for cell in study.grid("small", None)} == {(100, 100)}, "its own size"
        for size in ("small", "paper"):
            for cell in study.grid(size, None):
                study.paper(cell.settings)  # every row is one of the paper's


def test_a_few_steps_can_find_a_label():
    """P4's own can, at the images' pace; LeNet-5's L-BFGS has no such pace."""
    own, few = (STUDIES.get("p4/fig-3").grid(size, None)[0] for size in ("paper", "small"))
    assert own.attack.label_pace == 1
    assert few.attack.label_pace * few.lr * few.iterations == pytest.approx(15)
    assert STUDIES.get("p4/fig-2").grid("small", None)[0].attack.label_pace == 1


def test_weights_are_drawn_for_each_image_or_once():
    batch = load("phantom/chest", Request(size=32, images=2, seed=5)).batch
    for weights, same in (("one", True), ("each", False), ("torch", False)):
        first, second = gradients("lenet5", 4, batch, seed=3, weights=weights)
        assert torch.equal(first.state_before["fc.weight"], second.state_before["fc.weight"]) is same
        widest = float(first.state_before["fc.weight"].abs().max())
        assert widest < 0.04 if weights == "torch" else 0.4 < widest <= 0.5  # torch: 1/sqrt(768)


@pytest.mark.slow
def test_p4s_loop_arrives_where_the_engine_does(tmp_path):
    ours = Configuration("TG", "Eucl", images=2, iterations=30, classes=10)
    for loop in ("side by side", "P4's", "P4's, line search"):
        cell = replace(ours, loop=loop)
        result = cell.run(CellContext(0, tmp_path, tmp_path / loop))
        assert result.measures["ssim"] > 0.95, loop
        assert result.curves["iteration"][:2] == [0, 1]


def test_what_ends_above_its_first_iteration_is_counted_as_p4s_code_does():
    original = torch.zeros(1, 1, 4, 4)
    images = {
        name: torch.full_like(original, value**0.5) for name, value in {"high": 1.0, "mid": 0.5, "low": 0.1}.items()
    }

    def guess(first, last):
        snapshots = {1: images[first], 2: images[last]}
        return Reconstruction(images[last], None, 0.0, start=images["high"], last=images[last], snapshots=snapshots)

    assert not worse_than_first(guess("mid", "low"), original)
    assert worse_than_first(guess("low", "mid"), original), "below the start, above the first iteration"


def test_images_go_to_the_data_set_that_they_are_given_for():
    study = STUDIES.get("p4/table-4")
    assert {cell.dataset for cell in study.grid("small", None)} == {"CIFAR", "MNIST"}, "no phantom is Omniglot's"
    given = {"Omniglot": "folder:o", "phantom/brain": "folder:b", "CIFAR": "folder:c"}
    found = {cell.dataset: cell.data for cell in study.grid("small", given)}
    assert found == {"CIFAR": "folder:c", "MNIST": "folder:b", "Omniglot": "folder:o"}
    assert {cell.data for cell in study.grid("small", "folder:x")} == {"folder:x"}
