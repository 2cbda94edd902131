"""The mod lets honest messages through and answers crafted ones with an error, before anything is trained."""

import numpy as np
import pytest
import torch
from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.compat.common.recorddict_compat import parameters_to_arrayrecord
from flwr.compat.common.typing import Parameters
from flwr.supercore.task_identity import TaskIdentity

from fluoroscope.federation.guard import REFUSED, guard_mod
from fluoroscope.federation.messages import to_arrays
from fluoroscope.models import Architecture


@pytest.fixture(autouse=True)
def _a_run(monkeypatch):
    """Flower makes messages within a run only."""
    for what in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, what, 1)


AGREED = Architecture("p3-cnn", 1, 4, 28)


def message(state, legacy=False, kind=MessageType.TRAIN) -> Message:
    arrays = to_arrays(state)
    if legacy:
        tensors = [array.data for array in arrays.values()]
        arrays = parameters_to_arrayrecord(Parameters(tensors, "numpy.ndarray"), keep_input=True)
    key = "fitins.parameters" if legacy else "arrays"
    content = RecordDict({key: arrays, "config": ConfigRecord({"server-round": 1})})
    return Message(content, dst_node_id=1, message_type=kind)


def answered(mod, sent: Message) -> tuple[Message, bool]:
    trained = []

    def train(got: Message, context: Context) -> Message:
        trained.append(got)
        return Message(RecordDict(), reply_to=got)

    return mod(sent, Context(0, 1, {}, RecordDict(), {}), train), bool(trained)


def crafted() -> dict[str, torch.Tensor]:
    state = AGREED.build().state_dict()
    state["dense.0.weight"] = torch.ones_like(state["dense.0.weight"])
    state["dense.0.bias"] = -torch.linspace(0, 100, 64)
    return state


@pytest.mark.parametrize("legacy", [False, True])
def test_a_crafted_model_is_answered_with_an_error(legacy):
    verdicts = []
    mod = guard_mod(AGREED.build(), told=verdicts.append)
    reply, trained = answered(mod, message(crafted(), legacy))
    assert not trained
    assert reply.has_error()
    assert reply.error.code == REFUSED
    assert "dense" not in reply.error.reason  # why is for the client alone
    assert verdicts[0].refused


@pytest.mark.parametrize("legacy", [False, True])
def test_an_honest_model_is_trained(legacy):
    reply, trained = answered(guard_mod(AGREED.build()), message(AGREED.build(seed=5).state_dict(), legacy))
    assert trained
    assert not reply.has_error()


@pytest.mark.parametrize("kind", [MessageType.EVALUATE, MessageType.QUERY, "train.locally"])
def test_a_model_is_looked_at_whatever_it_is_sent_for(kind):
    """The metrics of a crafted model tell of images, too."""
    reply, passed = answered(guard_mod(AGREED.build()), message(crafted(), kind=kind))
    assert not passed
    assert reply.error.code == REFUSED
    assert answered(guard_mod(AGREED.build()), message(AGREED.build(seed=5).state_dict(), kind=kind))[1]


def test_a_message_without_a_model_passes():
    asked = Message(RecordDict({"config": ConfigRecord({"n": 1})}), dst_node_id=1, message_type=MessageType.QUERY)
    assert answered(guard_mod(AGREED.build()), asked)[1]


def test_other_layers_in_legacy_parameters_are_drift():
    verdicts = []
    state = {"a": torch.ones(3, 3), "b": torch.from_numpy(np.ones(3, dtype=np.float32))}
    reply, _ = answered(guard_mod(AGREED.build(), told=verdicts.append), message(state, legacy=True))
    assert reply.has_error()
    assert {reason.check for reason in verdicts[0].reasons} >= {"drift"}


def test_digests_are_asked_for_each_model():
    reply, trained = answered(
        guard_mod(AGREED.build(), digests=lambda: ["0" * 64]), message(AGREED.build().state_dict())
    )
    assert reply.has_error()
    assert not trained


def test_images_may_depend_on_the_node():
    asked = []

    def images(context: Context) -> torch.Tensor:
        asked.append(context.node_id)
        return torch.rand(4, 1, 28, 28)

    _, trained = answered(guard_mod(AGREED.build(), images), message(AGREED.build().state_dict()))
    assert trained
    assert asked == [1]


def test_a_wrappers_prefix_is_no_drift():
    wrapped = {f"module.{name}": value for name, value in AGREED.build().state_dict().items()}
    assert answered(guard_mod(AGREED.build()), message(wrapped))[1]
    verdicts = []
    bad = {f"module.{name}": value for name, value in crafted().items()}
    assert not answered(guard_mod(AGREED.build(), told=verdicts.append), message(bad))[1]
    assert "drift" not in {reason.check for reason in verdicts[0].reasons}


def test_adapters_over_a_frozen_base_are_judged_and_a_missing_layer_is_drift():
    agreed = AGREED.build()
    last = [name for name, _ in agreed.named_parameters()][-2:]
    travelling = {name: value for name, value in agreed.state_dict().items() if name in last}
    assert not answered(guard_mod(agreed), message(travelling))[1]
    for name, value in agreed.named_parameters():
        value.requires_grad_(name in last)
    assert answered(guard_mod(agreed), message(travelling))[1]


@pytest.mark.parametrize(
    "images",
    [
        np.random.default_rng(0).random((6, 1, 28, 28)),
        np.random.default_rng(0).integers(0, 256, (6, 1, 28, 28), dtype=np.uint8),
        lambda context: np.random.default_rng(0).random((6, 1, 28, 28), dtype=np.float32),
        torch.zeros(0, 1, 28, 28),
        np.zeros((0, 1, 28, 28)),
        lambda context: None,
        None,
    ],
)
def test_images_of_numpy_and_none_at_all(images):
    """The guard runs in every case; an honest model passes and a crafted one does not."""
    verdicts = []
    mod = guard_mod(AGREED.build(), images, told=verdicts.append)
    assert answered(mod, message(AGREED.build(seed=5).state_dict()))[1]
    assert not answered(mod, message(crafted()))[1]
    assert [verdict.ran for verdict in verdicts] == [True, True]


def test_bytes_are_brought_to_the_range_of_images(monkeypatch):
    """255 is white: the verdict is that on the same images between 0 and 1."""
    monkeypatch.setattr("secrets.randbits", lambda bits: 7)  # what the guard draws is the same for both
    pixels, verdicts = np.random.default_rng(0).integers(0, 256, (6, 1, 28, 28), dtype=np.uint8), []
    for images in (pixels, pixels.astype(np.float32) / 255):
        answered(guard_mod(AGREED.build(), images, told=verdicts.append), message(AGREED.build(seed=5).state_dict()))
    assert verdicts[0].reasons == verdicts[1].reasons
    assert verdicts[0].measured == verdicts[1].measured


def test_an_agreed_network_that_is_wrapped_itself():
    wrapped = torch.nn.DataParallel(AGREED.build())
    honest = AGREED.build(seed=5).state_dict()
    for state in (honest, {f"module.{name}": value for name, value in honest.items()}):
        assert answered(guard_mod(wrapped), message(state))[1]
    assert not answered(guard_mod(wrapped), message(crafted()))[1]


def test_what_cannot_be_judged_is_refused():
    def broken(context):
        raise OSError("the disk with the images is gone")

    reply, trained = answered(guard_mod(AGREED.build(), broken), message(AGREED.build().state_dict()))
    assert not trained
    assert reply.error.code == REFUSED
    assert "disk" not in reply.error.reason
