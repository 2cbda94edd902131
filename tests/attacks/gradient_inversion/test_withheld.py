"""Clients that keep something at home: the attack goes on with the rest."""

from dataclasses import replace

import pytest
import torch

from fluoroscope.attacks import ATTACKS
from fluoroscope.attacks.common.engine import Budget
from fluoroscope.attacks.common.setup import Setup
from fluoroscope.attacks.gradient_inversion.label_handling import Inferred, Optimised, Restored
from fluoroscope.attacks.gradient_inversion.simulated_clients.dispatch import client_for
from fluoroscope.data import Request, load
from fluoroscope.errors import Unsupported
from tests.attacks.gradient_inversion.observations import seen, victim

PRIOR = torch.full((1, 32, 32), 0.4)


def rng() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def observed(**changes):
    return seen(victim(1, 32, **changes), "small-cnn", prior=PRIOR)


@pytest.mark.parametrize("withheld", [False, True])
def test_the_truth_is_better_than_a_flat_image(withheld):
    """By the objective that is used: total variation alone would prefer the flat one."""
    private, attack = load("phantom/chest", Request(size=64, images=1, seed=0)).batch, ATTACKS.get("epochwise")
    observation = seen(private, "resnet18")
    observation = replace(observation, buffers_after=None) if withheld else observation
    client = client_for(observation, attack.bare if withheld else attack.objective)
    logits = 50.0 * torch.nn.functional.one_hot(private.labels, client.setup.outputs).float()
    truth = client.evaluate(private.images, logits)[0]
    flat = client.evaluate(torch.full_like(private.images, float(private.images.mean())), logits)[0]
    assert truth < flat


def test_statistics_that_stay_at_home_leave_the_gradient_term():
    attack = replace(ATTACKS.get("epochwise"), budget=Budget(5))
    (found,) = attack.run([replace(observed(), buffers_after=None)], rng())
    assert found.objective < found.trace[0]


def test_a_neighbour_that_withholds_changes_nothing():
    attack, open_one = replace(ATTACKS.get("epochwise"), budget=Budget(4)), observed()
    (alone,) = attack.run([open_one], rng())
    beside, _ = attack.run([open_one, replace(observed(seed=1), buffers_after=None)], rng())
    assert torch.equal(alone.images, beside.images)


@pytest.mark.parametrize("name", ["epochwise", "inverting-gradients", "gradinversion"])
def test_hidden_layers_are_not_compared(name):
    observation = observed()
    hidden = next(iter(observation.update)).rpartition(".")[0]
    part = {k: v for k, v in observation.update.items() if not k.startswith(f"{hidden}.")}
    assert len(part) < len(observation.update)
    attack = replace(ATTACKS.get(name), budget=Budget(3))
    (found,) = attack.run([replace(observation, update=part)], rng())
    assert found.images.isfinite().all()


def test_labels_of_a_hidden_head_start_at_random_where_they_are_optimised():
    observation = observed()
    part = {k: v for k, v in observation.update.items() if v.shape[0] != 2}
    hidden = Setup.of(replace(observation, update=part))
    with pytest.raises(Unsupported, match="labels cannot be read"):
        Inferred()(hidden, rng())
    assert torch.equal(Restored()(hidden, rng()), Optimised()(hidden, rng()))


def test_statistics_alone_guess_no_labels():
    (found,) = replace(ATTACKS.get("bn-only"), budget=Budget(2)).run([observed()], rng())
    assert found.labels is None


def test_restarts_differ():
    (found,) = replace(ATTACKS.get("bn-only"), budget=Budget(3), restarts=3).run([observed()], rng())
    assert len(set(found.restarts)) == 3


def test_grey_holds_the_channels_alike():
    grey = victim(1, 32)
    observation = seen(replace(grey, images=grey.images.repeat(1, 3, 1, 1)), "small-cnn")
    attack = replace(ATTACKS.get("inverting-gradients"), budget=Budget(3), grey=True)
    (found,) = attack.run([observation], rng())
    torch.testing.assert_close(found.images[:, 0], found.images[:, 2])
