"""A round under SecAgg+: the mean, masks that say nothing, and a server that sends each client its own model."""

from functools import cache

import numpy as np
import pytest
import torch
from flwr.compat.common.recorddict_compat import recorddict_to_fitins
from scipy.stats import chisquare

from fluoroscope.attacks.imprint import MediLeak, Peeling
from fluoroscope.data import Request, load
from fluoroscope.errors import Misconfigured, Refused, Unsupported
from fluoroscope.federation.local_training import local_training
from fluoroscope.federation.secure_aggregation import Participant, SecAgg, Sent, secure_round
from fluoroscope.models import Architecture
from fluoroscope.rng import generator
from fluoroscope.scores.recovery import recovery
from fluoroscope.types import LocalTraining, Sgd

AGREED = Architecture("lenet5", 1, 2, 28)
SEED, ROUND = 5, 2
FIRST = ("front.first.weight", "front.first.bias")


def phantoms(images, seed):
    return load("phantom/chest", Request(size=28, images=images, seed=seed)).batch


def clients(*images, lr=0.01):
    return [
        Participant(f"client-{i}", phantoms(count, 10 + i), LocalTraining(Sgd(lr), count, count))
        for i, count in enumerate(images)
    ]


def same_for_all(participants, architecture=AGREED):
    state = architecture.build().state_dict()
    return [Sent(architecture, state) for _ in participants]


def trained(participant, sent):
    """What the client holds before it masks it."""
    rng = generator(SEED, "client", participant.name, "round", ROUND)
    return local_training(sent.network.build(), sent.state, participant.batch, participant.training, rng).state


def plain_mean(participants, sent):
    """The oracle: no protocol."""
    total = sum(len(each.batch) for each in participants)
    states = [trained(*pair) for pair in zip(participants, sent, strict=True)]
    return {
        name: sum(len(p.batch) / total * state[name].double() for p, state in zip(participants, states, strict=True))
        for name in sent[0].state
    }


def rounding(participants, settings):
    """Each client's weighed parameters are off by less than a step from stochastic rounding, and one from float32."""
    return (2 * len(participants)) * settings.step / (sum(len(p.batch) for p in participants) / settings.max_weight)


@cache
def five():
    participants = clients(4, 7, 10, 13, 16)
    sent = same_for_all(participants)
    return participants, sent, secure_round(participants, sent, ROUND, SEED)


def test_a_step_is_the_range_over_the_quantisation():
    assert SecAgg().step == 16 / 2**22
    assert SecAgg(clipping_range=2.0, quantisation=2**10).step == 4 / 2**10


@pytest.mark.parametrize("settings", [SecAgg(), SecAgg(max_weight=100.0, clipping_range=2.0, quantisation=2**20)])
def test_the_mean_is_the_plain_weighted_mean(settings):
    participants = clients(4, 7, 10, 13, 16, lr=0.5)
    sent = same_for_all(participants)
    found = secure_round(participants, sent, ROUND, SEED, settings).mean
    expected = plain_mean(participants, sent)
    bound = rounding(participants, settings)
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert found[name].dtype == torch.float64
        assert found[name].shape == value.shape
        torch.testing.assert_close(found[name], value, rtol=1e-5, atol=bound)
    # The bound tells the clients' models apart: their plain mean, or one of them alone, is further off.
    states = [trained(*pair) for pair in zip(participants, sent, strict=True)]
    for other in (states[0], {name: sum(state[name] for state in states) / 5 for name in expected}):
        assert max(float((found[name] - other[name]).abs().max()) for name in expected) > 2 * bound


def test_buffers_are_averaged_too():
    architecture = Architecture("small-cnn", 1, 2, 28)
    participants = clients(4, 6, 8)
    sent = same_for_all(participants, architecture)
    found, expected = secure_round(participants, sent, ROUND, SEED).mean, plain_mean(participants, sent)
    buffers = [name for name in expected if "running" in name]
    assert buffers
    for name in buffers:
        torch.testing.assert_close(found[name], expected[name], rtol=1e-5, atol=rounding(participants, SecAgg()))


def test_a_masked_message_is_uniform_over_the_modulus():
    participants, _, result = five()
    assert set(result.masked) == {each.name for each in participants}
    for arrays in result.masked.values():
        values = np.concatenate([array.flatten() for array in arrays])
        assert values.dtype.kind == "i"
        assert values.min() >= 0
        assert values.max() < 2**32
        for shift in (28, 18, 0):  # high bits, where a clipped parameter would show, and low ones
            counts = np.bincount((values >> shift) & 15, minlength=16)
            assert chisquare(counts).pvalue > 1e-7
        assert abs(values.mean() / 2**32 - 0.5) < 6 * (1 / 12 / len(values)) ** 0.5


def test_a_masked_message_says_nothing_of_the_client_s_parameters():
    """Nor of any other client's, nor does another mask."""
    participants, sent, result = five()
    truths = [
        np.concatenate([value.numpy().flatten() for value in trained(*pair).values()])
        for pair in zip(participants, sent, strict=True)
    ]
    carried = [np.concatenate([a.flatten() for a in arrays]).astype(float) for arrays in result.masked.values()]
    table = np.corrcoef([*carried, truths[0], truths[-1]])[:5]
    table[np.arange(5), np.arange(5)] = 0
    assert np.abs(table).max() < 6 / len(truths[0]) ** 0.5


