"""The door as mods: what is withheld does not leave in any part, and what cannot be read is withheld."""

import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.compat.common.recorddict_compat import parameters_to_arrayrecord
from flwr.compat.common.typing import Parameters
from torch import nn

import fluoroscope as fl
from fluoroscope.federation.guard import REFUSED
from fluoroscope.integrations.flower import meter_mod, site_mod
from fluoroscope.integrations.flower.exchange import WITHHELD

from .conftest import WITHHOLD, FakeControl, arrays_of, context, message, module, stock_app


def replying(control, records) -> Message:
    """What leaves when an app trains and replies with these records."""
    app = ClientApp(mods=[meter_mod(control)])

    @app.train()
    def train(asked, _):
        return Message(RecordDict(records), reply_to=asked)

    return app(message(), context())


def test_what_passes_is_measured_against_what_came():
    control = FakeControl()
    reply = stock_app([meter_mod(control)])(message(), context())
    (kind, before, after, run, number), own = control.seen[0], module().state_dict()
    assert (kind, run, number) == ("out", "1", 3)
    assert all(torch.equal(before[k], own[k]) for k in own)  # although the app has overwritten what it was given
    assert all(torch.equal(after[k], own[k] + 1) for k in own)
    assert all(torch.equal(arrays_of(reply)[k], own[k] + 1) for k in own)
    assert reply.content["metrics"]["train_loss"] == 0.5


def test_what_leaves_is_what_the_door_made_of_it():
    reply = stock_app([meter_mod(FakeControl(defended=10.0))])(message(), context())
    assert torch.equal(arrays_of(reply)["3.bias"], module().state_dict()["3.bias"] + 11)


def test_nothing_of_a_withheld_reply_leaves():
    reply = stock_app([meter_mod(FakeControl(outgoing=WITHHOLD))])(message(), context())
    assert (reply.error.code, reply.error.reason) == (WITHHELD, "withheld by the site's policy")
    assert not reply.has_content()


def test_a_door_that_fails_is_shut():
    reply = stock_app([meter_mod(FakeControl(fails=True))])(message(), context())
    assert reply.error.code == WITHHELD
    reply = stock_app([site_mod(FakeControl(fails=True))])(message(), context())
    assert reply.error.code == REFUSED


def test_a_model_that_is_refused_is_not_trained():
    trained, control = [], FakeControl(incoming=WITHHOLD)
    app = ClientApp(mods=[site_mod(control)])
    app.train()(lambda asked, _: trained.append(asked))
    assert app(message(), context()).error.code == REFUSED
    assert not trained
    assert [seen[0] for seen in control.seen] == ["in"]


def test_a_crafted_model_is_not_evaluated_either():
    """What it answers on the site's images would leave as metrics."""
    evaluated, control = [], FakeControl(incoming=WITHHOLD)
    app = ClientApp(mods=[site_mod(control)])
    app.evaluate()(lambda asked, _: evaluated.append(asked))
    assert app(message(kind=MessageType.EVALUATE), context()).error.code == REFUSED
    two = {"more": ArrayRecord(module().state_dict())}
    assert app(message(kind=MessageType.EVALUATE, records=two), context()).error.code == REFUSED
    assert not evaluated
    assert [seen[:2] for seen in control.seen[1:]] == [("unreadable", "in")]


def test_a_message_without_a_model_needs_no_guard():
    control = FakeControl(incoming=WITHHOLD)
    asked = message(state={}, kind=MessageType.EVALUATE, records={"plan": ConfigRecord({"text": "x" * 5000})})
    assert stock_app([site_mod(control)])(asked, context()).content["metrics"]["eval_loss"] == 0.25
    assert not control.seen


def test_the_log_says_what_was_read_and_what_was_left_out(monkeypatch):
    told = []
    monkeypatch.setattr("fluoroscope.integrations.flower.exchange.log", lambda _, form, *said: told.append(form % said))
    stock_app([meter_mod(FakeControl(outgoing=WITHHOLD))])(message(), context())
    assert told == [
        "fluoroscope: measured in 4.2 s. reconstruction: No attack works. Left out: ridge, decoder: no time; r-gap: "
        "one image only.",
        "fluoroscope: withheld a reply: above the limit",
    ]


