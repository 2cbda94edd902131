"""Unusual modules and states get a verdict: no exception comes out of the guard, and what is not judged is said."""

import copy

import pytest
import torch
import torch.nn.functional as F
from benchmarks._crafted import Disguise, front
from torch import nn
from torch.nn.utils import prune

from fluoroscope.data import Request, load
from fluoroscope.defences.guard import digest, inspect
from fluoroscope.defences.guard.copied import copied
from fluoroscope.defences.guard.layers import Layer
from fluoroscope.defences.guard.staircase import staircase
from fluoroscope.errors import BadInput


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    return load("phantom/chest", Request(size=28, images=64)).batch.images


def base() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 4))


def crafted() -> dict[str, torch.Tensor]:
    """Bins: every unit measures the brightness, at a threshold of its own."""
    state = base().state_dict()
    state["1.weight"] = torch.full((64, 784), 1 / 784)
    state["1.bias"] = -torch.linspace(0.1, 0.9, 64)
    return state


def judged(verdict) -> str:
    return "refused" if verdict.refused else "accepted" if verdict.accepted else "not judged"


class Keeps(nn.Module):
    """Keeps what it made, in several places, and a view of a weight."""

    def __init__(self):
        super().__init__()
        self.layers, self.kept = base(), {}
        self.turned = self.layers[1].weight.t()

    def forward(self, x):
        self.last = F.relu(x.flatten(1) @ self.turned + self.layers[1].bias)
        self.kept["all"] = [self.last, self.last[:, :2]]
        return self.layers[3](self.last)


