"""The model that is attacked follows from what is granted, and is run as its training says."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from fluoroscope.attacks.inference import INFERENCE_ATTACKS
from fluoroscope.attacks.inference.likelihood_ratio import confidences
from fluoroscope.attacks.inference.seen_model import SeenModel
from fluoroscope.errors import Misconfigured, Unsupported
from fluoroscope.threat_models import observe
from fluoroscope.types import (
    BinaryCrossEntropy,
    Capability,
    CrossEntropy,
    LabelledImages,
    Network,
    Normalisation,
    UpdateRecord,
    blueprint,
)
from tests.attacks.inference.one_layer import NETWORK, SERVER, TRAINING, records, rng, sent, state, told

WITH_BATCHNORM = Network.of(nn.Sequential(nn.BatchNorm2d(1), nn.Flatten(), nn.Linear(4, 2)), (1, 2, 2))


@pytest.fixture
def record():
    """Every array of the client is one more than before."""
    before = WITH_BATCHNORM.build().state_dict()
    return UpdateRecord.between(WITH_BATCHNORM, before, {n: v + 1 for n, v in before.items()}, TRAINING)


def test_it_is_the_model_that_was_sent(record):
    found = SeenModel.of(observe(record, SERVER)).state
    after = {**record.state_after, **record.buffers_after}
    assert found.keys() == after.keys()
    for name, value in after.items():
        torch.testing.assert_close(found[name], value)


def test_what_did_not_leave_is_as_the_round_began(record):
    kept = replace(record, state_after={"2.bias": record.state_after["2.bias"]}, buffers_after=None)
    found = SeenModel.of(observe(kept, SERVER)).state
    before = {**record.state_before, **record.buffers_before}
    assert [name for name, value in before.items() if not torch.equal(found[name], value)] == ["2.bias"]


@pytest.mark.parametrize(
    ("without", "before"),
    [(Capability.BUFFERS, {"0.running_mean", "0.running_var"}), (Capability.UPDATE, {"2.weight", "0.weight"})],
)
def test_what_is_not_granted_does_not_enter(record, without, before):
    found = SeenModel.of(observe(record, SERVER.without(without))).state
    was = {**record.state_before, **record.buffers_before}
    for name in before:
        assert torch.equal(found[name], was[name])
    assert any(not torch.equal(found[name], was[name]) for name in was), "the rest did"


def test_a_participant_sees_the_global_model():
    assert torch.equal(SeenModel.of(told(0.5, gain=3.0)).state["1.weight"], state(3.0)["1.weight"])


def test_images_are_normalised_as_in_the_training():
    normalised = replace(TRAINING, normalisation=Normalisation((0.5,), (0.25,)))
    found = SeenModel.of(sent(1.0, normalised)).logits(records([[1.0, 0.25]], [0]))
    assert found.tolist() == [[2.0, -1.0]]
    unknown = sent(1.0, normalised, SERVER.without(Capability.TRAINING))
    assert SeenModel.of(unknown).logits(records([[1.0, 0.25]], [0])).tolist() == [[1.0, 0.25]]


def test_the_loss_is_that_of_the_training():
    asked, loss = records([[1.0, 0.0], [0.5, 2.0]], [0, 1]), CrossEntropy((1.0, 5.0), 0.1)
    outputs = torch.tensor([[1.0, 0.0], [0.5, 2.0]], dtype=torch.float64)
    torchs = nn.CrossEntropyLoss(torch.tensor([1.0, 5.0]).double(), label_smoothing=0.1, reduction="sum")
    expected = [torchs(outputs[i : i + 1], asked.labels[i : i + 1]).item() for i in (0, 1)]
    weighed = replace(TRAINING, loss=loss)
    assert SeenModel.of(sent(1.0, weighed)).losses(asked).tolist() == pytest.approx(expected)
    unknown = SeenModel.of(sent(1.0, weighed, SERVER.without(Capability.TRAINING))).losses(asked)
    assert unknown.tolist() == pytest.approx(nn.functional.cross_entropy(outputs, asked.labels, reduction="none"))


def test_several_findings_per_image_have_a_loss_and_no_likelihood_ratio():
    asked = LabelledImages(records([[1.0, 0.0]], [0]).images, torch.tensor([[1.0, 0.0]]))
    seen = sent(1.0, replace(TRAINING, loss=BinaryCrossEntropy()))
    expected = nn.functional.binary_cross_entropy_with_logits(torch.tensor([[1.0, 0.0]]), asked.labels)
    assert INFERENCE_ATTACKS.get("loss").run([seen], asked, rng()).item() == pytest.approx(-float(expected))
    with pytest.raises(Unsupported, match="one true class per image"):
        confidences(SeenModel.of(seen), asked)


def test_nothing_to_look_at_is_said():
    with pytest.raises(Misconfigured, match="loss was given no observation"):
        INFERENCE_ATTACKS.get("loss").run([], records([[1.0, 0.0]], [0]), rng())


def test_an_attack_that_trains_asks_for_images_of_its_own():
    with pytest.raises(Misconfigured, match="lira trains shadow models on images of its own; give them as pool"):
        INFERENCE_ATTACKS.get("lira").run([sent(1.0)], records([[1.0, 0.0]], [0]), rng())


def test_the_network_that_everybody_copies_is_left_as_it_was():
    seen = sent(2.0, replace(TRAINING, normalisation=Normalisation((0.5,), (0.25,))))
    before = {name: value.clone() for name, value in blueprint(NETWORK).state_dict().items()}
    SeenModel.of(seen).logits(records([[1.0, 0.0]], [0]))
    assert not blueprint(NETWORK)._forward_pre_hooks
    assert all(torch.equal(value, before[name]) for name, value in blueprint(NETWORK).state_dict().items())
