"""An inversion as a whole: many observations at once, restarts, and what it says when it cannot."""

import sys
from dataclasses import replace

import pytest
import torch

from fluoroscope.attacks import ATTACKS
from fluoroscope.attacks.common.engine import Budget
from fluoroscope.attacks.common.initialisation import Given, Normal, TransformedGaussian, Uniform
from fluoroscope.attacks.common.lbfgs import BatchedLbfgs
from fluoroscope.attacks.common.optimisers import Adam, Schedule
from fluoroscope.attacks.common.setup import Setup
from fluoroscope.attacks.gradient_inversion.attack import Inversion
from fluoroscope.attacks.gradient_inversion.distances import Cosine, SquaredL2
from fluoroscope.attacks.gradient_inversion.label_handling import Chosen, Inferred, Known, Optimised
from fluoroscope.attacks.gradient_inversion.objective import Objective
from fluoroscope.attacks.gradient_inversion.regularisers import GroupConsistency
from fluoroscope.attacks.gradient_inversion.simulated_clients import swept, vectorised
from fluoroscope.errors import Misconfigured, Unsupported
from fluoroscope.threat_models import THREATS
from fluoroscope.types import Adam as ClientAdam
from fluoroscope.types import Capability, LocalTraining
from tests.attacks.gradient_inversion.observations import seen, victim


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def euclidean(**changes) -> Inversion:
    attack = ATTACKS.get("eucl-tg")
    assert isinstance(attack, Inversion)
    return replace(attack, **changes)


@pytest.fixture(scope="module")
def batches():
    return [victim(seed=i, classes=10) for i in range(3)]


@pytest.fixture(scope="module")
def observations(batches):
    return [seen(batch, classes=10) for batch in batches]


def test_eucl_tg_finds_the_images_and_their_labels(observations, batches):
    """P4's attack on LeNet-5, a third of its budget: the images themselves, not something like them."""
    found = euclidean(budget=Budget(30)).run(observations, rng())
    for guess, batch in zip(found, batches, strict=True):
        assert (guess.images - batch.images).square().mean() < 1e-3
        assert torch.equal(guess.labels, batch.labels)


def test_side_by_side_equals_one_after_another(observations):
    attack = euclidean(optimiser=Adam(0.01), budget=Budget(20), snapshots=10)
    together = attack.run(observations, rng())
    for observation, beside in zip(observations, together, strict=True):
        (alone,) = attack.run([observation], rng())
        assert torch.equal(alone.start, beside.start)
        torch.testing.assert_close(alone.images, beside.images, atol=1e-3, rtol=0)
        torch.testing.assert_close(alone.last, beside.last, atol=1e-3, rtol=0)
        torch.testing.assert_close(alone.trace, beside.trace, rtol=1e-3, atol=0)
        assert list(beside.snapshots) == [10, 20]
        assert torch.equal(beside.snapshots[20], beside.last)
    assert not torch.equal(together[0].start, together[1].start)


@pytest.mark.parametrize(
    ("kind", "distance", "few"),
    [(swept.Swept, SquaredL2(), {"CACHE": 10**6}), (vectorised.Vectorised, Cosine(), {"CACHE": 1, "FEW": 2})],
)
def test_memory_and_cache_bound_what_is_evaluated_at_once(observations, monkeypatch, kind, distance, few):
    sizes = []
    whole = kind._chunk

    def counted(self, images, logits, rows):
        sizes.append(len(rows))
        return whole(self, images, logits, rows)

    monkeypatch.setattr(kind, "_chunk", counted)
    attack = euclidean(objective=Objective(distance), optimiser=Adam(0.01), budget=Budget(5))
    at_once = attack.run(observations, rng())
    assert sizes == [3] * 5
    sizes.clear()
    in_chunks = replace(attack, memory=1).run(observations, rng())
    assert sizes == [1] * 15
    sizes.clear()
    for name, value in few.items():
        monkeypatch.setattr(sys.modules[kind.__module__], name, value)
    attack.run(observations, rng())
    assert sizes == [2, 1] * 5, "what the cache cannot hold goes a few at a time"
    for a, b in zip(at_once, in_chunks, strict=True):
        torch.testing.assert_close(a.images, b.images, atol=1e-4, rtol=0)


def test_the_best_restart_is_chosen_by_its_objective(observations):
    attack = euclidean(optimiser=Adam(0.01), budget=Budget(8), restarts=3)
    for guess in attack.run(observations[:2], rng()):
        assert len(set(guess.restarts)) == 3
        assert guess.objective == min(guess.restarts)
        assert guess.objective <= min(guess.trace)
    (single,) = replace(attack, restarts=1).run(observations[:1], rng())
    (several,) = attack.run(observations[:1], rng())
    assert single.objective == pytest.approx(several.restarts[0], rel=1e-3), "the first restart draws the same"


