"""A participant sees what it is granted of a round; and one table says what a capability shows."""

from dataclasses import fields

import pytest
import torch
from torch import nn

from fluoroscope.threat_models import THREATS, ParticipantObservation, observe_round
from fluoroscope.threat_models.grants import GRANTS
from fluoroscope.threat_models.needs import missing
from fluoroscope.types import Capability, LocalTraining, Network, RoundView, Sgd

CURIOUS = THREATS.get("curious-client")
NETWORK = Network.of(nn.Sequential(nn.BatchNorm2d(1), nn.Flatten(), nn.Linear(4, 2)), (1, 2, 2))
TRAINING = LocalTraining(Sgd(0.1), images=1, batch_size=1)


def view():
    return RoundView(4, NETWORK, NETWORK.build().state_dict(), {"loss": 0.5})


def test_it_is_sent_the_model_that_came_of_the_round():
    seen, was = observe_round(view(), TRAINING, CURIOUS), view()
    assert seen.round == 5, "the round that begins with it"
    assert seen.metrics == {"loss": 0.5}
    assert set(seen.buffers_before) == {"0.running_mean", "0.running_var", "0.num_batches_tracked"}
    both = {**seen.state_before, **seen.buffers_before}
    assert both.keys() == was.state.keys()
    assert all(torch.equal(value, was.state[name]) for name, value in both.items())


def test_nobodys_update_is_in_it():
    """Not even for one to whom everything was granted: a round's outcome holds none."""
    seen = observe_round(view(), TRAINING, CURIOUS.granted(*Capability))
    assert seen.update is None
    assert seen.buffers_after is None
    assert seen.labels is None
    assert seen.cohort == ()


@pytest.mark.parametrize("capability", sorted(CURIOUS.capabilities))
def test_what_is_not_granted_is_not_there(capability):
    seen = observe_round(view(), TRAINING, CURIOUS.without(capability))
    assert missing(seen, sorted(CURIOUS.capabilities)) == [capability]
    assert all(getattr(seen, name) is None for name in GRANTS[capability])


def test_the_table_has_every_capability_and_every_field_once():
    assert set(GRANTS) == set(Capability)
    listed = [name for names in GRANTS.values() for name in names]
    about = {"knowledge", "round", "cohort"}
    assert sorted(listed) == sorted({field.name for field in fields(ParticipantObservation)} - about)