def test_masks_are_new_each_time_and_the_mean_is_the_same():
    participants, sent, once = five()
    again = secure_round(participants, sent, ROUND, SEED)
    for name in once.masked:
        same = np.mean([np.mean(a == b) for a, b in zip(once.masked[name], again.masked[name], strict=True)])
        assert same < 0.01
    assert all(torch.equal(once.mean[name], again.mean[name]) for name in once.mean)


def test_the_masks_cancel_in_the_sum_of_all_and_in_no_smaller_one():
    """Of the messages alone, without the private masks' seeds, even the whole sum is still noise."""
    _, sent, result = five()
    name = list(sent[0].state).index("fc.weight")
    messages = [arrays[name] for arrays in result.masked.values()]
    for some in (messages[:1], messages[1:], messages):
        counts = np.bincount(((sum(some) % 2**32) >> 28).flatten(), minlength=16)
        assert chisquare(counts).pvalue > 1e-7


@cache
def attacked():
    """A victim and four others; 40 images each, so that a fifth of the sum is the victim's."""
    participants = clients(40, 40, 40, 40, 40)
    own = phantoms(400, 99)
    crafted = MediLeak(80).craft(
        AGREED, participants[0].training, own.images, own.labels, torch.Generator().manual_seed(1)
    )
    sent = [Sent(crafted.network, crafted.victim if i == 0 else crafted.others) for i in range(5)]
    return participants, sent, crafted, secure_round(participants, sent, ROUND, SEED)


def test_the_others_crafted_layers_do_not_change_at_all():
    participants, sent, *_ = attacked()
    for participant, each in list(zip(participants, sent, strict=True))[1:]:
        after = trained(participant, each)
        assert all(torch.equal(after[name], each.state[name]) for name in FIRST)
        assert any(not torch.equal(after[name], each.state[name]) for name in after), "they did train"


def test_the_mean_shows_the_victim_s_update_times_its_share():
    participants, sent, crafted, result = attacked()
    own = trained(participants[0], sent[0])[FIRST[0]].double() - crafted.victim[FIRST[0]].double()
    seen = result.mean[FIRST[0]] - crafted.victim[FIRST[0]].double()
    bound = rounding(participants, SecAgg())
    torch.testing.assert_close(seen, own / 5, rtol=1e-4, atol=bound)
    assert float(own.abs().max()) / 5 > 1000 * bound


def read_from(update, crafted, participants):
    found = Peeling()(crafted, update)
    return found, recovery(found.images, participants[0].batch.images)


def test_the_victim_s_images_are_read_from_the_secure_sum():
    """As many as from its own update."""
    participants, sent, crafted, result = attacked()
    found, score = read_from(
        {name: result.mean[name] - crafted.victim[name].double() for name in FIRST}, crafted, participants
    )
    assert score.rate.mean >= 0.95
    assert score.psnr[score.recovered].mean() > 80
    assert recovery(found.images, participants[1].batch.images).rate.mean == 0
    after = trained(participants[0], sent[0])
    _, alone = read_from(
        {name: after[name].double() - crafted.victim[name].double() for name in FIRST}, crafted, participants
    )
    assert torch.equal(score.recovered, alone.recovered)


def test_the_default_size_of_an_update_is_not_clipped():
    participants, sent, *_ = attacked()
    after = trained(participants[0], sent[0])
    weight = len(participants[0].batch) / SecAgg().max_weight
    assert all(float((after[name] * weight).abs().max()) < SecAgg().clipping_range for name in FIRST)


def test_fewer_than_three_hide_nobody():
    participants = clients(4, 4)
    with pytest.raises(Misconfigured, match="3 or more, not 2"):
        secure_round(participants, same_for_all(participants), ROUND, SEED)


def test_models_of_different_shapes_cannot_be_summed():
    participants = clients(4, 4, 4)
    sent = same_for_all(participants)
    other = Architecture("lenet5", 1, 3, 28)
    with pytest.raises(Unsupported, match="same shapes"):
        secure_round(participants, [*sent[:2], Sent(other, other.build().state_dict())], ROUND, SEED)


def test_a_client_s_mod_sees_the_model_before_it_is_trained():
    participants = clients(4, 4, 4)
    sent, seen = same_for_all(participants), []

    def look(message, context, call_next):
        if message.content.array_records:  # of the protocol's four stages, the one that carries the model
            given = recorddict_to_fitins(message.content, keep_input=True)
            seen.append((len(given.parameters.tensors), given.config["network"]))
        return call_next(message, context)

    secure_round(participants, sent, ROUND, SEED, mods=[look])
    assert seen == [(len(sent[0].state), AGREED.key)] * 3


def test_a_client_that_refuses_stops_the_round():
    """The third of four: the fourth does not train any more, and the server gets no sum."""
    participants, asked = clients(4, 4, 4, 4), []

    def guard(message, context, call_next):
        asked.append(context.node_config["partition-id"])
        if asked[-1] == 2:
            raise Refused("the model has layers that nobody agreed on.")
        return call_next(message, context)

    result = None
    with pytest.raises(Refused, match="nobody agreed"):
        result = secure_round(participants, same_for_all(participants), ROUND, SEED, mods=[guard])
    assert result is None
    assert asked == [0, 1, 2]
