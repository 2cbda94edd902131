"""Nothing that takes images stays unseen: combinations of rows, pieces of a batch, few places, any array."""

import pytest
import torch
import torch.nn.functional as F
from benchmarks._adaptive import bins, fresh, head, mlp, put, sparse
from benchmarks._combined import combined
from benchmarks._leaking import leaks
from torch import nn

from fluoroscope.data import Request, load
from fluoroscope.defences.guard import inspect, unwatched
from fluoroscope.defences.guard.batches import batch
from fluoroscope.defences.guard.isolation import own_row
from fluoroscope.defences.guard.losses import losses
from fluoroscope.defences.guard.products import products
from fluoroscope.defences.guard.profile import prepared
from fluoroscope.defences.guard.undone import combinations
from fluoroscope.defences.guard.unwatched import TOGETHER, Held, _gradients, free
from fluoroscope.defences.guard.watch import watched
from fluoroscope.errors import BadInput


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    return load("phantom/chest", Request(size=28, images=160)).batch.images


def rng(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def found(model: nn.Module, images: torch.Tensor) -> list:
    watch, out = watched(prepared(model), batch(images))
    return products(watch, losses(out, len(images), rng()).sum(), len(images))


def test_combinations_are_the_inverse_of_what_lies_behind():
    weight, slope = torch.randn(4, 9, generator=rng()), torch.ones(9)
    slope[:3] = 0
    mixture = combinations(weight, slope)
    assert torch.allclose(weight * slope @ mixture, torch.eye(4), atol=1e-4)
    assert bool((mixture[:3] == 0).all())


def test_units_behind_a_rectifier_that_lets_all_through_are_read_at_the_first_layer():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Flatten(),
        nn.Linear(64, 24),
        nn.ReLU(),
        nn.Linear(24, 8),
        nn.ReLU(),
        nn.Linear(8, 5),
        nn.ReLU(),
        nn.Linear(5, 2),
    )
    with torch.no_grad():
        model[1].bias[:16] = 9.0  # the others bend
    seen = {each.name: each for each in found(model, torch.rand(12, 1, 8, 8, generator=rng()))}
    mixed = seen["1.weight behind 3.weight"]
    assert mixed.undone
    assert mixed.given is seen["1.weight"].given
    assert torch.allclose(mixed.gradients[0], seen["3.weight"].gradients[0], atol=1e-4)


@pytest.fixture(scope="module")
def cases(images) -> dict:
    torch.manual_seed(0)
    return {case.kind: case for case in combined(images[:96], torch.randint(4, (96,), generator=rng()), rng())}


def test_a_secret_combination_of_rows_is_refused(images, cases):
    case = cases["combined/32 gates, from a trained network"]
    assert leaks(case, images[96:], torch.randint(4, (64,), generator=rng())) == "images"
    verdict = inspect(case.model.state_dict(), case.agreed, images[96:], seed=0)
    assert ("isolation", "1.weight behind 3.weight") in {
        (r.check, r.layer) for r in verdict.reasons if r.severity == "refuse"
    }
    assert inspect(case.agreed.state_dict(), case.agreed, images[96:], seed=0).accepted


@pytest.mark.parametrize("gates", [8, 32])
def test_a_model_that_was_trained_with_its_reader_is_refused(images, cases, gates):
    case = cases[f"combined/{gates} gates, trained with its reader"]
    assert leaks(case, images[96:], torch.randint(4, (64,), generator=rng())) == "images"
    assert inspect(case.model.state_dict(), case.agreed, images[96:], seed=0).refused


@pytest.mark.parametrize("share", [0.25, 0.5])
def test_a_part_of_the_rows_is_enough_to_be_refused(images, share):
    torch.manual_seed(0)
    model = mlp(784, 256, None, head(256, "own"))
    agreed, count = fresh(model), int(256 * share)
    weight, bias = agreed[1].weight.detach().clone(), agreed[1].bias.detach().clone()
    weight[:count], bias[:count] = sparse(images[:96].flatten(1), count, 0.02, rng())
    put(model[1], weight, bias)
    assert inspect(model.state_dict(), agreed, images[96:], seed=0).refused
    assert inspect(agreed.state_dict(), agreed, images[96:], seed=0).accepted


