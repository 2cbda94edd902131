"""What can be read of a gradient, against batches whose answer is known, and against the readings themselves."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fluoroscope.defences.guard.batches import Batch, batch, completed
from fluoroscope.defences.guard.held import holds
from fluoroscope.defences.guard.isolation import crowd, differences, distances, read, readings, tokens, unlike
from fluoroscope.defences.guard.linear_steps import straight
from fluoroscope.defences.guard.losses import losses
from fluoroscope.defences.guard.products import products
from fluoroscope.defences.guard.profile import prepared, profile, twin
from fluoroscope.defences.guard.watch import watched


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


GIVEN = torch.rand(12, 50, generator=rng())


def test_a_row_that_one_image_owns_reads_it_and_shared_rows_read_nothing():
    found = read(torch.eye(12), GIVEN)
    assert (found.alone, found.apart, found.rows) == (1, 1, 1)
    shared = torch.ones(12, 20) + 0.1 * torch.rand(12, 20, generator=rng())
    assert read(shared, GIVEN).alone == 0
    half = torch.eye(12)[:, :6]
    assert read(half, GIVEN).alone == 0.5


def test_bins_are_read_by_differences_whatever_their_order_and_scale():
    stairs = torch.tril(torch.ones(12, 12)) * torch.rand(12, 1, generator=rng()).add(0.5)
    scaled = stairs[:, torch.randperm(12, generator=rng())] * torch.rand(12, generator=rng()).add(0.1)
    found = read(scaled, GIVEN)
    assert found.alone <= 1 / 12 + 1e-6
    assert found.apart >= 9 / 12  # the smallest bins have too few images to tell a proportion


def test_rows_of_unlike_proportions_do_not_cancel():
    drawn = torch.rand(12, 40, generator=rng()) + 0.1
    assert read(drawn, GIVEN).apart == 0


def test_readings_are_the_errors_of_a_loop():
    rows = torch.rand(7, 12, generator=rng()).double() ** 4
    rows[0] = torch.eye(12)[3]
    apart = distances(GIVEN)
    found = readings(rows, apart)
    usual = torch.cdist(GIVEN.double(), GIVEN.double()).square()
    usual = usual[~torch.eye(12, dtype=torch.bool)].median()
    for r, row in enumerate(rows):
        made = (row[:, None] * GIVEN).sum(dim=0) / row.sum()
        for j in range(12):
            near = min(float((GIVEN[j] - GIVEN[k]).square().sum() / usual) for k in range(12) if k != j)
            error = float((made - GIVEN[j]).square().sum() / usual)
            assert bool(found[r, j]) == (error < min(0.1, near / 2))


def test_equal_rows_are_one_and_dead_rows_are_none():
    rows = torch.rand(5, 9, generator=rng())
    many = torch.cat([rows, 3 * rows, -rows, torch.zeros(2, 9)])
    assert len(unlike(many)) == 5
    assert len(differences(unlike(rows[:1]))) == 0


def test_a_crowd_is_told_from_single_images_and_sleeping_rows():
    alone, shared = torch.eye(8), torch.ones(8, 8)
    assert crowd(alone).concentration == pytest.approx(1)
    assert crowd(-3 * shared).concentration == pytest.approx(1 / 8)
    half = torch.cat([alone, torch.zeros(8, 8)], dim=1)
    assert (crowd(half).concentration, crowd(half).asleep) == (pytest.approx(0.5), 0.5)
    drawn = torch.randn(12, 20, generator=rng())
    loop = sum(float((row**2).sum() / row.abs().sum() ** 2) for row in drawn.T) / 20
    assert crowd(drawn).concentration == pytest.approx(loop)


def test_what_hardly_bends_is_no_bend():
    given = torch.randn(40, 16, generator=rng())
    assert straight(given, torch.tanh(1e-3 * given))
    assert straight(given, F.leaky_relu(given + 20))
    assert not straight(given, F.relu(given))
    assert not straight(given, torch.tanh(given))
    assert not straight(given, torch.zeros(40, 16))


def test_tokens_alone_in_a_row():
    dense = torch.rand(64, 32, generator=rng())
    assert tokens(dense) == 0
    assert tokens(torch.eye(64)[:, :32] + 1e-4) == 1


class Odd(nn.Module):
    def __init__(self, how: str):
        super().__init__()
        self.how, self.w = how, nn.Parameter(torch.randn(6, 16, generator=rng()))
        self.fc = nn.Linear(6, 3)

    def forward(self, x):
        x = x.flatten(1)
        z = {
            "linear": lambda: F.linear(x, self.w),
            "matmul": lambda: x @ self.w.T,
            "left": lambda: (self.w @ x.T).T,
            "einsum": lambda: torch.einsum("oi,bi->bo", self.w, x),
            "normed": lambda: F.linear(x, self.w / self.w.norm(dim=1, keepdim=True) * 1.0),
            "sum": lambda: (x[:, None] * self.w).sum(dim=-1),
            "bmm": lambda: torch.bmm(x[:, None], self.w.T.expand(len(x), -1, -1))[:, 0],
            "conv": lambda: F.conv2d(x.view(-1, 1, 4, 4), self.w.view(6, 1, 4, 4)).flatten(1),
        }[self.how]()
        return self.fc(z.relu())


@pytest.mark.parametrize("how", ["linear", "matmul", "left", "einsum", "normed", "bmm", "conv", "sum"])
def test_the_gradient_of_weights_is_what_was_read_times_what_came_back(how):
    """However a product is called, D^T X is the gradient that autograd gives to the weights."""
    model = Odd(how)
    images = torch.rand(5, 1, 4, 4, generator=rng())
    watch, out = watched(prepared(model), batch(images))
    total = losses(out, 5, rng()).sum()
    first = products(watch, total, 5)[0]
    made = first.gradients[0][:, 0].T @ first.given[:, 0]
    model.requires_grad_(True)
    total = losses(model(images), 5, rng()).sum()
    (own,) = torch.autograd.grad(total, model.w)
    if how == "normed":  # of the weights that were made on the fly: project back
        size = model.w.norm(dim=1, keepdim=True)
        unit = model.w / size
        made = (made - (made * unit).sum(dim=1, keepdim=True) * unit) / size
    assert torch.allclose(made, own, atol=1e-5)
    assert first.name == "w"


def test_a_mixing_that_is_undone_is_seen_at_the_bend():
    q, _ = torch.linalg.qr(torch.randn(6, 6, generator=rng()))
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 6), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 2))
    images = torch.rand(5, 1, 4, 4, generator=rng())
    with torch.no_grad():
        model[2].weight.copy_(q)
        model[2].bias.sub_(model[:3](images).median(dim=0).values)  # or the rectifier may bend nothing of this batch
    watch, out = watched(prepared(model), batch(images))
    first = products(watch, losses(out, 5, rng()).sum(), 5)[0]
    assert any(torch.allclose(g @ q, first.gradients[0], atol=1e-6) for g in first.gradients[1:])


@pytest.mark.parametrize("bend", [nn.Tanh(), nn.LeakyReLU()])
def test_a_mixing_is_seen_behind_a_bend_that_hardly_bends(bend):
    q, _ = torch.linalg.qr(torch.randn(6, 6, generator=rng()))
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 6), bend, nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 2))
    with torch.no_grad():
        model[1].weight.mul_(1e-3)
        model[1].bias.copy_(torch.full((6,), 0.0 if isinstance(bend, nn.Tanh) else 9.0))
        model[3].weight.copy_(q)
        model[3].bias.copy_(-q.sum(dim=1) * (0.0 if isinstance(bend, nn.Tanh) else 9.0))
    watch, out = watched(prepared(model), batch(torch.rand(5, 1, 4, 4, generator=rng())))
    found = products(watch, losses(out, 5, rng()).sum(), 5)
    first, second, _ = [each for each in found if not each.undone]
    assert any(torch.allclose(g, second.gradients[-1], atol=1e-6) for g in first.gradients[1:])


def test_groups_are_layers_beside_each_other():
    """The gradient of each group's kernel is what it read times what came back to it."""
    layer = nn.Conv2d(4, 6, 5, groups=2)
    model = nn.Sequential(layer, nn.ReLU(), nn.Flatten(), nn.Linear(6, 2))
    images = torch.rand(7, 4, 5, 5, generator=rng())
    watch, out = watched(prepared(model), batch(images))
    first = products(watch, losses(out, 7, rng()).sum(), 7)[0]
    assert first.apart
    made = torch.einsum("bgu,bgi->gui", first.gradients[0], first.given)
    own = torch.autograd.grad(losses(model(images), 7, rng()).sum(), layer.weight)[0]
    assert torch.allclose(made.reshape(own.shape), own, atol=1e-5)