def test_evaluation_passes_and_arrays_of_other_kinds_do_not():
    app = stock_app([meter_mod(FakeControl())])
    reply = app(message(kind=MessageType.EVALUATE), context())
    assert reply.content["metrics"]["eval_loss"] == 0.25
    assert app(message(kind=MessageType.QUERY), context()).error.code == WITHHELD


def test_what_cannot_be_read_is_withheld():
    state = module().state_dict()
    legacy = parameters_to_arrayrecord(Parameters([b"\x00" * 8], "numpy.ndarray"), keep_input=True)
    named = ArrayRecord(state)
    odd = ArrayRecord({"x": torch.rand(3)})
    odd["x"].stype = "pickle"
    for records in (
        {},
        {"metrics": MetricRecord({"loss": 1.0})},
        {"fitres.parameters": legacy},
        {"arrays": named, "more": ArrayRecord({"image": torch.rand(3)})},
        {"arrays": odd},
        {"arrays": named, "metrics": MetricRecord({"image": [0.5] * 300})},
        {"arrays": named, "sealed": ConfigRecord({"bytes": b"x" * 5000})},
        {"arrays": named, "words": ConfigRecord({"text": ["patient"] * 700})},
        {"arrays": named, "keys": ConfigRecord({f"{i:050d}": True for i in range(100)})},
    ):
        control = FakeControl()
        assert replying(control, records).error.code == WITHHELD
        assert control.seen == [("unreadable", "out", "1", 3)]
    assert replying(FakeControl(), {"arrays": named}).has_content()  # the oracle of them all


def test_a_train_message_without_a_model_gives_no_arrays_away():
    control = FakeControl()
    app = ClientApp(mods=[site_mod(control)])

    @app.train()
    def train(asked, _):
        return Message(RecordDict({"arrays": ArrayRecord({"w": torch.rand(2)})}), reply_to=asked)

    assert app(message({}), context()).error.code == WITHHELD
    assert control.seen == [("unreadable", "out", "1", 3)]


def test_a_model_hidden_in_the_settings_is_refused():
    hidden = {"more": ConfigRecord({"weights": b"x" * 5000})}
    for state in (None, {}):
        reply = stock_app([site_mod(FakeControl())])(message(state, records=hidden), context())
        assert reply.error.code == REFUSED


def test_names_of_wrappers_are_brought_together_and_given_back():
    control, own = FakeControl(), module().state_dict()
    wrapped = {f"module.{k}": v for k, v in own.items()}
    reply = stock_app([site_mod(control)])(message(wrapped), context())
    assert set(control.seen[0][1]) == set(control.seen[1][2]) == set(own)
    assert set(arrays_of(reply)) == set(wrapped)
    reply = stock_app([meter_mod(control)], prefix="_orig_mod.")(message(), context())
    assert set(arrays_of(reply)) == {f"_orig_mod.{k}" for k in own}
    assert set(control.seen[-1][2]) == set(own)


def test_without_a_known_network_the_two_are_still_brought_together():
    control = FakeControl(network=None)
    stock_app([meter_mod(control)])(message({f"module.{k}": v for k, v in module().state_dict().items()}), context())
    _, before, after, *_ = control.seen[0]
    assert set(before) == set(after) == set(module().state_dict())


def test_adapters_alone_are_measured_in_the_whole_network():
    """As with LoRA: the base is frozen and the same everywhere, and only the last layer travels."""
    base = module()
    for name, value in base.named_parameters():
        value.requires_grad_(name.startswith("3."))
    control = FakeControl(network=fl.Network.of(base, (1, 8, 8)))
    own = base.state_dict()
    reply = stock_app([site_mod(control)])(message({k: v for k, v in own.items() if k.startswith("3.")}), context())
    assert set(control.seen[0][1]) == set(own)
    assert set(control.seen[1][2]) == {"3.weight", "3.bias"}
    assert set(arrays_of(reply)) == {"3.weight", "3.bias"}


def test_a_layer_that_is_trained_is_never_filled_in():
    control = FakeControl()
    stock_app([site_mod(control)])(message({"3.bias": torch.zeros(3)}), context())
    assert set(control.seen[0][1]) == {"3.bias"}


def test_half_precision_leaves_as_it_came():
    control, half = FakeControl(network=None), nn.Linear(4, 2).half().state_dict()
    reply = stock_app([meter_mod(control)])(message(dict(half)), context())
    assert {v.dtype for v in arrays_of(reply).values()} == {torch.float16}
