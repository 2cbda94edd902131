"""Label counts: exact where a formula gives them, learned where none does, and never from more than is granted."""

from dataclasses import replace
from functools import cache

import pytest
import torch

from fluoroscope.attacks.inference import LABEL_COUNT_ATTACKS
from fluoroscope.attacks.inference.label_counts import by_class, whole_counts
from fluoroscope.attacks.inference.learned_counts import LearnedCounts, even_mixes, random_mix
from fluoroscope.attacks.inference.restored_counts import RestoredCounts
from fluoroscope.data import Request, load
from fluoroscope.defences import NO_DEFENCE, chain
from fluoroscope.defences.percentile_gaussian import PercentileGaussian
from fluoroscope.errors import Unsupported
from fluoroscope.federation.client_round import client_round
from fluoroscope.models import Architecture
from fluoroscope.threat_models import THREATS, observe
from fluoroscope.types import Capability, LabelledImages, LocalTraining, PrivateBatch, Sgd

NETWORK = Architecture("small-cnn", 1, 4, 28)
ONE_STEP = LocalTraining(Sgd(0.05), images=12, batch_size=12)
THREE_EPOCHS = LocalTraining(Sgd(0.05), images=16, batch_size=4, epochs=3)
SERVER = THREATS.get("curious-server")
every_attack = pytest.mark.parametrize("name", list(LABEL_COUNT_ATTACKS))


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


@cache
def images() -> PrivateBatch:
    return load("phantom/brain", Request(size=28, images=260, seed=0)).batch


@cache
def start():
    return NETWORK.build(0).state_dict()


@cache
def public() -> LabelledImages:
    found = images().subset(range(120))
    return LabelledImages(found.images, found.labels, found.patients)


def clients(training, count, defence=NO_DEFENCE, knowledge=SERVER, given=None):
    """Observations of clients with random mixes of other images, and their true counts."""
    private = images().subset(range(120, 260))
    places = by_class("test", LabelledImages(private.images, private.labels), 4)
    seen, truth = [], []
    for number in range(count):
        batch = private.subset(random_mix(places, training.images, 0.5, rng(50 + number)))
        made = client_round(NETWORK, start(), batch, training, rng(90 + number), defence).record
        known = public() if Capability.PUBLIC_IMAGES in knowledge.capabilities else None
        told = defence if Capability.DEFENCE in knowledge.capabilities else None
        seen.append(observe(made, knowledge, public_images=known, defence=told))
        truth.append(batch.labels.bincount(minlength=4))
    return seen, torch.stack(truth)


def test_one_step_of_sgd_gives_the_counts_exactly():
    seen, truth = clients(ONE_STEP, 4)
    assert torch.equal(RestoredCounts().run(seen, rng()), truth)
    assert torch.equal(LearnedCounts(24).run(seen, rng()), truth)


@pytest.mark.parametrize("defence", [NO_DEFENCE, chain(PercentileGaussian(2.0))], ids=["none", "noise"])
def test_after_three_epochs_learned_counts_beat_the_public_mix(defence):
    seen, truth = clients(THREE_EPOCHS, 10, defence)
    found = LearnedCounts(32).run(seen, rng())
    assert found.sum(1).tolist() == [16] * 10
    guess = 16 * public().labels.bincount(minlength=4) / len(public())
    assert (found - truth).abs().double().mean() < 0.6 * (guess - truth).abs().double().mean()


def test_where_the_last_layer_stays_at_home_others_are_read():
    seen, truth = clients(THREE_EPOCHS, 6)
    without = [replace(s, update={n: v for n, v in (s.update or {}).items() if "fc" not in n}) for s in seen]
    # What a defence withholds the attacker knows to be withheld: its own simulations hold no more.
    found = LearnedCounts(32).run(without, rng())
    guess = 16 * public().labels.bincount(minlength=4) / len(public())
    assert (found - truth).abs().double().mean() < (guess - truth).abs().double().mean()
    with pytest.raises(Unsupported, match="every array stayed at home"):
        LearnedCounts(4).run([replace(seen[0], update={}, buffers_after=None)], rng())