def test_a_given_start_and_a_seed_decide_the_run(observations):
    attack = euclidean(budget=Budget(2))
    (one,), (same,), (other,) = (attack.run(observations[:1], rng(seed)) for seed in (1, 1, 2))
    assert torch.equal(one.images, same.images)
    assert not torch.equal(one.start, other.start)
    start = torch.full((1, 1, 28, 28), 0.5)
    (given,) = replace(attack, start=Given(start)).run(observations[:1], rng())
    assert torch.equal(given.start, start)


def test_an_attack_without_a_box_may_leave_it(observations):
    far = Given(torch.full((1, 1, 28, 28), 3.0))
    free = euclidean(start=far, optimiser=Adam(0.01), budget=Budget(3))
    (guess,) = free.run(observations[:1], rng())
    assert guess.images.max() > 1
    (held,) = replace(free, box=(0.0, 1.0)).run(observations[:1], rng())
    assert held.last.max() <= 1


def test_what_cannot_be_is_refused(observations):
    with pytest.raises(Misconfigured, match="BatchedLbfgs cannot keep to a box"):
        euclidean(box=(0.0, 1.0))
    for key in ("restarts", "snapshots", "memory"):
        with pytest.raises(Misconfigured, match=f"{key} must be at least 1, not 0"):
            euclidean(**{key: 0})
    without = replace(observations[0], update=None)
    with pytest.raises(Unsupported, match=r"^eucl-tg needs the capability 'update'"):
        euclidean().run([without], rng())


def test_labels_of_p4_start_as_its_images_do(observations):
    for start in (TransformedGaussian(), Uniform()):
        logits = Optimised(start)(Setup.of(observations[0]), rng())
        assert (float(logits.min()), float(logits.max())) == (0, 1)
    plain = Optimised()(Setup.of(observations[0]), rng())
    assert 0 < plain.min() < plain.max() < 1
    assert Optimised(Normal())(Setup.of(observations[0]), rng()).min() < 0


def test_labels_that_are_read_chosen_or_known(observations, batches):
    for observation, batch in zip(observations, batches, strict=True):
        assert Inferred()(Setup.of(observation), rng()).argmax(1).tolist() == batch.labels.tolist()
    four = replace(observations[0], training=replace(observations[0].training, images=4, batch_size=4))
    assert Chosen()(Setup.of(four), rng()).argmax(1).tolist() == [0, 1, 2, 3]
    told = replace(observations[0], labels=torch.tensor([7]))
    assert Known()(Setup.of(told), rng()).argmax(1).tolist() == [7]
    by_adam = replace(observations[0], training=LocalTraining(ClientAdam(), 1, 1, epochs=2))
    with pytest.raises(Unsupported, match="from 2 steps of Adam"):
        Inferred()(Setup.of(by_adam), rng())


def test_labels_that_are_not_optimised_stay():
    observation = seen(victim(2, classes=10), classes=10)
    attack = Inversion(
        Objective(SquaredL2()), Uniform(), Inferred(), Adam(0.1, weight_decay=0.1), Schedule(), Budget(5)
    )
    (guess,) = attack.run([observation], rng())
    assert sorted(guess.labels.tolist()) == [0, 1]


def test_a_group_counts_in_the_objective_of_its_seeds():
    """At the first iteration the seeds are far apart: a heavy group term shows in the trace, by restarts and alone."""
    observation = seen(victim(1, 32), "small-cnn")
    attack = replace(ATTACKS.get("gradinversion"), budget=Budget(1), restarts=2)
    light, heavy = (replace(attack, group=GroupConsistency(weight)).run([observation], rng())[0] for weight in (0, 1e4))
    assert heavy.trace[0] > light.trace[0] + 100
    (single,) = replace(attack, group=GroupConsistency(1e4), restarts=1).run([observation], rng())
    assert single.trace[0] < heavy.trace[0] - 100


def test_every_capability_of_the_threat_is_enough():
    known = THREATS.get("curious-server").capabilities | {Capability.LABELS}
    for name in ATTACKS:
        assert ATTACKS.get(name).needs <= known


def test_r_gap_says_what_it_cannot_invert():
    with pytest.raises(Unsupported, match=r"cannot invert layer .* optimisation attack, such as dlg"):
        ATTACKS.get("r-gap").run([seen(victim(1, 32), "small-cnn")], rng())
    with pytest.raises(
        Unsupported, match="r-gap inverts one step of Sgd on one image, and this client made 1 of Sgd on 2"
    ):
        ATTACKS.get("r-gap").run([seen(victim(2))], rng())


def test_r_gap_is_exact(observations, batches):
    for guess, batch in zip(ATTACKS.get("r-gap").run(observations, rng()), batches, strict=True):
        assert (guess.images - batch.images).abs().max() < 1e-2
        assert torch.equal(guess.labels, batch.labels)
        assert guess.objective < 1e-4


def test_lbfgs_and_adam_are_exchangeable(observations):
    for optimiser in (Adam(0.001, weight_decay=0.01), BatchedLbfgs(lr=0.1)):
        (guess,) = euclidean(optimiser=optimiser, budget=Budget(2)).run(observations[:1], rng())
        assert guess.objective < guess.trace[0]