class Parts(nn.Module):
    """Takes its batch in pieces."""

    def __init__(self, pieces: int) -> None:
        super().__init__()
        self.first, self.fc, self.pieces = nn.Linear(64, 20), nn.Linear(20, 3), pieces

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        size = max(len(x) // self.pieces, 1)
        return self.fc(torch.cat([F.relu(self.first(part)) for part in x.flatten(1).split(size)]))


@pytest.mark.parametrize("pieces", [2, 12])
def test_a_batch_taken_in_pieces_is_one_batch(pieces):
    torch.manual_seed(0)
    model, given = Parts(pieces), torch.rand(12, 1, 8, 8, generator=rng())
    together = Parts(1)
    together.load_state_dict(model.state_dict())
    one, whole = found(model, given)[0], found(together, given)[0]
    assert torch.equal(one.given, whole.given)
    assert torch.allclose(one.gradients[0], whole.gradients[0], atol=1e-7)


@pytest.mark.parametrize("shape", [{"kernel_size": 5, "padding": 1}, {"kernel_size": 3, "dilation": 2}])
def test_few_places_add_up_to_the_gradient(shape):
    torch.manual_seed(0)
    layer = nn.Conv2d(2, 6, **shape)
    model = nn.Sequential(layer, nn.ReLU(), nn.Flatten(), nn.LazyLinear(2))
    given = torch.rand(7, 2, 6, 6, generator=rng())
    model(given)
    first = found(model, given)[0]
    assert first.overlaps
    made = torch.einsum("bpu,bpi->ui", first.gradients[0], first.given)
    own = torch.autograd.grad(losses(model(given), 7, rng()).sum(), layer.weight)[0]
    assert torch.allclose(made.reshape(own.shape), own, atol=1e-5)


class Series(nn.Module):
    """Recurrence, and a norm over the batch that one image alone cannot pass."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.norm, self.fc = nn.GRU(64, 20, batch_first=True), nn.BatchNorm1d(20), nn.Linear(20, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.norm(self.cell(x.flatten(1)[:, None])[0][:, 0]))


@pytest.mark.parametrize(("together", "multiplications"), [(12, 12 * TOGETHER), (4, 4 * 4)])
def test_every_images_own_gradient_adds_up_to_the_batchs(together, multiplications):
    torch.manual_seed(0)
    model, given = prepared(Series()), torch.rand(12, 1, 8, 8, generator=rng())
    watch, _ = watched(model, batch(given))
    held = free(model, watch.seen, watch.otherwise, 64)
    assert "cell.weight_ih_l0" in held
    assert "fc.weight" not in held
    weight = model.get_parameter("cell.weight_ih_l0").requires_grad_(True)
    parts = []
    for _ in _gradients(model, batch(given), rng(), multiplications):
        parts.append(held["cell.weight_ih_l0"].matrix().clone())
        weight.grad = None
    assert len(parts) == together  # BatchNorm refuses one image by itself: then as many as can be afforded together
    own = torch.autograd.grad(losses(model(given[:together]), together, rng()).sum(), weight)[0]
    assert torch.allclose(sum(parts), own, atol=1e-5)


def test_small_batches_give_each_images_gradient_as_one_by_one(monkeypatch):
    monkeypatch.setattr(unwatched, "losses", lambda out, images, rng: out.square().sum(1))  # no label is drawn
    torch.manual_seed(0)
    model = prepared(nn.Sequential(nn.Flatten(), nn.Linear(64, 20), nn.Tanh(), nn.Linear(20, 3)))
    given = batch(torch.rand(2 * TOGETHER + 5, 1, 8, 8, generator=rng()))
    weight = model.get_parameter("1.weight").requires_grad_(True)

    def sizes(multiplications):
        found = []
        for _ in _gradients(model, given, rng(), multiplications):
            found.append(float(weight.grad.norm()))
            weight.grad = None
        return torch.tensor(found)

    together, alone = sizes(given.size * TOGETHER), sizes(given.size)
    assert len(together) == len(alone) == given.size
    assert torch.allclose(together, alone, rtol=1e-4)


def test_arrays_of_any_shape_are_matrices():
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mask, self.flat = nn.Parameter(torch.rand(1, 20, 64)), nn.Parameter(torch.rand(20 * 64))
            self.rows = nn.ParameterList([nn.Parameter(torch.rand(64)) for _ in range(16)])
            self.few = nn.ParameterList([nn.Parameter(torch.rand(50)) for _ in range(3)])

    held = free(Odd(), [], [], 64)
    assert {name: each.rows for name, each in held.items()} == {"mask": 20, "flat": 20, "rows.0 and 15 more": 16}
    gradient = torch.tensor([[3.0, 0.0], [0.0, -4.0]])
    main, weights = own_row(gradient)
    assert main.tolist() == [0.0, 1.0]  # pictures are bright, whichever way the loss turns them
    assert weights.tolist() == [3.0, -4.0]
    assert own_row(gradient, torch.tensor([3.0, -2.0]))[0].tolist() == [0.0, 2.0]  # what was read, as it was
    assert own_row(gradient, torch.tensor([3.0, 2.0]))[0].tolist() == [0.0, -2.0]
    assert Held((nn.Parameter(torch.rand(2)),), 1).matrix() is None


@pytest.mark.parametrize("spoilt", [float("nan"), float("inf"), 1e20])
def test_a_spoilt_image_does_not_blind_the_guard(images, spoilt):
    torch.manual_seed(0)
    model = mlp(784, 192, None, head(192, "own"))
    agreed = fresh(model)
    put(model[1], *sparse(images[:96].flatten(1), 192, 0.02, rng()))
    own = images[96:].clone()
    own[3, 0, 4, 4] = spoilt
    assert inspect(model.state_dict(), agreed, own, seed=0).refused


def test_images_without_a_number_are_named():
    with pytest.raises(BadInput, match="without NaN or infinity"):
        batch(torch.full((4, 1, 8, 8), float("nan")))


def test_a_whisper_is_heard(images):
    """A row may speak a hundred million million times as softly as others, and be read all the same."""
    torch.manual_seed(0)
    model = mlp(784, 192, None, head(192))
    agreed = fresh(model)
    put(model[1], *bins(images[:96].flatten(1), 192, rng(), tuple(images.shape[1:])))
    with torch.no_grad():
        model[3].weight[:, :96] *= 1e-14
    verdict = inspect(model.state_dict(), agreed, images[96:], seed=0)
    assert verdict.refused
