"""Which images shared a step, and the steps that an attacker simulates with them."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from fluoroscope.attacks.closed_form.span.layers import Layer
from fluoroscope.attacks.closed_form.span.row_space import row_space
from fluoroscope.attacks.closed_form.span.simulated_steps import SimulatedSteps, evenly
from fluoroscope.attacks.closed_form.span.step_groups import step_groups
from fluoroscope.attacks.closed_form.span.target import Target
from fluoroscope.attacks.common.setup import Setup
from fluoroscope.attacks.gradient_inversion.evidence import statistics
from fluoroscope.federation.client_round import client_round
from fluoroscope.federation.local_training import schedule, train_on
from fluoroscope.rng import seeded_globals
from fluoroscope.threat_models import THREATS, observe
from fluoroscope.types import LocalTraining, Network, PrivateBatch, Sgd

LAYER = Layer("next", "bn", None, True, (24, 4, 4), (4, 4), (3, 3), (1, 1), (1, 1), (1, 1))


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def planted(steps: list[list[int]], images: int) -> tuple[Tensor, Tensor]:
    """Maps that are alike, and the span of an update whose derivatives sum to zero over each step's positions."""
    shape = (24, 4, 4)
    common = torch.randn((1, *shape), generator=rng(1), dtype=torch.float64)
    maps = (common + torch.randn((images, *shape), generator=rng(2), dtype=torch.float64)).clamp_min(0)
    change = torch.zeros(200, 24 * 9, dtype=torch.float64)
    for number, step in enumerate(steps):
        patches = LAYER.patches(maps[step]).transpose(1, 2).flatten(0, 1)
        derivatives = torch.randn((len(patches), 200), generator=rng(9 + number), dtype=torch.float64)
        change = change + (derivatives - derivatives.mean(0)).T @ patches
    span = row_space(change, images * LAYER.positions - len(steps))
    assert span is not None
    return maps, span


def sets(groups: list[Tensor] | None) -> set[tuple[int, ...]]:
    assert groups is not None
    return {tuple(group.tolist()) for group in groups}


@pytest.mark.parametrize(
    ("steps", "found"),
    [
        ([[0, 3, 4], [1, 2, 5]], [0, 1, 2, 3, 4, 5]),
        ([[0, 3, 4], [1, 2, 5]], [0, 3, 2, 5]),
        ([[0, 1], [2, 3], [4, 5]], [5, 4, 3, 2, 1, 0]),
        ([[0], [1], [2]], [0, 1, 2]),
    ],
)
def test_maps_of_one_step_are_told_from_those_of_others(steps, found):
    """Whatever their scales, in whatever order, and where some were not found."""
    maps, span = planted(steps, sum(map(len, steps)))
    scales = torch.linspace(0.2, 3, len(found), dtype=torch.float64)[:, None, None, None]
    groups = step_groups(span, LAYER, scales * maps[found], len(steps))
    number = {image: place for place, image in enumerate(found)}
    true = {tuple(sorted(number[image] for image in step if image in number)) for step in steps}
    assert sets(groups) == true


def test_of_one_step_all_are():
    maps, span = planted([[0, 1, 2]], 3)
    assert sets(step_groups(span, LAYER, maps, 1)) == {(0, 1, 2)}


def test_mixtures_of_two_steps_are_not_sorted():
    """A map that is half of one step's and half of another's stands between them: nothing is said."""
    maps, span = planted([[0, 1], [2, 3]], 4)
    between = torch.cat([maps, (maps[:1] / maps[0].norm() + maps[2:3] / maps[2].norm())])
    assert step_groups(span, LAYER, between, 2) is None


def network() -> Network:
    with seeded_globals(1):
        body = [nn.Conv2d(1, 6, 3, 2, 1), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 8, 3, 2, 1), nn.BatchNorm2d(8)]
        return Network.of(nn.Sequential(*body, nn.ReLU(), nn.Flatten(), nn.Linear(128, 2)), (1, 16, 16))


