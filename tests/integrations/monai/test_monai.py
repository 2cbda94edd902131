"""MONAI's client runs our filters from a file outside of its bundle, and nothing gets past them."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from monai.fl.client import MonaiAlgo
from monai.fl.utils.constants import ExtraItems, ModelType, WeightType
from monai.fl.utils.exchange_object import ExchangeObject
from torch import nn

from fluoroscope.errors import Misconfigured, Refused
from fluoroscope.integrations.monai import Guard, Meter

from ..doors import WITHHOLD

GLOBAL = {"weight": np.zeros((1, 2), np.float32), "bias": np.zeros(1, np.float32)}
TRAINED = {"weight": torch.tensor([[0.5, 0.5]]), "bias": torch.tensor([0.5])}


class Trainer:
    """In the place of MONAI's SupervisedTrainer, which needs ignite: each run moves every weight by a half."""

    def __init__(self):
        self.network = nn.Linear(2, 1)
        self.state = SimpleNamespace(epoch=0, iteration=0, max_epochs=0)
        self.ran = 0

    def run(self):
        self.ran += 1
        self.state.iteration += 3
        with torch.no_grad():
            for parameter in self.network.parameters():
                parameter += 0.5

    def get_stats(self):
        return {"total_epochs": 1, "total_iterations": 3}


@pytest.fixture
def client(door, tmp_path):
    """MONAI's own client on a small bundle, with the site's filters in a file beside it."""
    bundle = tmp_path / "app" / "bundle"
    (bundle / "configs").mkdir(parents=True)
    filters = tmp_path / "site" / "filters.json"
    filters.parent.mkdir()
    filters.write_text(
        json.dumps(
            {
                "guard": {"_target_": "fluoroscope.integrations.monai.Guard", "policy": "/etc/appetite.toml"},
                "pre_filters": ["@guard"],
                "post_weight_filters": [{"_target_": "fluoroscope.integrations.monai.Meter", "guard": "@guard"}],
            }
        )
    )
    made = MonaiAlgo.__new__(MonaiAlgo)
    # Without MONAI's check for ignite, which only the trainer needs.
    MonaiAlgo.__init__.__wrapped__(
        made,
        bundle_root="bundle",
        config_train_filename=None,
        config_evaluate_filename=None,
        config_filters_filename=str(filters),
    )
    with pytest.warns(UserWarning, match="provisioned by the FL system"):
        made.initialize({ExtraItems.CLIENT_NAME: "north", ExtraItems.APP_ROOT: str(tmp_path / "app")})
    made.trainer = Trainer()
    return made


def sent(weights=GLOBAL, kind=WeightType.WEIGHTS) -> ExchangeObject:
    return ExchangeObject(weights=dict(weights), weight_type=kind)


@pytest.mark.parametrize("difference", [True, False])
def test_the_client_trains_and_what_leaves_was_measured(client, door, difference):
    client.send_weight_diff = difference
    for round in range(2):
        client.train(sent())
        left = client.get_weights()
        before, after, run, number = door.left[round]
        assert (run, number) == ("monai", round)
        assert before["weight"].tolist() == [[0.0, 0.0]]
        assert after["weight"].tolist() == [[0.5, 0.5]]
        assert left.weights["weight"].tolist() == [[0.5, 0.5]]
        assert left.weight_type == (WeightType.WEIGHT_DIFF if difference else WeightType.WEIGHTS)
        assert left.statistics["num_executed_iterations"] == 3
    assert [each[2] for each in door.came] == [0, 1]


def test_a_refused_model_is_not_trained(client, door, caplog):
    door.admits = WITHHOLD
    with pytest.raises(Refused, match="refused this model; the site's own log") as caught:
        client.train(sent())
    assert client.trainer.ran == 0
    assert caught.value.__context__ is None
    assert "reconstruction: 0.3 is above the limit of 0.02." in caplog.text
    client.send_weight_diff = False
    with pytest.raises(Refused, match="withheld"):
        client.get_weights()


def test_a_withheld_update_is_no_reply_at_all(client, door, caplog):
    door.releases = WITHHOLD
    client.train(sent())
    with pytest.raises(Refused, match="withheld this update; the site's own log") as caught:
        client.get_weights()
    assert not door.unread, "the policy's own answer is in the ledger already"
    assert "reconstruction" not in str(caught.value)
    assert "reconstruction: 0.3 is above the limit of 0.02." in caplog.text


