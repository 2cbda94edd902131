"""What the server sends: neurons that fire as their features say, and neurons that never do."""

import pytest
import torch

from fluoroscope.attacks.imprint import Brightness, MediLeak, SmoothProjections
from fluoroscope.errors import Unsupported
from fluoroscope.models import MODELS, Architecture
from fluoroscope.models.front import Front, FrontedNetwork
from fluoroscope.types import Adam, LocalTraining

from .victims import FIRST, crafted, one_step, phantoms, places, rng, update_of

FRONTS = ["gated", "plain", "sparse"]
LEAKS = [
    MediLeak(70, features, front, steady)
    for features in (SmoothProjections(), Brightness())
    for front, steady in (("gated", False), ("plain", False), ("sparse", False), ("plain", True))
    if front != "sparse" or features == Brightness()
]
each_leak = pytest.mark.parametrize("leak", LEAKS, ids=lambda leak: f"{leak.features}-{leak.front}-{leak.steady}")


def front_of(sent, state):
    network = sent.network.build()
    network.load_state_dict(state)
    return network.front.eval()


def before_activation(sent, state, images):
    with torch.no_grad():
        return front_of(sent, state).first(images.flatten(1))


@each_leak
@pytest.mark.parametrize("channels", [1, 3])
def test_a_neuron_fires_exactly_where_its_feature_exceeds_its_threshold(leak, channels):
    sent = crafted(leak, 20, channels=channels)
    images = phantoms(100, 7, channels=channels).images
    fires = before_activation(sent, sent.victim, images) > 0
    for i, feature in enumerate(sent.bins.features):
        gap = feature(images)[:, None] - sent.bins.thresholds[i]
        own = fires[:, i * sent.bins.width : (i + 1) * sent.bins.width]
        sure = gap.abs() > 1e-5
        assert sure.double().mean() > 0.99
        assert torch.equal(own[sure], (gap > 0)[sure])
        assert (gap > 0)[:, 2:].any()
        assert (gap < 0).any()
    assert not fires[:, sent.bins.silent :].any()


@each_leak
@pytest.mark.parametrize("channels", [1, 3])
def test_for_the_others_no_neuron_fires_for_any_image(leak, channels):
    """Phantoms, noise, black and white, and the image that each neuron likes best: 1 where its weight is positive."""
    sent = crafted(leak, 20, channels=channels)
    shape = (channels, 28, 28)
    noise = torch.rand((50, *shape), generator=rng())
    best = (sent.others["front.first.weight"] > 0).float().view(-1, *shape)
    images = [phantoms(60, 3, channels=channels).images, noise, noise.round(), torch.ones(1, *shape), best]
    for some in (*images, torch.zeros(1, *shape)):
        assert (before_activation(sent, sent.others, some) < 0).all()
    assert (before_activation(sent, sent.victim, best) > 0).any(), "the victim's do"


def test_what_is_black_where_a_feature_looks_is_above_all_its_thresholds():
    """Without a bias such an image would lie on every threshold, and rounding would say which neurons fire."""
    sent = crafted(MediLeak(70, steady=True), 20)
    for i, feature in enumerate(sent.bins.features):
        image = (~feature.support).float().view(1, 1, 28, 28)
        fires = before_activation(sent, sent.victim, image)[0] > 0
        assert fires[i * sent.bins.width : (i + 1) * sent.bins.width].all()


@each_leak
def test_only_the_first_layer_s_bias_tells_the_victim_from_the_others(leak):
    sent = crafted(leak, 20)
    different = [name for name in sent.victim if not torch.equal(sent.victim[name], sent.others[name])]
    assert different == ["front.first.bias"]
    assert list(sent.victim) == list(sent.others)
    assert {name: value.shape for name, value in sent.network.build().state_dict().items()} == {
        name: value.shape for name, value in sent.victim.items()
    }
    assert all(value.dtype == torch.float32 and value.isfinite().all() for value in sent.victim.values())


@pytest.mark.parametrize("leak", [MediLeak(70), MediLeak(70, Brightness()), MediLeak(70, front="plain")], ids=str)
def test_the_network_behind_sees_nearly_one_image(leak):
    """So that every image's gradient is that of the mean auxiliary image."""
    sent = crafted(leak, 20)
    with torch.no_grad():
        made = front_of(sent, sent.victim)(phantoms(20, 3).images)
    assert (made - sent.auxiliary.mean(0)).abs().max() < 5e-3


def test_plain_columns_are_identical_and_so_the_neurons_share_one_gradient():
    sent = crafted(MediLeak(70, front="plain"), 20)
    weight = sent.victim["front.second.weight"]
    assert weight.shape == (28 * 28, 70)
    assert torch.equal(weight, weight[:, :1].expand_as(weight))
    assert weight.any()


def test_the_gate_is_open_for_all_before_training():
    sent = crafted(MediLeak(70), 20)
    front = front_of(sent, sent.victim)
    with torch.no_grad():
        hidden = front.gate(front.activation(front.first(phantoms(20, 3).images.flatten(1))))
    assert (hidden > 0).all()


SLOW = {"resnet18-sigmoid"}  # stride 1 everywhere


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in MODELS]
)
def test_before_every_network_the_front_is_given_a_gradient(name):
    victims = phantoms(4, 3, size=32)
    sent = crafted(MediLeak(40), 4, name, size=32)
    update = update_of(sent, victims)
    assert all(update[part].isfinite().all() for part in FIRST)
    where = places(sent.bins, victims.images)
    rows = (where + torch.arange(3) * sent.bins.width).flatten()
    assert (update["front.first.weight"][rows].abs().amax(1) > 0).all(), "of each image's own bins"
    assert (update["front.first.bias"][rows] != 0).all()
    assert not update["front.first.weight"][sent.bins.silent :].any()


def test_a_given_state_is_what_the_front_stands_before():
    agreed = Architecture("lenet5", 1, 2, 28)
    own, state = phantoms(400, 99), agreed.build(seed=7).state_dict()
    before = {name: value.clone() for name, value in state.items()}
    sent = MediLeak(40).craft(agreed, one_step(20), own.images, own.labels, rng(), state)
    assert all(torch.equal(state[name], before[name]) for name in state), "nothing changes its input"
    changed = [name for name in state if not torch.equal(sent.victim[f"network.{name}"], state[name])]
    assert changed == ["fc.weight", "fc.bias"]


def test_crafting_is_decided_by_its_generator():
    once, again, other = (crafted(MediLeak(40), 20, seed=seed).victim for seed in (1, 1, 2))
    assert all(torch.equal(once[name], again[name]) for name in once)
    assert not torch.equal(once[FIRST[0]], other[FIRST[0]])


def test_adam_is_refused():
    own = phantoms(400, 99)
    with pytest.raises(Unsupported, match="clients must train by SGD"):
        MediLeak(40).craft(
            Architecture("lenet5", 1, 2, 28), LocalTraining(Adam(), 20, 20), own.images, own.labels, rng()
        )


def test_an_agreed_network_with_a_front_is_refused():
    own, agreed = phantoms(400, 99), FrontedNetwork(Architecture("lenet5", 1, 2, 28), Front(8))
    with pytest.raises(Unsupported, match="has a front already"):
        MediLeak(40).craft(agreed, one_step(20), own.images, own.labels, rng())


def test_a_hard_tanh_with_ratios_is_refused():
    """A ratio's neuron measures (h - q) times the image's brightness: a ceiling would not be the bin's width."""
    with pytest.raises(Unsupported, match="Brightness"):
        crafted(MediLeak(70, SmoothProjections(), "sparse"), 4)
