"""A defence in an app that knows nothing of it does what it does in a federation of ours."""

import pytest
import torch
from flwr.app import ArrayRecord, Message, RecordDict

from fluoroscope.defences import DEFENCES, UpdateDefence, chain
from fluoroscope.defences.dp_sgd import DpSgd
from fluoroscope.defences.fed_bn import FedBn
from fluoroscope.defences.pruning import Pruning
from fluoroscope.errors import Misconfigured
from fluoroscope.integrations.flower import defence_mod
from fluoroscope.integrations.flower.exchange import WITHHELD
from fluoroscope.rng import generator
from fluoroscope.types import UpdateRecord

from .conftest import NETWORK, TRAINING, arrays_of, context, message, module, stock_app


def noisy_app(mod):
    """Every entry changes by another amount, so that pruning has something to choose."""
    from flwr.clientapp import ClientApp

    app = ClientApp(mods=[mod])

    @app.train()
    def train(asked, _):
        state = asked.content["arrays"].to_torch_state_dict()
        draws = generator(1, "training")
        moved = {
            k: v + torch.randn(v.shape, generator=draws) if v.is_floating_point() else v + 1 for k, v in state.items()
        }
        return Message(RecordDict({"arrays": ArrayRecord(moved)}), reply_to=asked)

    return app


def test_what_leaves_is_what_the_defence_sends():
    defence, before = Pruning(0.9), module().state_dict()
    reply = noisy_app(defence_mod(defence, network=NETWORK, training=TRAINING, seed=0))(message(), context())
    after = arrays_of(noisy_app(lambda m, c, n: n(m, c))(message(), context()))
    made = UpdateRecord.between(NETWORK, before, after, TRAINING)
    expected = defence.send(made, generator(0, "defence", 7, "round", 3))
    sent = arrays_of(reply)
    for name, value in expected.state_after.items():
        assert torch.equal(sent[name], value)
    assert not torch.equal(sent["3.weight"], after["3.weight"])


def test_what_stays_comes_back_in_the_next_round_and_never_leaves():
    node, before = context(), module().state_dict()
    app = stock_app([defence_mod(FedBn(), network=NETWORK, training=lambda _: TRAINING)])
    first = arrays_of(app(message(), node))
    assert torch.equal(first["1.running_mean"], before["1.running_mean"])  # as the server sent it
    assert torch.equal(first["3.bias"], before["3.bias"] + 1)
    seen = {}

    def spy(asked, _, call_next):
        seen.update(asked.content["arrays"].to_torch_state_dict())
        return call_next(asked, _)

    stock_app([defence_mod(FedBn(), network=NETWORK, training=TRAINING), spy])(message(), node)
    assert torch.equal(seen["1.running_mean"], before["1.running_mean"] + 1)
    assert torch.equal(seen["3.bias"], before["3.bias"])


def test_an_update_that_cannot_be_defended_stays():
    mod = defence_mod(Pruning(0.5), network=NETWORK, training=TRAINING)
    reply = stock_app([mod], prefix="odd.")(message(), context())
    assert reply.error.code == WITHHELD


def test_what_does_not_stand_at_the_update_is_refused():
    with pytest.raises(Misconfigured, match="DpSgd cannot stand in a mod"):
        defence_mod(chain(DpSgd(1.0, 1.0)), network=NETWORK, training=TRAINING)


def test_noise_is_new_in_every_process():
    kind = DEFENCES.get("clip-and-noise")
    assert issubclass(kind, UpdateDefence)
    stack = chain(FedBn(), kind(clip_norm=1.0, noise_multiplier=1.0))  # noise alone leaves the statistics open
    mods = [defence_mod(stack, network=NETWORK, training=TRAINING) for _ in range(2)]
    one, other = (arrays_of(stock_app([mod])(message(), context()))["3.bias"] for mod in mods)
    assert not torch.equal(one, other)


def test_wrapped_names_are_defended_too():
    wrapped = {f"module.{k}": v for k, v in module().state_dict().items()}
    mod = defence_mod(Pruning(0.9), network=NETWORK, training=TRAINING)
    reply = noisy_app(mod)(message(wrapped), context())
    assert set(arrays_of(reply)) == set(wrapped)
    moved = (arrays_of(reply)["module.3.weight"] - wrapped["module.3.weight"]).count_nonzero()
    assert 0 < moved < 72 * 3 / 2
