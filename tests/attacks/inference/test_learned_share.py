"""A client's share of a property, on a network whose update is the mean image: the share can be read off exactly."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from fluoroscope.attacks.inference import PROPERTY_ATTACKS, Share
from fluoroscope.attacks.inference.learned_share import LearnedShare
from fluoroscope.errors import BadInput, Misconfigured, Unsupported
from fluoroscope.federation.client_round import client_round
from fluoroscope.rng import generator
from fluoroscope.threat_models import THREATS, observe
from fluoroscope.types import Capability, LabelledImages, LocalTraining, Network, PrivateBatch, Sgd

NETWORK = Network.of(nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), (1, 2, 2))
TRAINING = LocalTraining(Sgd(0.1), images=20, batch_size=20)
SERVER = THREATS.get("curious-server").without(Capability.PRIOR)


def images(count, bright):
    """The first pixel says it, and nothing else: all labels are alike."""
    pixels = torch.full((count, 1, 2, 2), 0.5)
    pixels[:, 0, 0, 0] = torch.tensor([1.0 if i < bright else 0.0 for i in range(count)])
    return PrivateBatch(pixels, torch.zeros(count, dtype=torch.int64), ("",) * count)


PUBLIC = images(32, 16)
HAVING = torch.arange(32) < 16


def seen(bright, **without):
    public = LabelledImages(PUBLIC.images, PUBLIC.labels)
    record = client_round(NETWORK, NETWORK.build(0).state_dict(), images(20, bright), TRAINING, generator(1)).record
    return replace(observe(record, SERVER, public_images=public), **without)


@pytest.mark.parametrize("bright", [0, 5, 13, 20])
def test_a_share_that_an_update_shows_is_read(bright):
    (found,) = LearnedShare(24).run([seen(bright)], HAVING, generator(0))
    assert found.value == pytest.approx(bright / 20, abs=0.02)
    assert found.low <= bright / 20 <= found.high


def test_where_nothing_shows_it_the_interval_says_so():
    """A property that half of the bright and half of the dark images have."""
    (found,) = LearnedShare(40).run([seen(5)], torch.arange(32) % 2 == 0, generator(0))
    assert found.high - found.low > 0.5


def test_clients_of_one_round_are_learned_for_once_and_the_same_seed_gives_the_same():
    twice = [LearnedShare(19).run([seen(4), seen(9)], HAVING, generator(0)) for _ in range(2)]
    assert twice[0] == twice[1]
    assert twice[0][0] == LearnedShare(19).run([seen(4)], HAVING, generator(0))[0]


def test_what_it_cannot_do_is_said():
    with pytest.raises(Misconfigured, match="19 simulations or more"):
        LearnedShare(8).run([seen(4)], HAVING, generator(0))
    with pytest.raises(BadInput, match="with the property and without: 0 of 32"):
        LearnedShare(19).run([seen(4)], torch.zeros(32, dtype=torch.bool), generator(0))
    with pytest.raises(Unsupported, match="every array stayed at home"):
        LearnedShare(19).run([seen(4, update={}, buffers_after=None)], HAVING, generator(0))
    with pytest.raises(Unsupported, match="learned-share needs the capability 'public-images'"):
        LearnedShare(19).run([observe_without_public()], HAVING, generator(0))


def observe_without_public():
    record = client_round(NETWORK, NETWORK.build(0).state_dict(), images(20, 4), TRAINING, generator(1)).record
    return observe(record, SERVER.without(Capability.PUBLIC_IMAGES))


@pytest.mark.parametrize("name", list(PROPERTY_ATTACKS))
def test_every_property_attack_keeps_to_the_contract(name):
    attack = PROPERTY_ATTACKS.get(name)
    (found,) = replace(attack, simulations=19).run([seen(7)], HAVING, generator(0))
    assert isinstance(found, Share)
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert attack.needs <= THREATS.get("curious-server").capabilities