def test_shares_come_with_an_interval_that_holds_for_other_patients():
    seen, truth = clients(THREE_EPOCHS, 10)
    attack = LearnedCounts(32)
    shares, counts = attack.shares(seen, rng()), attack.run(seen, rng())
    inside = [
        share.low <= t <= share.high
        for row, true in zip(shares, truth / 16, strict=True)
        for share, t in zip(row, true.tolist(), strict=True)
    ]
    assert sum(inside) >= 0.8 * len(inside)
    assert max(share.high - share.low for row in shares for share in row) < 1  # it says something
    for row, count in zip(shares, counts, strict=True):
        assert torch.equal(whole_counts(torch.tensor([share.value for share in row]), 16), count)


def test_counts_are_whole_and_add_up():
    assert whole_counts(torch.tensor([0.5, 0.3, 0.2]), 10).tolist() == [5, 3, 2]
    assert whole_counts(torch.tensor([0.45, 0.36, 0.19]), 10).tolist() == [4, 4, 2]
    assert whole_counts(torch.tensor([1.2, -0.4, 0.0]), 7).tolist() == [7, 0, 0]
    assert whole_counts(torch.zeros(2), 4).tolist() == [2, 2]


def test_a_mix_repeats_nobody_before_everybody_was_taken():
    places = [torch.arange(3), torch.arange(3, 40)]
    seen = [random_mix(places, 20, 0.3, rng(seed)) for seed in range(30)]
    assert all(len(mix) == 20 for mix in seen)
    for mix in seen:
        first = [mix.count(i) for i in range(3)]
        assert max(first) - min(first) <= 1
        assert len({i for i in mix if i >= 3}) == sum(i >= 3 for i in mix)
    shares = [sum(i < 3 for i in mix) / 20 for mix in seen]
    assert min(shares) < 0.1
    assert max(shares) > 0.9


def test_even_mixes_fill_all_that_is_possible():
    two = even_mixes(16, 2, rng())
    torch.testing.assert_close(two.sum(1), torch.ones(16))
    assert sorted((two[:, 0] * 16).long().tolist()) == list(range(16))  # one in each sixteenth
    four = even_mixes(256, 4, rng())
    assert four.min() >= 0
    torch.testing.assert_close(four.mean(0), torch.full((4,), 0.25), atol=0.02, rtol=0)
    # Uniform on the simplex: a share is below x with probability 1 - (1 - x)^3.
    torch.testing.assert_close((four < 0.1).float().mean(0), torch.full((4,), 1 - 0.9**3), atol=0.05, rtol=0)
    assert even_mixes(3, 1, rng()).tolist() == [[1.0]] * 3


@every_attack
def test_each_need_is_enforced_and_granted_to_the_server(name):
    attack = LABEL_COUNT_ATTACKS.get(name)
    assert attack.needs <= SERVER.capabilities
    for need in attack.needs:
        seen, _ = clients(ONE_STEP, 1, knowledge=SERVER.without(need))
        with pytest.raises(Unsupported, match=f"^{name} needs the capability '{need.value}'"):
            attack.run(seen, rng())


@every_attack
def test_evidence_is_left_as_it_was_and_the_seed_decides(name):
    seen, _ = clients(ONE_STEP, 1)
    before = {k: v.clone() for part in (seen[0].state_before, seen[0].buffers_before) for k, v in part.items()}
    attack = LearnedCounts(4) if name == "learned-counts" else LABEL_COUNT_ATTACKS.get(name)
    assert torch.equal(attack.run(seen, rng(3)), attack.run(seen, rng(3)))
    after = {**seen[0].state_before, **seen[0].buffers_before}
    assert all(torch.equal(before[k], after[k]) for k in before)


def test_what_cannot_be_read_is_said_with_what_can():
    seen, _ = clients(replace(THREE_EPOCHS, epochs=1), 1)
    with pytest.raises(Unsupported, match="learned-counts"):
        RestoredCounts().run(seen, rng())
    few = LabelledImages(public().images, torch.zeros_like(public().labels))
    with pytest.raises(Unsupported, match=r"none of class 1.*auxiliary"):
        LearnedCounts().run([replace(seen[0], public_images=few)], rng())
    several = LabelledImages(public().images, torch.zeros(120, 4))
    with pytest.raises(Unsupported, match="several findings"):
        LearnedCounts().run([replace(seen[0], public_images=several)], rng())
