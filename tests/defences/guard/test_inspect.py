"""Whole models: crafted ones are refused in any disguise, honest ones are not, and nothing is changed."""

import copy

import pytest
import torch
import torch.nn.functional as F
from benchmarks._crafted import Disguise, front, mlp
from benchmarks._crafted_inside import craft_dense, fish, passing
from benchmarks._honest import strangers, trained
from torch import nn

from fluoroscope.data import Request, load
from fluoroscope.defences.guard import digest, inspect
from fluoroscope.models import MODELS, Architecture
from fluoroscope.models.front import Front, FrontedNetwork

LARGE = ("vit-small", "resnet18-sigmoid", "efficientnet-lite0")


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    return load("phantom/chest", Request(size=28, images=96)).batch.images


def rng() -> torch.Generator:
    return torch.Generator().manual_seed(1)


def checks(verdict) -> set[str]:
    return {reason.check for reason in verdict.reasons if reason.severity == "refuse"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in LARGE else name for name in MODELS]
)
def test_fresh_models_are_accepted(name):
    model = Architecture(name, 3, 10, 32).build()
    before = digest(model.state_dict())
    verdict = inspect(model)
    assert verdict.ran
    assert not verdict.refused, verdict.summary
    assert verdict.digest == before == digest(model.state_dict())


@pytest.mark.parametrize("kind", ["brightness", "several-ratio", "rtf-sparse", "dead"])
@pytest.mark.parametrize("form", ["dense", "conv-transposed"])
def test_fronts_are_refused_with_and_without_what_was_agreed(images, kind, form):
    network = Architecture("small-cnn", 1, 2, 28).build()
    added = front(kind, (1, 28, 28), 60, images.flatten(1), Disguise(True, True, 0.05), rng(), form)
    model = nn.Sequential(added, network)
    assert "placement" in checks(inspect(model))
    assert inspect(model.state_dict()).refused
    assert "drift" in checks(inspect(model.state_dict(), network, images))


@pytest.mark.slow
def test_an_innocent_front_is_refused_for_where_it_stands():
    """Fresh dense layers before the network do no harm yet; a later round fills them."""
    model = FrontedNetwork(Architecture("resnet18", 1, 2, 28), Front(40)).build()
    assert checks(inspect(model)) == {"placement"}


@pytest.mark.parametrize("kind", ["projection", "ratio", "several", "trap-0.95", "tuned-0.05", "minus", "minus-bias"])
def test_crafted_weights_in_the_agreed_architecture_are_refused(images, kind):
    agreed = Architecture("p3-cnn", 1, 4, 28).build()
    model = copy.deepcopy(agreed)
    with torch.no_grad():
        seen = model.body(images)
    craft_dense(kind, tuple(seen.shape[1:]), seen.flatten(1), model.dense[0], Disguise(True, True, 0.05), rng())
    assert inspect(model).refused
    assert inspect(model.state_dict(), agreed, images).refused


def test_a_passed_on_picture_and_a_fishing_head_are_refused():
    model = Architecture("p3-cnn", 1, 4, 28).build()
    passing(model.body[0])
    assert "passing" in checks(inspect(model))
    model = Architecture("resnet18", 1, 4, 28).build()
    fish(model.fc, "class", 0.0, rng())
    assert "classifier" in checks(inspect(model))


@pytest.mark.parametrize("name", ["p3-cnn", "mlp", "excited"])
def test_adam_on_inputs_that_are_never_negative_is_honest(images, name):
    """It makes rows parallel; their biases move along with them and divide nothing."""
    fresh = Architecture(name, 1, 4, 28).build() if name in MODELS else strangers(1, 28, 0)[name]
    for step, model in trained(fresh, images, 4, "adam", 1e-2, seed=3):
        verdict = inspect(model, images=images)
        assert not verdict.refused, (step, verdict.summary)


def test_a_spatial_transformer_is_noted_only():
    class Warp(nn.Module):
        def __init__(self):
            super().__init__()
            self.look = nn.Sequential(nn.Conv2d(1, 8, 7), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
            self.steer = nn.Sequential(nn.Linear(8 * 11 * 11, 32), nn.ReLU(), nn.Linear(32, 6))
            self.network = Architecture("small-cnn", 1, 2, 28).build()

        def forward(self, x):
            theta = self.steer(self.look(x)).view(-1, 2, 3)
            grid = F.affine_grid(theta, list(x.shape), align_corners=False)
            return self.network(F.grid_sample(x, grid, align_corners=False))

    verdict = inspect(Warp(), images=torch.rand(16, 1, 28, 28, generator=rng()))
    assert not verdict.refused
    assert "placement" in [r.check for r in verdict.reasons if r.layer.startswith("steer")]


@pytest.mark.parametrize("outer", ["module.", "_module."])
def test_arrays_under_a_wrappers_names_are_the_agreed_ones(images, outer):
    """DataParallel and Opacus put a word before every name, at the server or at the client; one array less is drift."""
    model = mlp(1, 28, 32, 2, 0)
    wrapped = {f"{outer}{name}": value for name, value in model.state_dict().items()}
    verdict = inspect(wrapped, model, images)
    assert verdict.accepted
    assert verdict.digest == inspect(model.state_dict(), model, images).digest
    assert inspect(model.state_dict(), wrapped, images).reasons == inspect(model.state_dict(), None, images).reasons
    wrapped.pop(f"{outer}1.bias")
    assert "drift" in checks(inspect(wrapped, model, images))


def test_other_clients_digests_decide(images):
    model = mlp(1, 28, 32, 2, 0)
    own = inspect(model).digest
    assert not inspect(model, digests=[own]).refused
    assert checks(inspect(model, digests=[own, "0" * 64])) == {"digest"}


def test_a_model_that_holds_nan_is_refused_before_anything_is_run():
    model = mlp(1, 28, 32, 2, 0)
    with torch.no_grad():
        model[1].weight[0, 0] = torch.nan
    assert checks(inspect(model)) == {"numbers"}


def test_a_layer_too_large_to_judge_is_refused_at_once():
    verdict = inspect({"head.weight": torch.zeros(200_000, 1), "head.bias": torch.zeros(200_000)})
    assert verdict.refused
    assert "200,000 units; at most 131,072 are judged" in verdict.reasons[0].sentence
    assert not inspect({"head.weight": torch.randn(20, 4), "head.bias": torch.zeros(20)}).refused
