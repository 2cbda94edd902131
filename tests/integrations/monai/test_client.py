"""MONAI's client trains a bundle with its own trainer and runs our filters from a file outside of it."""

import numpy as np
import pytest
import torch
from monai.fl.utils.constants import ExtraItems, ModelType, WeightType
from monai.networks.nets import Classifier
from torch import nn

from fluoroscope.data import Request, load
from fluoroscope.errors import Refused

from ..doors import WITHHOLD
from .bundle import BATCH, NETWORK, OWN, RATE, sent

BIAS = "final.1.bias"


def trained(state: dict, images: torch.Tensor, labels: torch.Tensor) -> dict:
    """By a loop of plain PyTorch: what the bundle's trainer should come to."""
    network = Classifier(**NETWORK)
    network.load_state_dict(state)
    optimiser = torch.optim.SGD(network.parameters(), lr=RATE)
    for some, truth in zip(images.split(BATCH), labels.split(BATCH), strict=True):
        optimiser.zero_grad()
        nn.functional.cross_entropy(network(some), truth).backward()
        optimiser.step()
    return network.state_dict()


@pytest.mark.parametrize("difference", [True, False])
def test_what_the_trainer_makes_is_measured_and_leaves(start, door, model, tmp_path, difference):
    client = start(send_weight_diff=difference)
    own = load(f"folder:{tmp_path / 'site' / 'images'}", Request(28, 1)).batch
    state = model
    for round in range(2):
        expected = trained(state, own.images, own.labels)
        client.train(sent(state))
        left = client.get_weights()
        before, after, run, number = door.left[round]
        assert (run, number) == ("monai", round)
        assert left.weight_type == (WeightType.WEIGHT_DIFF if difference else WeightType.WEIGHTS)
        assert left.statistics["num_executed_iterations"] == sum(OWN.values()) / BATCH
        for name, value in expected.items():
            assert before[name].equal(state[name])
            torch.testing.assert_close(after[name], value, atol=1e-5, rtol=1e-4)
            leaving = value - state[name] if difference else value
            torch.testing.assert_close(left.weights[name], leaving, atol=1e-5, rtol=1e-4)
        state = after
    assert [each[2] for each in door.came] == [0, 1]


def test_a_refused_model_is_neither_trained_nor_evaluated(start, door, model, caplog):
    client = start(send_weight_diff=False)
    door.admits = WITHHOLD
    for asked in (client.train, client.evaluate):
        with pytest.raises(Refused, match="refused this model; the site's own log") as caught:
            asked(sent(model))
        assert caught.value.__context__ is None
    assert client.trainer.state.iteration == client.evaluator.state.iteration == 0
    assert "reconstruction: 0.3 is above the limit of 0.02." in caplog.text
    with pytest.raises(Refused, match="withheld"):
        client.get_weights()


def test_a_withheld_update_is_no_reply_at_all(start, door, model, caplog):
    client = start()
    door.releases = WITHHOLD
    client.train(sent(model))
    with pytest.raises(Refused, match="withheld this update; the site's own log") as caught:
        client.get_weights()
    assert not door.unread, "the policy's own answer is in the ledger already"
    assert "reconstruction" not in str(caught.value)
    assert "reconstruction: 0.3 is above the limit of 0.02." in caplog.text


@pytest.mark.parametrize("difference", [True, False])
def test_what_leaves_is_what_the_door_gives(start, door, model, difference):
    client = start(send_weight_diff=difference)
    door.becomes = {name: torch.full_like(value, 7.0) for name, value in model.items() if name != BIAS}
    client.train(sent({**model, "final.1.weight": torch.ones_like(model["final.1.weight"])}))
    left = client.get_weights()
    assert left.weights["final.1.weight"].unique().tolist() == [6.0 if difference else 7.0]
    kept = torch.zeros(2) if difference else model[BIAS]
    assert left.weights[BIAS].equal(kept), "the server's own value in the place of what stays"


def test_weights_that_nobody_trained_for_this_round_are_withheld(start, door, model, tmp_path):
    """A checkpoint from the disk is asked for by name, and would go past the comparison."""
    client = start(send_weight_diff=False)
    with pytest.raises(Refused):
        client.get_weights()
    client.train(sent(model))
    client.get_weights()
    (tmp_path / "app" / "bundle" / "models").mkdir()
    torch.save({"model": model}, tmp_path / "app" / "bundle" / "models" / "model.pt")
    with pytest.raises(Refused):
        client.get_weights({ExtraItems.MODEL_TYPE: ModelType.BEST_MODEL})
    assert len(door.left) == 1


def test_metrics_with_a_picture_among_them_do_not_leave(start, door, model, monkeypatch):
    client = start()
    monkeypatch.setattr(client.evaluator, "run", lambda *_: client.evaluator.state.metrics.update(scan=torch.rand(28)))
    with pytest.raises(Refused, match="withheld these metrics"):
        client.evaluate(sent(model))
    assert door.unread == [("out", "monai", 0)]


def test_a_model_is_evaluated_and_then_trained(start, door, model):
    client = start()
    metrics = client.evaluate(sent(model)).metrics
    assert np.isfinite(metrics["loss"])
    client.train(sent(model))
    assert client.get_weights().weights.keys() == model.keys()
