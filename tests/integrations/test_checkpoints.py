"""Two files of somebody's federation become one record, whatever wrote them."""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from fluoroscope.errors import BadInput
from fluoroscope.integrations.checkpoints import fitted, record_of_files
from fluoroscope.types import LocalTraining, Network, Sgd

TRAINING = LocalTraining(Sgd(0.1), images=1, batch_size=1)


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4 * 36, 2))


OWN = Network.of(network(), (1, 8, 8))
BEFORE, AFTER = network(0).state_dict(), network(1).state_dict()
CHANGE = {name: AFTER[name] - BEFORE[name] for name, _ in network().named_parameters()}


def renamed(state, prefix):
    return {f"{prefix}{name}": value for name, value in state.items()}


@pytest.mark.parametrize("prefix", ["", "module.", "_orig_mod.", "_module.", "model.", "module._orig_mod.", "net."])
@pytest.mark.parametrize("kind", ["pt", "nested", "safetensors", "npz"])
def test_the_update_is_the_same_whatever_wrote_the_files(tmp_path, prefix, kind):
    for name, state in (("before", BEFORE), ("after", AFTER)):
        state = renamed(state, prefix)
        if kind == "safetensors":
            save_file(state, tmp_path / f"{name}.safetensors")
        elif kind == "npz":
            np.savez(tmp_path / f"{name}.npz", **{key: value.numpy() for key, value in state.items()})
        else:
            torch.save(state if kind == "pt" else {"state_dict": state, "epoch": 1}, tmp_path / f"{name}.pt")
    ending = "pt" if kind == "nested" else kind
    record = record_of_files(OWN, tmp_path / f"before.{ending}", tmp_path / f"after.{ending}", TRAINING)
    assert record.arrays.keys() == CHANGE.keys()
    assert all(torch.equal(record.arrays[name], value) for name, value in CHANGE.items())
    assert torch.equal(record.buffers_after["1.running_mean"], AFTER["1.running_mean"])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions_become_the_networks_own(dtype):
    found = fitted({name: v.to(dtype) if v.is_floating_point() else v for name, v in BEFORE.items()}, OWN)
    assert {value.dtype for value in found.values() if value.is_floating_point()} == {torch.float32}
    assert all(torch.allclose(found[name].double(), BEFORE[name].double(), atol=0.01) for name in BEFORE)


def test_what_lightning_keeps_beside_the_network_is_left_out():
    found = fitted({**renamed(BEFORE, "model."), "criterion.weight": torch.ones(2)}, OWN)
    assert found.keys() == BEFORE.keys()


def test_a_network_whose_own_names_begin_like_a_wrapper_is_left_alone():
    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = network()

        def forward(self, x):
            return self.model(x)

    state = Wrapped().state_dict()
    assert fitted(state, Network.of(Wrapped(), (1, 8, 8))).keys() == state.keys()
    assert fitted(renamed(state, "module."), Network.of(Wrapped(), (1, 8, 8))).keys() == state.keys()


def test_arrays_without_names_are_taken_in_order(tmp_path):
    for name, state in (("before", BEFORE), ("after", AFTER)):
        np.savez(tmp_path / f"{name}.npz", *(value.numpy() for value in state.values()))
    record = record_of_files(OWN, tmp_path / "before.npz", tmp_path / "after.npz", TRAINING)
    assert all(torch.equal(record.arrays[name], value) for name, value in CHANGE.items())


def test_what_stays_at_home_and_counters_may_be_absent(tmp_path):
    torch.save({k: v for k, v in BEFORE.items() if "tracked" not in k}, tmp_path / "before.pt")
    torch.save({"3.weight": AFTER["3.weight"]}, tmp_path / "after.pt")
    record = record_of_files(OWN, tmp_path / "before.pt", tmp_path / "after.pt", TRAINING)
    assert list(record.arrays) == ["3.weight"]
    assert record.buffers_after is None


def test_another_networks_file_is_named(tmp_path):
    torch.save({"encoder.weight": torch.zeros(2)}, tmp_path / "other.pt")
    torch.save(BEFORE, tmp_path / "before.pt")
    with pytest.raises(BadInput, match=r"other\.pt: it holds encoder\.weight, and Sequential has 0\.weight"):
        record_of_files(OWN, tmp_path / "before.pt", tmp_path / "other.pt", TRAINING)
    torch.save({**BEFORE, "3.weight": torch.zeros(3, 3)}, tmp_path / "shape.pt")
    with pytest.raises(BadInput, match=r"'3\.weight' of shape \(3, 3\)"):
        record_of_files(OWN, tmp_path / "before.pt", tmp_path / "shape.pt", TRAINING)