def test_inside_of_attention_is_watched_too():
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    watch, _ = watched(prepared(layer), batch(torch.rand(3, 5, 16, generator=rng())))
    names = {name for seen in watch.seen for name in seen.leaves}
    assert {"self_attn.in_proj_weight", "self_attn.out_proj.weight", "linear1.weight", "linear2.weight"} <= names


def test_features_hold_a_picture_or_do_not():
    images = torch.rand(48, 1, 8, 8, generator=rng()).cumsum(dim=2).cumsum(dim=3) / 32
    assert holds(images.flatten(1) @ torch.randn(64, 80, generator=rng()), [images]) > 0.8
    assert holds(images.mean(dim=(1, 2, 3))[:, None].expand(-1, 80), [images]) == 0
    assert holds(torch.randn(48, 80, generator=rng()), [images]) == 0


def test_a_profile_is_repeatable_changes_nothing_and_a_twin_is_fresh():
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 3))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    ready, images = prepared(model), batch(torch.rand(20, 1, 8, 8, generator=rng()))
    assert profile(ready, images, 3) == profile(ready, images, 3)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not torch.equal(twin(ready)[1].weight, ready[1].weight)


def test_no_threshold_of_a_model_is_left_in_its_twin():
    model = Odd("linear")
    model.shift, model.scale = nn.Parameter(torch.linspace(-9, 0, 6)), nn.Parameter(torch.ones(6))
    fresh = twin(prepared(model))
    assert not fresh.shift.any()
    assert torch.equal(fresh.scale, torch.ones(6))
    assert not torch.equal(fresh.w, model.w)


def test_few_images_get_stand_ins_beside_them_in_any_number_of_dimensions():
    for shape in ((30,), (2, 40), (1, 8, 8), (1, 6, 8, 8)):
        few = batch(torch.rand(3, *shape, generator=rng()))
        assert completed(few).picture.shape == (48, *shape)
    pair = Batch((torch.rand(3, 4), torch.rand(3, 2)), {}, 3)
    assert completed(pair) is pair
