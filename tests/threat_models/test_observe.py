"""An observation holds what was granted, and has no room for the truth."""

from dataclasses import fields

import pytest
import torch

from fluoroscope.defences import NO_DEFENCE
from fluoroscope.errors import Misconfigured, Unsupported
from fluoroscope.models import Architecture
from fluoroscope.threat_models import THREATS, observe
from fluoroscope.threat_models.needs import missing, require
from fluoroscope.types import Capability, LabelledImages, LocalTraining, Observation, PrivateBatch, Sgd, UpdateRecord

SERVER = THREATS.get("curious-server")


def record(buffers: bool = True) -> UpdateRecord:
    return UpdateRecord(
        round=1,
        cohort=("client-9",),
        network=Architecture("small-cnn", 1, 2, 28),
        training=LocalTraining(Sgd(0.1), 1, 1),
        state_before={"w": torch.ones(2)},
        state_after={"w": torch.tensor([1.5, 0.5])},
        buffers_before={"bn": torch.zeros(1)},
        buffers_after={"bn": torch.ones(1)} if buffers else None,
    )


def test_a_curious_server_sees_what_the_spec_grants():
    seen = observe(record(), SERVER, public_mean=torch.zeros(1, 28, 28))
    assert torch.equal(seen.update["w"], torch.tensor([0.5, -0.5]))
    assert torch.equal(seen.buffers_after["bn"], torch.ones(1))
    assert seen.training == LocalTraining(Sgd(0.1), 1, 1)
    assert seen.labels is None


@pytest.mark.parametrize("capability", list(Capability))
def test_what_is_not_granted_is_not_there(capability):
    known = SERVER.granted(Capability.LABELS).without(capability)
    prior = None if capability is Capability.PRIOR else torch.zeros(1, 28, 28)
    labels = None if capability is Capability.LABELS else torch.tensor([1])
    public = LabelledImages(torch.zeros(2, 1, 28, 28), torch.tensor([0, 1]))
    seen = observe(
        record(),
        known,
        prior,
        labels,
        public_images=None if capability is Capability.PUBLIC_IMAGES else public,
        defence=None if capability is Capability.DEFENCE else NO_DEFENCE,
    )
    assert missing(seen, list(Capability)) == [capability]


def test_truth_cannot_be_handed_over_by_the_way():
    with pytest.raises(Misconfigured, match="labels given to an attacker without the capability 'labels'"):
        observe(record(), SERVER, labels=torch.tensor([1]))
    assert "batch" not in {field.name for field in fields(Observation)}
    assert not any(field.type is PrivateBatch for field in fields(Observation))


def test_known_labels_come_without_their_order():
    seen = observe(record(), SERVER.granted(Capability.LABELS), labels=torch.tensor([1, 0, 1]))
    assert seen.labels.tolist() == [0, 1, 1]


def test_a_missing_need_says_how_it_can_be_had():
    poor = observe(record(), SERVER.without(Capability.BUFFERS))
    with pytest.raises(Unsupported, match=r"epochwise needs the capability 'buffers': grant it with --grant buffers"):
        require("epochwise", poor, {Capability.BUFFERS})
    withheld = observe(record(buffers=False), SERVER)
    with pytest.raises(Unsupported, match="withheld from this record"):
        require("epochwise", withheld, {Capability.BUFFERS})
