"""Many steps as one gradient between the two states: no order, exact where there is one step, its point learned."""

from dataclasses import replace

import pytest
import torch

from fluoroscope.attacks import ATTACKS
from fluoroscope.attacks.gradient_inversion.distances import RelativeLayerL2
from fluoroscope.attacks.gradient_inversion.objective import Objective
from fluoroscope.attacks.gradient_inversion.simulated_clients.dispatch import client_for
from fluoroscope.attacks.gradient_inversion.surrogate import best_points
from fluoroscope.errors import Misconfigured
from fluoroscope.federation.client_round import client_round
from fluoroscope.models import Architecture
from fluoroscope.threat_models import THREATS, observe
from fluoroscope.types import LocalTraining, Observation, PrivateBatch, Reconstruction, Sgd

from .observations import victim

NETWORK = Architecture("lenet5", 1, 2, 28)
SURROGATE = Objective(RelativeLayerL2(), steps="surrogate")


def seen(batch: PrivateBatch, training: LocalTraining, seed: int = 0) -> Observation:
    state = NETWORK.build(seed=1).state_dict()
    record = client_round(NETWORK, state, batch, training, torch.Generator().manual_seed(seed)).record
    return observe(record, THREATS.get("curious-server"), torch.full((1, 28, 28), 0.5))


def value(objective: Objective, observation: Observation, batch: PrivateBatch, order: list[int]) -> float:
    client = client_for(observation, objective)
    logits = 100.0 * torch.nn.functional.one_hot(batch.labels[order], 2)
    return float(client.evaluate(batch.images[order], logits)[0])


def test_the_order_of_the_images_plays_no_part():
    """That of the guess: in another order the unrolled client is another one, the surrogate is the same."""
    batch, training = victim(4), LocalTraining(Sgd(1.0), 4, 2, epochs=2)
    observation = seen(batch, training)
    here, there = (value(SURROGATE, observation, batch, order) for order in ([0, 1, 2, 3], [3, 1, 0, 2]))
    assert here == pytest.approx(there, rel=1e-5)
    unrolled = replace(SURROGATE, steps="unrolled")
    assert value(unrolled, observation, batch, [0, 1, 2, 3]) != pytest.approx(
        value(unrolled, observation, batch, [3, 1, 0, 2]), rel=1e-3
    )


def test_the_true_images_fit_an_update_of_short_steps():
    """Weights that hardly move leave one gradient, whatever the epochs and the batches; another patient's does not."""
    batch, training = victim(4), LocalTraining(Sgd(1e-3), 4, 2, epochs=3)
    observation = seen(batch, training)
    assert value(SURROGATE, observation, batch, [0, 1, 2, 3]) < 0.05
    assert value(SURROGATE, observation, victim(4, seed=9), [0, 1, 2, 3]) > 0.15


def test_a_point_of_the_way_fits_better_than_its_beginning():
    """Two epochs over one batch: gradients at the beginning and halfway, whose mean is that of a quarter of the way."""
    batch, training = victim(2), LocalTraining(Sgd(1e-3), 2, 2, epochs=2)
    observation = seen(batch, training)
    truth = Reconstruction(batch.images, batch.labels, 0.0)
    learned = best_points(observation, replace(SURROGATE, points=(0.0,)), truth, (0.0, 0.25, 0.5, 1.0))
    assert learned.points == (0.25,)
    merged = replace(SURROGATE, steps="merged")
    assert value(learned, observation, batch, [0, 1]) < 0.2 * value(merged, observation, batch, [0, 1])


def test_one_step_has_no_point_to_look_for():
    batch = victim(2)
    truth = Reconstruction(batch.images, batch.labels, 0.0)
    assert best_points(seen(batch, LocalTraining(Sgd(0.1), 2, 2)), SURROGATE, truth, (0.0, 1.0)) is SURROGATE


def test_points_are_shares_of_the_way():
    for points in ((), (1.5,)):
        with pytest.raises(Misconfigured, match="shares of the way"):
            Objective(points=points)


def test_it_is_an_attack_by_name():
    assert ATTACKS.get("surrogate").objective.steps == "surrogate"
