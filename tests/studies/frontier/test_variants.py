"""Ways to train, each beside what it must leave as it is."""

import pytest
import torch

from fluoroscope.federation.client_round import client_round
from fluoroscope.models import Architecture
from fluoroscope.rng import seeded_globals
from fluoroscope.studies import STUDIES
from fluoroscope.studies.frontier.local_rounds import LocalRound
from fluoroscope.studies.frontier.variants import (
    ARCHITECTURES,
    VARIANTS,
    cropped,
    flipped,
    in_mixed_precision,
    rotated,
    rounded,
    with_dropout,
    with_lora,
)
from fluoroscope.types import LocalTraining, Network, PrivateBatch, Sgd


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def images(count: int = 4, size: int = 32) -> torch.Tensor:
    return torch.rand(count, 1, size, size, generator=rng(7))


def test_flips_are_mirrors():
    x = images(16)
    y = flipped(x, rng())
    same, mirrored = ((y == other).flatten(1).all(1) for other in (x, x.flip(3)))
    assert (same ^ mirrored).all()
    assert 0 < mirrored.sum() < 16


def test_rotation_and_crop_by_nothing_leave_the_image():
    x = images()
    torch.testing.assert_close(rotated(x, rng(), most=0.0), x, atol=1e-5, rtol=0)
    torch.testing.assert_close(cropped(x, rng(), least=1.0), x, atol=1e-5, rtol=0)
    assert not torch.allclose(rotated(x, rng()), x, atol=0.05)


def test_a_crop_is_a_window():
    """A ramp stays a ramp, flatter by the side of its window, and inside what it was."""
    x = torch.linspace(0, 1, 64).expand(1, 1, 64, 64)
    y = cropped(x, rng(1), least=0.5)
    slope = y[0, 0, 32].diff()[20:40].mean() / x[0, 0, 32].diff().mean()
    assert 0.5 <= slope <= 1
    assert x.min() <= y.min() <= y.max() <= x.max()


@pytest.mark.parametrize(("wrap", "model"), [(with_dropout, "resnet18"), (in_mixed_precision, "resnet18")])
def test_wrapped_networks_keep_their_names_and_their_task(wrap, model):
    plain, wrapped = (Architecture(model, 1, 2, 32).build() for _ in range(2))
    wrapped = wrap(wrapped)
    assert list(wrapped.state_dict()) == list(plain.state_dict())
    x = images()
    with torch.no_grad():
        torch.testing.assert_close(wrapped.eval()(x), plain.eval()(x), atol=0.1, rtol=0.1)


def test_adapters_begin_at_no_change_and_are_all_that_is_trained():
    network = Architecture("vit-small", 1, 2, 32)
    with seeded_globals(0):
        adapted = with_lora(network.build())
    with torch.no_grad():
        torch.testing.assert_close(adapted(images()), network.build()(images()))
    variant, state = ARCHITECTURES["vit-small, LoRA and head"], adapted.state_dict()
    batch = PrivateBatch(images(2), torch.tensor([0, 1]), ("a", "b"))
    training = LocalTraining(Sgd(0.1), 2, 2, frozen=variant.frozen)
    record = client_round(Network.of(adapted, (1, 32, 32)), state, batch, training, rng()).record
    moved = {name for name, value in record.state_after.items() if not torch.equal(value, state[name])}
    assert moved
    assert all("lora" in name or name.startswith("fc.") for name in moved)


def test_rounding_is_of_weights_or_of_changes():
    network = Architecture("lenet5", 1, 2, 32)
    batch = PrivateBatch(images(2), torch.tensor([0, 1]), ("a", "b"))
    record = client_round(network, network.build().state_dict(), batch, LocalTraining(Sgd(1e-3), 2, 2), rng()).record
    for name, before in record.state_before.items():
        change = record.state_after[name] - before
        weights, changes = (
            rounded(record, torch.bfloat16, weights=kind).state_after[name] - before for kind in (True, False)
        )
        torch.testing.assert_close(changes, change, rtol=0.02, atol=1e-6)
        assert (weights - change).norm() > (changes - change).norm()


def test_every_cell_names_a_variant():
    for name in ("frontier/epochs", "frontier/architectures", "frontier/augmentation"):
        cells = STUDIES.get(name).grid("small", None)
        assert cells
        assert all(isinstance(cell, LocalRound) and cell.variant in VARIANTS for cell in cells)