@pytest.mark.parametrize("difference", [True, False])
def test_what_leaves_is_what_the_door_gives(client, door, difference):
    client.send_weight_diff = difference
    door.becomes = {"weight": torch.full((1, 2), 7.0)}
    client.train(sent({**GLOBAL, "weight": np.ones((1, 2), np.float32)}))
    left = client.get_weights()
    assert left.weights["weight"].tolist() == ([[6.0, 6.0]] if difference else [[7.0, 7.0]])
    assert left.weights["bias"].tolist() == [0.0], "the server's own value in the place of what stays"


def test_weights_that_nobody_trained_for_this_round_are_withheld(client, door, tmp_path):
    """A checkpoint from the disk is asked for by name, and would go past the comparison."""
    client.send_weight_diff = False
    with pytest.raises(Refused):
        client.get_weights()
    client.train(sent())
    client.get_weights()
    (tmp_path / "app" / "bundle" / "models").mkdir()
    torch.save({"model": TRAINED}, tmp_path / "app" / "bundle" / "models" / "model.pt")
    with pytest.raises(Refused):
        client.get_weights({ExtraItems.MODEL_TYPE: ModelType.BEST_MODEL})
    assert len(door.left) == 1


def test_two_models_before_one_update_are_one_too_many(door):
    guard = Guard("appetite.toml")
    meter = Meter(guard)
    for weights in (GLOBAL, GLOBAL, {**GLOBAL, "bias": np.ones(1, np.float32)}):
        guard(sent(weights))
    with pytest.raises(Refused):
        meter(sent(TRAINED))
    guard(sent())
    guard(sent())  # evaluated, then trained
    assert meter(sent(TRAINED)).weights["bias"].tolist() == [0.5]


ODD = {
    "no message": {"weights": TRAINED},
    "no weights": ExchangeObject(),
    "no kind": ExchangeObject(weights=TRAINED),
    "an optimiser": ExchangeObject(weights=TRAINED, optim={"m": torch.zeros(2)}, weight_type=WeightType.WEIGHTS),
    "a list": ExchangeObject(weights=[torch.zeros(2)], weight_type=WeightType.WEIGHTS),
    "bytes": ExchangeObject(weights={"weight": b"picture"}, weight_type=WeightType.WEIGHTS),
    "another name": ExchangeObject(weights={"scan": torch.zeros(9)}, weight_type=WeightType.WEIGHTS),
    "an array in the metrics": ExchangeObject(
        weights=TRAINED, metrics={"scan": torch.zeros(9)}, weight_type=WeightType.WEIGHTS
    ),
    "an array in the statistics": ExchangeObject(
        weights=TRAINED, statistics={"scan": np.zeros(9)}, weight_type=WeightType.WEIGHTS
    ),
}
ODD["an entry of its own"] = ExchangeObject(weights=TRAINED, weight_type=WeightType.WEIGHTS)
ODD["an entry of its own"]["scan"] = torch.zeros(9)


@pytest.mark.parametrize("name", ODD)
def test_what_cannot_be_read_is_withheld(door, caplog, name):
    guard = Guard("appetite.toml")
    guard(sent())
    with pytest.raises(Refused):
        Meter(guard)(ODD[name])
    assert not door.left
    assert door.unread == [("out", "monai", 0)]
    assert "unexpected" not in caplog.text


@pytest.mark.parametrize("data", [None, ExchangeObject(), sent(TRAINED, WeightType.WEIGHT_DIFF), sent({"w": "text"})])
def test_a_model_that_cannot_be_read_is_refused(door, data):
    with pytest.raises(Refused):
        Guard("appetite.toml")(data)
    assert not door.came
    assert door.unread == [("in", "monai", 0)]


def test_names_of_wrappers_are_brought_together_and_given_back(door):
    guard = Guard("appetite.toml")
    guard(sent({f"module.{name}": value for name, value in GLOBAL.items()}))
    left = Meter(guard)(sent({f"module.{name}": value for name, value in TRAINED.items()}))
    assert door.came[0][0].keys() == door.left[0][0].keys() == door.left[0][1].keys() == GLOBAL.keys()
    assert left.weights.keys() == {f"module.{name}" for name in TRAINED}


def test_a_meter_without_its_guard_is_named(door):
    with pytest.raises(Misconfigured, match="@guard"):
        Meter("appetite.toml")
