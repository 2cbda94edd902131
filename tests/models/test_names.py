"""Names that wrappers changed are the network's again, and nothing else is taken off."""

import pytest
import torch
from torch import nn

from fluoroscope.models.names import TOOLS, completed, prefix_of, unwrapped

OWN = ("fc.weight", "fc.bias")


def under(prefix, names=OWN):
    return [f"{prefix}{name}" for name in names]


@pytest.mark.parametrize("prefix", ["", "module.", "_module.", "_orig_mod.module.", "model.", "module.net."])
def test_the_prefix_is_found_with_the_network_and_without(prefix):
    assert prefix_of(under(prefix), OWN) == prefix
    assert prefix_of(under(prefix)) == prefix


def test_a_network_s_own_names_stay():
    own = under("model.")
    assert prefix_of(own, own) == ""
    assert prefix_of(under("module.", own), own) == "module."
    assert prefix_of(under("module.", own), wrappers=TOOLS) == "module.", "without the network, tools' alone"


def test_what_stands_beside_the_network_is_left_out_only_where_that_is_allowed():
    given = {**dict.fromkeys(under("model."), 1), "scan": 2}
    assert unwrapped(given, OWN) == given
    assert unwrapped(given, OWN, beside=True) == dict.fromkeys(OWN, 1)


def test_names_that_are_wrappers_for_ever_end():
    assert len(prefix_of(["module." * 500 + "w"])) < 100
    assert prefix_of([]) == ""


def test_only_what_is_not_trained_is_filled_in():
    network = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    adapter = {name: torch.ones_like(value) for name, value in network.state_dict().items() if name[0] == "1"}
    assert completed(adapter, network).keys() == adapter.keys()
    whole = completed(adapter, network, frozen=("0.*",))
    assert torch.equal(whole["0.weight"], network.state_dict()["0.weight"])
    assert torch.equal(whole["1.weight"], adapter["1.weight"])
    assert completed({**adapter, "scan": torch.ones(1)}, network, frozen=("0.*",)).keys() == {*adapter, "scan"}