def played(lr: float) -> tuple[Setup, PrivateBatch, list[Tensor], list[Tensor]]:
    """A round of two steps of three images: its setup, who took part when, and what layer 3 was given each time."""
    net, training = network(), LocalTraining(Sgd(lr), 6, 3)
    # Alike, as images of one kind are: the steps go the same way.
    common, own = (torch.rand((n, 1, 16, 16), generator=rng(n)) for n in (1, 6))
    images = 0.7 * common + 0.3 * own
    batch = PrivateBatch(images, torch.ones(6, dtype=torch.int64), tuple("abcdef"))
    state = net.build().state_dict()
    record = client_round(net, state, batch, training, rng(4)).record
    steps = schedule(training, rng(4))
    setup = Setup.of(observe(record, THREATS.get("curious-server")))
    features, now, model = [], dict(state), net.build().train()
    for chosen in steps:
        model.load_state_dict(now)
        features.append(model[:3](images[chosen]).detach())
        now = train_on(net.build(), now, [(images[chosen], batch.labels[chosen])], training, rng()).state
    return setup, batch, steps, features


def test_simulated_steps_are_the_clients():
    """The first at the global weights exactly, the second nearer at its point than at the global weights."""
    setup, batch, steps, features = played(0.1)
    simulated = SimulatedSteps(setup, tuple(steps), evenly(2), 6, statistics(setup, alone=False))
    found, _ = simulated.features(batch.images, "3")
    torch.testing.assert_close(found[steps[0]], features[0], atol=1e-5, rtol=1e-4)
    at_start, _ = replace(simulated, points=(0.0, 0.0)).features(batch.images, "3")
    gaps = [(each[steps[1]] - features[1]).norm() for each in (found, at_start)]
    assert gaps[0] < 0.7 * gaps[1]


def test_the_true_images_have_the_statistics_that_were_sent():
    setup, batch, steps, _ = played(1e-6)
    simulated = SimulatedSteps(setup, tuple(steps), evenly(2), 6, statistics(setup, alone=False))
    assert float(simulated.features(batch.images, "3")[1]) < 1e-4
    assert float(simulated.features(batch.images.flip(3), "3")[1]) > 1e-3


def test_images_that_only_fill_a_batch_are_not_asked_for():
    setup, batch, steps, _ = played(0.1)
    order = torch.cat([steps[0], steps[1][:2]])
    groups = (torch.tensor([0, 1, 2]), torch.tensor([3, 4, 5]))
    images = torch.cat([batch.images[order], batch.images[steps[1][2:]]])
    found, off = SimulatedSteps(setup, groups, evenly(2), 5, {}).features(images, "3")
    whole, _ = SimulatedSteps(setup, tuple(steps), evenly(2), 6, {}).features(batch.images, "3")
    torch.testing.assert_close(found, whole[order])
    assert float(off) == 0


@pytest.mark.parametrize("swapped", [False, True])
def test_steps_are_placed_where_the_features_fit(swapped):
    setup, batch, steps, features = played(0.1)
    maps = torch.zeros(6, *features[0].shape[1:])
    for chosen, seen in zip(steps, features, strict=True):
        maps[chosen] = seen
    groups = tuple(reversed(steps)) if swapped else tuple(steps)
    guessed = SimulatedSteps(setup, groups, (0.25, 0.25), 6, {})
    found = guessed.placed(batch.images, Target("3", maps, scaled=False))
    assert [group.tolist() for group in found.groups] == [chosen.tolist() for chosen in steps]
    # How far of the way the first layer had come after one step, by replaying it.
    first = [(batch.images[steps[0]], batch.labels[steps[0]])]
    after = train_on(network().build(), setup.state, first, setup.training, rng()).state
    moved, way = (each.flatten() for each in (after["0.weight"] - setup.state["0.weight"], setup.update["0.weight"]))
    assert found.points[0] == 0
    assert found.points[1] == pytest.approx(float(moved @ way / (way @ way)), abs=0.2)
