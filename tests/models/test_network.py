"""Any module as a network: it is built again as it was, whatever it returns."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from fluoroscope.digest import digest
from fluoroscope.errors import BadInput, Misconfigured, Unsupported
from fluoroscope.federation.client_round import client_round
from fluoroscope.models import Architecture, ImportedNetwork
from fluoroscope.types import LocalTraining, Network, PrivateBatch, Sgd, UpdateRecord


@dataclass
class ModelOutput:
    """As Hugging Face's classes return it."""

    loss: None
    logits: Tensor


class Returning(nn.Module):
    """A user's own class, with a buffer that no state dict holds, and a tied weight."""

    def __init__(self, how: str = "tensor") -> None:
        super().__init__()
        self.how = how
        self.first = nn.Linear(12, 12)
        self.second = nn.Linear(12, 12)
        self.second.weight = self.first.weight
        self.head = nn.Linear(12, 3)
        self.register_buffer("offsets", torch.arange(12.0) / 100, persistent=False)

    def forward(self, x: Tensor) -> object:
        scores = self.head(torch.relu(self.second(torch.relu(self.first(x.flatten(1) + self.offsets)))))
        return {
            "tensor": scores,
            "object": ModelOutput(None, scores),
            "mapping": {"logits": scores},
            "tuple": (scores, [x]),
            "nothing": None,
        }[self.how]


def batch(shape, n=2):
    return PrivateBatch(
        torch.rand(n, *shape, generator=torch.Generator().manual_seed(0)), torch.arange(n) % 2, ("",) * n
    )


@pytest.mark.parametrize("how", ["tensor", "object", "mapping", "tuple"])
def test_scores_are_found_in_what_a_module_returns(how):
    torch.manual_seed(0)
    module = Returning(how)
    network = Network.of(module, (2, 3, 2))
    images = torch.rand(4, 2, 3, 2)
    assert (network.outputs, network.input_shape) == (3, (2, 3, 2))
    plain = Returning()
    plain.load_state_dict(module.state_dict())
    assert torch.equal(network.build()(images), plain(images))


def test_what_holds_no_scores_is_refused():
    with pytest.raises(Unsupported, match="returns NoneType"):
        Network.of(Returning("nothing"), (2, 3, 2))
    with pytest.raises(Unsupported, match=r"gives \(2, 4, 6, 6\) for two images"):
        Network.of(nn.Conv2d(1, 4, 3), (1, 8, 8))
    with pytest.raises(Unsupported, match="does not run on images of shape"):
        Network.of(Returning(), (1, 8, 8))
    with pytest.raises(BadInput, match="channels, height, width"):
        Network.of(Returning(), (8, 8))


def test_the_module_is_copied():
    module = Returning()
    network = Network.of(module, (2, 3, 2))
    before = network.build().state_dict()["head.weight"].clone()
    with torch.no_grad():
        module.head.weight.add_(1)
        network.build().head.weight.add_(1)
    assert torch.equal(network.build().state_dict()["head.weight"], before)


def test_tied_weights_and_private_buffers_train():
    """Every name of the state is sent; a tied weight is one weight under two names."""
    network = Network.of(Returning(), (2, 3, 2))
    state = network.build().state_dict()
    assert "offsets" not in state
    sent = client_round(
        network, state, batch((2, 3, 2)), LocalTraining(Sgd(0.1), 2, 2), torch.Generator().manual_seed(0)
    ).sent
    assert set(sent) == set(state)
    assert torch.equal(sent["first.weight"], sent["second.weight"])
    assert not torch.equal(sent["first.weight"], state["first.weight"])


def test_keys_tell_networks_apart():
    one, same = Network.of(Returning(), (2, 3, 2)), Network.of(Returning(), (2, 3, 2))
    other = Network.of(Returning(), (1, 4, 3))
    assert one.key == same.key != other.key
    assert digest(one) == digest(same) != digest(other)
    assert Architecture("lenet5", 1, 2, 32).key != Architecture("lenet5", 1, 2, (32, 28)).key


@pytest.mark.parametrize("name", ["lenet5", "p3-cnn", "resnet18", "resnet18-sigmoid", "small-cnn", "vit-small"])
def test_registered_networks_take_any_channels_and_sides(name):
    network = Architecture(name, channels=2, classes=3, size=(36, 52))
    assert network.input_shape == (2, 36, 52)
    assert network.build()(torch.rand(2, 2, 36, 52)).shape == (2, 3)


def test_a_network_by_import_path():
    made = ImportedNetwork("tests.models.test_network:Returning", {"how": "object"}, (2, 3, 2))
    assert (made.path, made.arguments, made.outputs) == ("tests.models.test_network:Returning", {"how": "object"}, 3)
    one, same, other = (made.build(seed).state_dict()["head.weight"] for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    with pytest.raises(Misconfigured, match="not an import path"):
        ImportedNetwork("torch.nn.Flatten", {}, (1, 2, 2))
    with pytest.raises(BadInput, match="cannot be imported"):
        ImportedNetwork("no_such_package:net", {}, (1, 2, 2))
    with pytest.raises(BadInput, match="not a torch module"):
        ImportedNetwork("builtins:dict", {}, (1, 2, 2))
    with pytest.raises(BadInput, match="failed with TypeError"):
        ImportedNetwork("torch.nn:Linear", {"wide": 3}, (1, 2, 2))


def record_of(module, before, after, **more):
    return UpdateRecord.between(module, before, after, LocalTraining(Sgd(0.1), 1, 1), **more)


def test_a_record_between_two_state_dicts():
    module = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(72, 2))
    before = {name: value.clone() for name, value in module.state_dict().items()}
    after = {name: value + 1 for name, value in before.items()}
    record = record_of(module, before, after, input_shape=(1, 8, 8), round=3, client="north")
    assert (record.round, record.cohort) == (3, ("north",))
    assert set(record.state_before) == {"0.weight", "0.bias", "1.weight", "1.bias", "3.weight", "3.bias"}
    assert set(record.buffers_after) == {"1.running_mean", "1.running_var", "1.num_batches_tracked"}
    assert all(torch.allclose(change, torch.ones_like(change)) for change in record.arrays.values())
    kept = {name: value for name, value in after.items() if not name.startswith("1.")}
    assert record_of(module, before, kept, input_shape=(1, 8, 8)).buffers_after is None
    halves = {name: value.half() if value.is_floating_point() else value for name, value in after.items()}
    assert record_of(module, before, halves, input_shape=(1, 8, 8)).state_after["0.weight"].dtype == torch.float32


def test_two_states_that_do_not_fit_are_named():
    module = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    state = module.state_dict()
    with pytest.raises(Misconfigured, match="needs input_shape"):
        record_of(module, state, state)
    with pytest.raises(BadInput, match=r"before the round lacks '1\.bias'"):
        record_of(module, {"1.weight": state["1.weight"]}, state, input_shape=(1, 2, 2))
    with pytest.raises(BadInput, match=r"after the round has 'extra'"):
        record_of(module, state, {**state, "extra": torch.ones(1)}, input_shape=(1, 2, 2))
    with pytest.raises(BadInput, match=r"'1\.weight' of shape \(2, 5\), and Sequential has \(2, 4\)"):
        record_of(module, state, {**state, "1.weight": torch.ones(2, 5)}, input_shape=(1, 2, 2))
