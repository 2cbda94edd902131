"""MONAI's filters alone: what they read, and what does not get past them."""

import numpy as np
import pytest
import torch
from monai.fl.utils.constants import WeightType
from monai.fl.utils.exchange_object import ExchangeObject

from fluoroscope.errors import Misconfigured, Refused
from fluoroscope.integrations.monai import Guard, Meter, Metrics

GLOBAL = {"weight": np.zeros((1, 2), np.float32), "bias": np.zeros(1, np.float32)}
TRAINED = {"weight": torch.tensor([[0.5, 0.5]]), "bias": torch.tensor([0.5])}


def sent(weights=GLOBAL, kind=WeightType.WEIGHTS) -> ExchangeObject:
    return ExchangeObject(weights=dict(weights), weight_type=kind)


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


@pytest.mark.parametrize("made", [Meter, Metrics])
def test_a_filter_without_its_guard_is_named(door, made):
    with pytest.raises(Misconfigured, match="@guard"):
        made("appetite.toml")


def test_metrics_leave_alone(door):
    let_out = Metrics(Guard("appetite.toml"))
    assert let_out(ExchangeObject(metrics={"loss": 0.5})).metrics == {"loss": 0.5}
    for odd in ({}, ExchangeObject(weights=TRAINED, metrics={}), ExchangeObject(metrics={"scan": [0.5] * 300})):
        with pytest.raises(Refused, match="withheld these metrics"):
            let_out(odd)
    assert door.unread == [("out", "monai", 0)] * 3