class Turned(nn.Module):
    """A weight that every product takes turned round."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.w, self.out = nn.Parameter(torch.randn(784, 64) / 28), nn.Linear(64, 4)

    def forward(self, x):
        return self.out(F.relu(F.linear(x.flatten(1), self.w.t())))


class Part(Turned):
    """Only some columns of a weight are used."""

    def forward(self, x):
        return self.out(F.relu(F.linear(x.flatten(1)[:, :300], self.w.t()[:, :300])))


class Extra(nn.Linear):
    """Sends a dict beside its arrays."""

    def get_extra_state(self):
        return {"a": 1}

    def set_extra_state(self, state):
        pass


# --- layers that read an array in another way than it is sent ------------------------------------------------


@pytest.mark.parametrize("kind", [Turned, Part])
def test_a_weight_that_is_used_turned_round_or_in_part_is_judged(images, kind):
    model = kind()
    for given in (model, model.state_dict()):
        verdict = inspect(given, model, images, seed=1)
        assert verdict.ran
        assert not verdict.refused, verdict.summary


def test_bins_in_a_weight_that_is_used_turned_round_are_refused(images):
    class Biased(Turned):
        def __init__(self):
            super().__init__()
            self.b = nn.Parameter(torch.zeros(64))

        def forward(self, x):
            return self.out(F.relu(F.linear(x.flatten(1), self.w.t(), self.b)))

    agreed = Biased()
    brightness = images.flatten(1).mean(dim=1)
    levels = torch.quantile(brightness, (torch.arange(64) + 0.5) / 64)
    state = {**agreed.state_dict(), "w": torch.full((784, 64), 1 / 784), "b": -levels}
    assert judged(inspect(state, agreed, images, seed=1)) == "refused"


def test_units_whose_inputs_are_not_known_are_no_staircase():
    weight = torch.ones(64, 784)
    assert staircase(Layer("it", weight, torch.zeros(64), False, ())) == []


# --- copies --------------------------------------------------------------------------------------------------


def _normed() -> nn.Module:
    with pytest.warns(FutureWarning, match="weight_norm"):
        return _with(nn.utils.weight_norm)


def _with(change) -> nn.Module:
    model = base()
    change(model[1])
    return model


RAN = {
    "weight_norm": _normed,
    "spectral_norm": lambda: _with(nn.utils.spectral_norm),
    "prune": lambda: _with(lambda layer: prune.random_unstructured(layer, "weight", 0.5)),
    "its last output": Keeps,
}


@pytest.mark.parametrize("name", RAN)
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_module_that_has_run_is_judged(images, name):
    agreed = RAN[name]()
    agreed(images)
    with pytest.raises(RuntimeError, match="graph leaves"):  # without this, the test shows nothing
        copy.deepcopy(agreed)
    for model in (agreed, agreed.state_dict()):
        verdict = inspect(model, agreed, images, seed=1)
        assert verdict.ran, verdict.summary
        assert not verdict.refused, verdict.summary


@pytest.mark.parametrize("name", RAN)
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_copy_computes_with_its_own_weights_and_leaves_the_first_alone(images, name):
    first = RAN[name]()
    before = first(images).detach().clone()
    second = copied(copied(first))
    first.eval(), second.eval()
    assert torch.equal(second(images), first(images))
    with torch.no_grad():
        for value in second.parameters():
            value.copy_(torch.rand(value.shape, generator=torch.Generator().manual_seed(1)))
    fresh = RAN[name]().eval()
    fresh.load_state_dict(second.state_dict())
    assert torch.equal(second(images), fresh(images))
    assert not torch.allclose(second(images), before)
    first.train()
    if name != "spectral_norm":  # its powers go on with every run
        assert torch.equal(first(images), before)


def test_crafted_weights_are_refused_in_a_module_that_has_run(images):
    agreed = Keeps()
    agreed(images)
    state = {f"layers.{name}": value for name, value in crafted().items()}
    state["layers.1.bias"] = -torch.quantile(images.flatten(1).mean(dim=1), (torch.arange(64) + 0.5) / 64)
    assert judged(inspect(state, agreed, images, seed=1)) == "refused"


def test_an_agreed_module_that_cannot_be_copied_is_said(images):
    agreed = base()
    agreed.lines = (line for line in "ab")
    verdict = inspect(base().state_dict(), agreed, images)
    assert judged(verdict) == "not judged"
    assert "cannot pickle 'generator' object" in verdict.summary


# --- values that are no arrays of plain numbers -----------------------------------------------------------------


def test_a_dict_in_the_state_is_not_judged_and_excuses_no_weights(images):
    agreed = nn.Sequential(nn.Flatten(), Extra(784, 64), nn.ReLU(), nn.Linear(64, 4))
    for model in (agreed, agreed.state_dict()):
        verdict = inspect(model, agreed, images, digests=["0" * 64])
        assert (judged(verdict), verdict.digest) == ("not judged", "")
        assert "1._extra_state is a value of type dict and not an array (1 are not)" in verdict.summary
    state = {**agreed.state_dict(), **crafted()}
    state["1.bias"] = -torch.quantile(images.flatten(1).mean(dim=1), (torch.arange(64) + 0.5) / 64)
    assert judged(inspect(state, agreed, images)) == "refused"


def test_numpy_arrays_are_not_judged(images):
    verdict = inspect({name: value.numpy() for name, value in base().state_dict().items()}, base(), images)
    assert judged(verdict) == "not judged"
    assert "a value of type ndarray" in verdict.summary


def test_a_number_that_was_not_agreed_is_refused(images):
    assert judged(inspect({**base().state_dict(), "n": 3}, base(), images)) == "refused"
    assert judged(inspect({**base().state_dict(), "n": 3})) == "not judged"


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_a_dynamically_quantised_module_is_not_judged(images):
    model = torch.ao.quantization.quantize_dynamic(base().eval(), {nn.Linear})
    assert judged(inspect(model, model, images)) == "not judged"


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_arrays_without_plain_numbers_are_refused(images):
    quantised = torch.quantize_per_tensor(torch.ones(64), 0.1, 0, torch.qint8)
    for value in (quantised, torch.eye(64).to_sparse(), torch.zeros(64, device="meta")):
        verdict = inspect({**base().state_dict(), "1.bias": value}, base(), images)
        assert verdict.refused
        assert "numbers" in {reason.check for reason in verdict.reasons}


def test_a_layer_that_is_not_initialised_is_refused_and_filled_where_it_was_agreed(images):
    lazy = nn.Sequential(nn.Flatten(), nn.LazyLinear(64), nn.ReLU(), nn.Linear(64, 4))
    assert judged(inspect(lazy, lazy, images)) == "refused"
    assert judged(inspect(lazy.state_dict(), base(), images)) == "refused"
    assert judged(inspect(base().state_dict(), lazy, images, seed=1)) == "accepted"
    with pytest.raises(BadInput, match="is not initialised: send arrays of plain numbers"):
        digest(lazy.state_dict())


def test_an_agreed_network_without_values_gives_shapes_alone(images):
    verdict = inspect(base().state_dict(), base().to("meta"), images)
    assert judged(verdict) == "not judged"
    assert "on the meta device: give it with values" in verdict.summary
    other = nn.Sequential(nn.Flatten(), nn.Linear(784, 8), nn.ReLU(), nn.Linear(8, 4)).to("meta")
    assert "drift" in {reason.check for reason in inspect(base().state_dict(), other, images).reasons}


def test_a_front_is_refused_beside_an_agreed_network_without_values(images):
    """It has no numbers that could look alike, and so excuses nothing."""
    added = front("brightness", (1, 28, 28), 60, images.flatten(1), Disguise(), torch.Generator().manual_seed(1))
    model = nn.Sequential(added, base())
    assert inspect(model, copy.deepcopy(model).to("meta"), images).refused
