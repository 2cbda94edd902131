"""Statistics first, the gradient term at the end."""

from dataclasses import replace

import pytest
import torch

from fluoroscope.attacks.common.checkpoint import Checkpoint
from fluoroscope.attacks.common.engine import Budget
from fluoroscope.attacks.common.initialisation import Given
from fluoroscope.attacks.common.optimisers import Adam, Schedule
from fluoroscope.attacks.gradient_inversion.attack import Inversion
from fluoroscope.attacks.gradient_inversion.coarse import CoarseToFine
from fluoroscope.attacks.gradient_inversion.distances import RelativeLayerL2
from fluoroscope.attacks.gradient_inversion.objective import Objective
from fluoroscope.attacks.gradient_inversion.regularisers import TotalVariation
from fluoroscope.attacks.gradient_inversion.row_layout import one_by_one
from fluoroscope.attacks.gradient_inversion.simulated_clients.dispatch import client_for
from fluoroscope.attacks.gradient_inversion.stages import CoarseFirst, Grids, StatisticsFirst
from fluoroscope.digest import digest
from fluoroscope.rng import generator
from tests.attacks.gradient_inversion.observations import seen, victim

PRIOR = torch.full((1, 28, 28), 0.5)
ATTACK = Inversion(
    Objective(RelativeLayerL2(), 0.01, batchnorm_weight=0.01, regularisers=(TotalVariation(0.1),)),
    budget=Budget(6),
    stages=StatisticsFirst(4, lr=0.003, grids=Grids(CoarseToFine(iterations=2), CoarseToFine(iterations=2, noise=0.0))),
)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_the_second_stage_goes_on_where_the_first_ended():
    observation = seen(victim(1), "small-cnn", prior=PRIOR)
    (found,) = ATTACK.run([observation], rng())
    alone = replace(ATTACK, objective=replace(ATTACK.objective, distance=None), stages=None)
    draws = generator(int(torch.randint(2**62, (), generator=rng())), digest(observation.update), "stages")
    client = client_for(observation, alone.objective)
    grids = CoarseToFine(iterations=2, noise=0.0)
    logits = torch.zeros(1, 1, 2)
    (begun,) = grids(one_by_one([client]), PRIOR[None, None], logits, ATTACK.box, [draws], lambda _: None)
    (first,) = replace(alone, start=Given(begun), optimiser=Adam(0.1 * Grids().fine)).run([observation], draws)
    second = replace(ATTACK, start=Given(first.images), optimiser=Adam(0.003), label_pace=0.1 / 0.003, stages=None)
    second = replace(second, schedule=Schedule(warmup=5, decay="cosine"), budget=Budget(4))
    (expected,) = second.run([observation], draws)
    assert torch.equal(found.images, expected.images)
    assert found.objective == expected.objective
    assert torch.equal(found.start, PRIOR[None])
    assert len(found.trace) == 4


def test_progress_runs_through_both_stages_and_a_stopped_run_goes_on(tmp_path):
    told, observations = [], [seen(victim(1, seed=s), "small-cnn", prior=PRIOR) for s in (0, 1)]
    found = ATTACK.run(observations, rng(), lambda i, n: told.append((i, n)))
    assert told == [(i, 32) for i in (*range(0, 24, 2), *range(24, 32))], "the first stage is of both together"

    class Stopped(Exception):
        pass

    def stop(i: int, n: int) -> None:
        if i == 29:
            raise Stopped

    checkpoint = Checkpoint(tmp_path, every_seconds=0.0)
    with pytest.raises(Stopped):
        ATTACK.run(observations, rng(), stop, checkpoint)
    told.clear()
    again = ATTACK.run(observations, rng(), lambda i, n: told.append(i), checkpoint)
    assert told == [30, 31], "no stage that had ended is repeated"
    for ours, theirs in zip(again, found, strict=True):
        assert torch.equal(ours.images, theirs.images)


def test_a_neighbour_changes_nothing():
    """But for the rounding of a larger batch; Adam's first steps make much of it where the derivative is next to 0."""
    observations = [seen(victim(1, seed=s), "small-cnn", prior=PRIOR) for s in (0, 1, 2)]
    together = ATTACK.run(observations, rng())
    for observation, found in zip(observations, together, strict=True):
        (alone,) = ATTACK.run([observation], rng())
        assert (found.images - alone.images).abs().mean() < 0.01
        torch.testing.assert_close(torch.tensor(found.trace), torch.tensor(alone.trace), atol=0, rtol=2e-3)
        assert torch.equal(found.start, alone.start)


def test_each_has_its_own_time():
    """A limit in seconds is one observation's: they go one after another."""
    told, observations = [], [seen(victim(1, seed=s), "small-cnn", prior=PRIOR) for s in (0, 1)]
    replace(ATTACK, budget=Budget(6, seconds=1e6)).run(observations, rng(), lambda i, n: told.append((i, n)))
    assert told == [(i, 32) for i in range(32)]


def test_several_images_go_through_the_grids():
    told = []
    observation = seen(victim(2), "small-cnn", prior=PRIOR)
    (found,) = ATTACK.run([observation], rng(), lambda i, n: told.append((i, n)))
    assert told == [(i, 3 * 2 + 6 + 4) for i in range(16)]
    assert found.images.shape == (2, 1, 28, 28)
    assert not torch.allclose(found.images[0], found.images[1], atol=1e-2)
    assert 0 <= found.images.min() <= found.images.max() <= 1


def test_statistics_alone_go_through_the_grids_too():
    """And from there they end lower than from the prior."""
    observation, told = seen(victim(1), "small-cnn", prior=PRIOR), []
    plain = replace(ATTACK, objective=replace(ATTACK.objective, distance=None), stages=None, budget=Budget(20))
    grids = Grids(one=CoarseToFine(iterations=10, noise=0.0))
    (found,) = replace(plain, stages=CoarseFirst(grids)).run([observation], rng(), lambda i, n: told.append((i, n)))
    (without,) = plain.run([observation], rng())
    assert told == [(i, 50) for i in range(50)]
    assert torch.equal(found.start, PRIOR[None])
    assert found.objective < without.objective


@pytest.mark.parametrize("model", ["small-cnn", "lenet5"])
def test_without_statistics_the_gradient_term_counts_from_the_start(model):
    observation = seen(victim(1), model, prior=PRIOR, batchnorm="eval")
    (found,) = ATTACK.run([observation], rng())
    (expected,) = replace(ATTACK, stages=None).run([observation], rng())
    assert torch.equal(found.images, expected.images)
    assert len(found.trace) == 6


def test_labels_keep_their_pace():
    """Ten steps of .003 would not turn a label; at the first stage's pace they do."""
    batch = victim(1, seed=1)
    observation = seen(batch, "small-cnn", prior=PRIOR)
    start = Given(torch.tensor([[1.0, 0.0]]))
    attack = replace(
        ATTACK, labels=replace(ATTACK.labels, start=start), stages=StatisticsFirst(30, 0.003), budget=Budget(60)
    )
    (found,) = attack.run([observation], rng())
    assert found.labels.tolist() == batch.labels.tolist() == [1]
