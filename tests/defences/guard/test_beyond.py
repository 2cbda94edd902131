"""What is left of rows beyond what the next layer makes of any image; findings that never are; norms kept frozen."""

import copy

import pytest
import torch
from benchmarks._adaptive import head, mlp
from benchmarks._beside import beside
from benchmarks._leaking import leaks
from benchmarks._projected import Frozen, projected
from torch import nn

from fluoroscope.data import Request, load
from fluoroscope.defences.guard import inspect
from fluoroscope.defences.guard.batches import batch
from fluoroscope.defences.guard.isolation import awake
from fluoroscope.defences.guard.profile import prepared, profile
from fluoroscope.defences.guard.undone import beyond


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    return load("phantom/chest", Request(size=28, images=160)).batch.images


@pytest.fixture(scope="module")
def cases(images) -> dict:
    torch.manual_seed(0)
    return {case.kind: case for case in projected(images[:96], rng())}


def rng(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def checks(verdict) -> set[str]:
    return {reason.check for reason in verdict.reasons if reason.severity == "refuse"}


def test_what_is_left_is_what_the_next_layers_weights_do_not_explain():
    """The space is found from gradients alone; here it is known, and is taken away by least squares."""
    weight = torch.randn(3, 40, generator=rng(), dtype=torch.double)
    behind = torch.randn(24, 3, generator=rng(2), dtype=torch.double) @ weight
    before = behind * (torch.rand(24, 40, generator=rng(3)) < 0.3)
    explained = torch.linalg.lstsq(weight.T, before.T).solution
    assert torch.allclose(beyond(before[:, None], behind[:, None])[:, 0], before - (weight.T @ explained).T, atol=1e-4)


def test_nothing_is_left_where_nothing_bends_and_nothing_is_said_where_the_space_is_large():
    weight = torch.randn(3, 40, generator=rng())
    behind = torch.randn(24, 3, generator=rng(2)) @ weight
    assert not beyond(0.2 * behind[:, None], behind[:, None]).any()
    full = torch.randn(24, 1, 40, generator=rng(3))
    assert beyond(full, full) is None


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        ("leaky .2/192 rows", "isolation"),
        ("prelu/192 rows", "isolation"),
        ("spread/12 layers of 32", "isolation"),
        ("frozen norm", "isolation"),
        ("findings/1 of bias -12", "fishing"),
        ("findings/14 of bias -8.5", "fishing"),
    ],
)
def test_what_leaks_is_refused_and_what_was_agreed_is_not(images, cases, kind, check):
    case = cases[kind]
    assert leaks(case, images[96:], torch.randint(4, (64,), generator=rng()))
    assert check in checks(inspect(case.model.state_dict(), case.agreed, images[96:], seed=0))
    assert inspect(case.agreed.state_dict(), case.agreed, images[96:], seed=0).accepted


@pytest.mark.parametrize("findings", [1, 14])
def test_rare_findings_are_honest(images, cases, findings):
    agreed = cases[f"findings/{findings} of bias -12"].agreed
    model = copy.deepcopy(agreed)
    with torch.no_grad():
        model[-1].bias.fill_(-6.9)  # one patient in a thousand
    assert inspect(model.state_dict(), agreed, images[96:], seed=0).accepted


def test_training_lets_all_images_into_each_combination(images):
    """Before and after: the space of the next layer explains no row away for one image alone."""
    torch.manual_seed(0)
    model = mlp(784, 128, nn.LeakyReLU(0.2), head(128, "own"))
    for net in (model, _trained(model, images[:96])):
        found = profile(prepared(net), batch(images[96:]), 3)
        assert found.leaks["1.weight beyond what follows"].crowd.concentration < 0.05


def _trained(model: nn.Module, images: torch.Tensor) -> nn.Module:
    made = copy.deepcopy(model)
    stepper = torch.optim.Adam(made.parameters(), lr=1e-3)
    labels = torch.randint(4, (len(images),), generator=rng())
    for _ in range(30):
        stepper.zero_grad()
        nn.functional.cross_entropy(made(images), labels).backward()
        stepper.step()
    return made


def test_norms_that_stay_frozen_are_run_as_they_are():
    made = prepared(nn.Sequential(Frozen(4), nn.BatchNorm1d(4)))
    assert made[0].running_mean is not None
    assert made[1].running_mean is None


@pytest.fixture(scope="module")
def hidden(images) -> dict:
    torch.manual_seed(0)
    return {case.kind: case for case in beside(images[:96], rng())}


@pytest.mark.parametrize(
    "kind",
    [
        "beside noise/8 channels",
        "beside constant/8 channels",
        "whispering/96 of 192",
        "past a bend",
        "used twice",
        "reaching kernel",
    ],
)
def test_nothing_that_stands_beside_it_hides_a_picture(images, hidden, kind):
    case = hidden[kind]
    assert leaks(case, images[96:], torch.randint(4, (64,), generator=rng()))
    assert "isolation" in checks(inspect(case.model.state_dict(), case.agreed, images[96:], seed=0))
    assert inspect(case.agreed.state_dict(), case.agreed, images[96:], seed=0).accepted


def test_a_row_is_heard_by_its_own_weights():
    gradient, weight = torch.ones(4, 3), torch.ones(3, 5)
    gradient[:, 1], gradient[:, 2] = 1e-22, 1e-22
    weight[1] = 1e-22
    assert awake(gradient, weight).any(dim=0).tolist() == [True, True, False]
    assert awake(gradient, weight[:2]) is gradient  # rows of a bend have no weights here


def test_all_inputs_are_pictures_the_largest_first():
    small, large = torch.rand(6, 1, 8, 8), torch.rand(6, 1, 16, 16)
    assert [each.shape[-1] for each in batch((small, large)).pictures] == [16, 8]
