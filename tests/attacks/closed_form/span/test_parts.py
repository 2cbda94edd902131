"""Each part of the span attack against what was planted."""

import pytest
import torch
from torch import Tensor, nn

from fluoroscope.attacks.closed_form.span import unmixing
from fluoroscope.attacks.closed_form.span.chain import Affine, before
from fluoroscope.attacks.closed_form.span.completion import complete
from fluoroscope.attacks.closed_form.span.feature_maps import feature_maps, outside
from fluoroscope.attacks.closed_form.span.layers import Layer, layers
from fluoroscope.attacks.closed_form.span.row_space import median_of_squares, noise_level, row_space
from fluoroscope.attacks.closed_form.span.unmixing import unmix
from fluoroscope.attacks.common.gradients import Reading
from fluoroscope.attacks.gradient_inversion.pullback import Statistics
from fluoroscope.models import Architecture

SLIDING = Layer("next", "bn", None, True, (24, 4, 4), (4, 4), (3, 3), (1, 1), (1, 1), (1, 1))
STRIDED = Layer("first", "bn", None, True, (16, 8, 8), (4, 4), (3, 3), (2, 2), (1, 1), (1, 1))


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def sparse_maps(count: int, layer: Layer, seed: int = 0) -> Tensor:
    """Alike, as images of one kind are: a common part, each its own, and a ReLU."""
    common = torch.randn((1, *layer.shape), generator=rng(seed), dtype=torch.float64)
    own = torch.randn((count, *layer.shape), generator=rng(seed + 1), dtype=torch.float64)
    return (common + own).clamp_min(0)


def span_of(maps: Tensor, layer: Layer) -> Tensor:
    """What an update shows of these images: its row space, from a batch's derivatives that sum to zero."""
    patches = layer.patches(maps).transpose(1, 2).flatten(0, 1)
    derivatives = torch.randn((len(patches), 200), generator=rng(9), dtype=torch.float64)
    derivatives = derivatives - derivatives.mean(0)
    found = row_space(derivatives.T @ patches, len(patches) - 1)
    assert found is not None
    return found


def alignment(found: Tensor, truth: Tensor) -> Tensor:
    """The cosine between every map found and every map planted."""
    a, b = (maps.flatten(1) / maps.flatten(1).norm(dim=1, keepdim=True) for maps in (found, truth))
    return a @ b.T


def test_row_space_holds_the_rows_and_no_more():
    rows = torch.randn((5, 30), generator=rng(), dtype=torch.float64)
    change = torch.randn((20, 5), generator=rng(1), dtype=torch.float64) @ rows
    basis = row_space(change, 5)
    assert basis is not None
    assert torch.allclose(basis @ basis.T, torch.eye(5, dtype=torch.float64), atol=1e-12)
    assert torch.allclose(rows @ basis.T @ basis, rows, atol=1e-10)


def test_the_edge_of_noise_is_where_theory_has_it():
    """Marchenko and Pastur: the largest singular value of noise is level (sqrt rows + sqrt columns)."""
    noise = 0.3 * torch.randn((120, 400), generator=rng(), dtype=torch.float64)
    sizes = torch.linalg.svdvals(noise)
    level = noise_level(sizes, 120, 400)
    assert float(level) == pytest.approx(0.3, rel=0.02)
    assert float(sizes[0]) == pytest.approx(float(level) * (120**0.5 + 400**0.5), rel=0.03)
    assert row_space(noise, 5) is None, "noise alone shows nothing"
    assert row_space(noise, 60) is None, "however much it is asked for"
    assert median_of_squares(1.0) == pytest.approx(0.6528, abs=2e-3), "of the quarter-circle law squared"


def test_noise_takes_the_weakest_directions_and_the_rest_are_as_near_as_they_say():
    """Planted directions of sizes 20, 8 and 0.5: under noise of level .05 those below 0.74 are lost in its spectrum."""
    rows, columns, sizes = 120, 400, torch.tensor([20.0, 8.0, 0.5], dtype=torch.float64)
    left, right = (
        torch.linalg.qr(torch.randn((side, 3), generator=rng(side), dtype=torch.float64)).Q for side in (rows, columns)
    )
    noise = 0.05 * torch.randn((rows, columns), generator=rng(), dtype=torch.float64)
    found = row_space((left * sizes) @ right.T + noise, 3)
    assert found is not None
    assert len(found) == 2
    told = found.square().sum(1)
    true = ((found / told.sqrt()[:, None]) @ right[:, :2]).square().diagonal()
    assert torch.allclose(told, true, atol=0.02)
    assert told[1] < told[0] < 1


@pytest.mark.parametrize("beyond", [False, True])
def test_a_matrix_of_known_rank_is_completed_from_what_is_known_of_it(beyond):
    """Half of the entries within a thousandth, the larger half hardly or as bounds only: all of them come out."""
    left, right = (torch.randn((side, 4), generator=rng(side), dtype=torch.float64) for side in (60, 90))
    truth = left @ right.T
    large = truth.abs() > truth.abs().median()
    deviation = torch.where(large, 0.5 * truth.abs(), 1e-3)
    seen = truth + deviation * torch.randn(truth.shape, generator=rng(), dtype=torch.float64)
    bounds = torch.where(large, truth.sign(), 0.0)
    if beyond:
        seen = torch.where(large, truth.sign() * truth.abs().median(), seen)
    found = complete(Reading(seen, deviation, bounds if beyond else torch.zeros_like(truth)), 4)
    assert found is not None
    assert (found - truth).norm() < 0.02 * truth.norm()
    assert (seen - truth).norm() > 0.2 * truth.norm()


@pytest.mark.parametrize("rank", [3, 45])
def test_what_no_matrix_of_that_rank_fits_or_too_little_tells_is_not_completed(rank):
    left, right = (torch.randn((side, 4), generator=rng(side), dtype=torch.float64) for side in (60, 90))
    truth = left @ right.T
    assert complete(Reading(truth, torch.full_like(truth, 1e-3), torch.zeros_like(truth)), rank) is None


@pytest.mark.parametrize(("rank", "noise"), [(4, 0.0), (5, 20.0), (20, 0.0)])
def test_row_space_is_refused_where_the_update_does_not_show_it(rank, noise):
    """A lower rank than it has, noise that covers it, or as many images as rows."""
    change = (
        torch.randn((20, 5), generator=rng(), dtype=torch.float64) @ torch.randn((5, 30), generator=rng(1)).double()
    )
    change = change + noise * torch.randn(change.shape, generator=rng(2), dtype=torch.float64)
    assert row_space(change, rank) is None


def test_row_space_keeps_what_stands_above_noise():
    """Five rows, the last of them near the noise: four directions are left."""
    rows = torch.linalg.qr(torch.randn((30, 5), generator=rng(), dtype=torch.float64)).Q.T
    left = torch.linalg.qr(torch.randn((20, 5), generator=rng(1), dtype=torch.float64)).Q
    change = left * torch.tensor([9.0, 8.0, 7.0, 6.0, 1e-4]) @ rows
    basis = row_space(change + 1e-4 * torch.randn(change.shape, generator=rng(2), dtype=torch.float64), 5)
    assert basis is not None
    assert basis.shape == (4, 30)
    assert torch.allclose(rows[:4] @ basis.T @ basis, rows[:4], atol=1e-3)


@pytest.mark.parametrize(("stray", "kept"), [(1.0, 3), (2.5, 2), (6.9, 0)])
def test_row_space_goes_by_the_gap_where_what_is_beyond_the_rank_is_no_noise(stray, kept):
    """One more direction, far above the edge of noise at .01: those of sizes 20, 8 and 7 count if three times as large.

    Under the edge's rule alone the rank would be wrong, and nothing would be left.
    """
    left, right = (torch.linalg.qr(torch.randn((n, 4), generator=rng(n), dtype=torch.float64)).Q for n in (60, 90))
    change = left * torch.tensor([20.0, 8.0, 7.0, stray], dtype=torch.float64) @ right.T
    change = change + 6e-4 * torch.randn(change.shape, generator=rng(2), dtype=torch.float64)
    found = row_space(change, 3)
    assert (0 if found is None else len(found)) == kept


def test_outside_is_a_projection_that_spares_the_span():
    maps = sparse_maps(2, SLIDING)
    span = span_of(maps, SLIDING)
    assert outside(span, SLIDING.patches(maps)).abs().max() < 1e-9
    other = torch.randn((3, span.shape[1], 16), generator=rng(5), dtype=torch.float64)
    assert torch.allclose(outside(span, outside(span, other)), outside(span, other), atol=1e-12)


@pytest.mark.parametrize("layer", [SLIDING, STRIDED])
def test_fold_is_the_transpose_of_patches(layer):
    maps = torch.randn((2, *layer.shape), generator=rng(), dtype=torch.float64)
    patches = torch.randn(layer.patches(maps).shape, generator=rng(1), dtype=torch.float64)
    assert torch.isclose((layer.patches(maps) * patches).sum(), (maps * layer.fold(patches)).sum())


@pytest.mark.parametrize("count", [1, 3, 6])
def test_only_the_planted_maps_have_their_patches_in_the_span(count):
    maps = sparse_maps(count, SLIDING)
    found = feature_maps(span_of(maps, SLIDING), SLIDING, count, rng())
    assert found is not None
    assert found.outside.max() < 1e-4
    flat, truth = found.basis.flatten(1), maps.flatten(1)
    assert torch.allclose(truth @ flat.T @ flat, truth, atol=1e-3 * float(truth.max()))


def test_a_wrong_number_of_images_is_noticed():
    span = span_of(sparse_maps(3, SLIDING), SLIDING)
    assert feature_maps(span, SLIDING, 2, rng()) is None
    found = feature_maps(span, SLIDING, 4, rng())
    assert found is not None
    assert len(found.basis) == 3


@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_mixtures_come_apart(count):
    maps = sparse_maps(count, SLIDING, seed=count)
    found = unmix(torch.linalg.qr(maps.flatten(1).T).Q.T.reshape(maps.shape), rng())
    cosines = alignment(found, maps)
    assert cosines.shape == (count, count)
    assert sorted(cosines.argmax(1).tolist()) == list(range(count)), "each map once"
    assert cosines.amax(1).min() > 1 - 1e-6


@pytest.mark.parametrize("error", [0.02, 0.05])
def test_mixtures_come_apart_under_noise(error):
    maps = sparse_maps(3, SLIDING, seed=3)
    noise = torch.randn(maps.shape, generator=rng(7), dtype=torch.float64)
    noised = maps + error * noise * maps.square().mean().sqrt()
    found = unmix(torch.linalg.qr(noised.flatten(1).T).Q.T.reshape(maps.shape), rng(), torch.full((3,), error).double())
    assert sorted(alignment(found, maps).argmax(1).tolist()) == [0, 1, 2]
    assert alignment(found, maps).amax(1).min() > 0.95


@pytest.mark.parametrize("error", [0.0, 0.05])
def test_a_single_dense_map_does_not_pass_for_features(error):
    dense = torch.randn((1, *SLIDING.shape), generator=rng(), dtype=torch.float64)
    assert len(unmix(dense / dense.norm(), rng(), torch.tensor([error]).double())) == 0


@pytest.mark.parametrize("count", [4, 12])
def test_mixtures_with_errors_come_apart(count):
    """The last directions of the basis are known to a few percent: what is found is true, and it is nearly all."""
    maps = sparse_maps(count, SLIDING, seed=count)
    basis = torch.linalg.qr(maps.flatten(1).T).Q
    errors = torch.logspace(-4, -1.5, count, dtype=torch.float64)
    off = torch.randn(basis.shape, generator=rng(7), dtype=torch.float64) * errors / len(basis) ** 0.5
    found = unmix((basis + off).T.reshape(maps.shape), rng(), errors)
    cosines = alignment(found, maps)
    assert len(set(cosines.argmax(1).tolist())) == len(found) >= 0.75 * count
    assert cosines.amax(1).min() > 0.99
    assert len(unmix((basis + off).T.reshape(maps.shape), rng())) < len(found), "without its errors it finds fewer"


def test_dense_maps_do_not_pass_for_features():
    dense = torch.randn((3, *SLIDING.shape), generator=rng(), dtype=torch.float64)
    assert len(unmix(torch.linalg.qr(dense.flatten(1).T).Q.T.reshape(dense.shape), rng())) == 0


def test_one_convolution_back_with_its_scale():
    """h behind norm(W h) up to a factor: the stride hides a part of it from the span, the known output shows it."""
    maps = sparse_maps(2, STRIDED)
    weight = torch.randn((64, 16, 3, 3), generator=rng(3), dtype=torch.float64) / 12
    output = nn.functional.conv2d(maps, weight, None, 2, 1)
    var, mean = torch.var_mean(output, dim=(0, 2, 3), correction=0)
    affine = Affine(
        torch.rand(64, generator=rng(4), dtype=torch.float64) + 0.5,
        torch.randn(64, generator=rng(5), dtype=torch.float64) / 4,
        1e-5,
    )
    features = nn.functional.batch_norm(output, mean, var, affine.weight, affine.bias, eps=1e-5).clamp_min(0)
    scales = features.flatten(1).norm(dim=1)
    found, scale = before(
        STRIDED, span_of(maps, STRIDED), weight, affine, Statistics(mean, var), features / scales[:, None, None, None]
    )
    assert ((found - maps).flatten(1).norm(dim=1) / maps.flatten(1).norm(dim=1)).max() < 1e-2
    assert torch.allclose(scale.flatten(), scales, rtol=1e-2)


def test_layers_of_a_resnet():
    model = Architecture("resnet18", 1, 2, 64).build().train()
    found = {layer.name: layer for layer in layers(model, dict(model.state_dict()), torch.rand(2, 1, 64, 64))}
    assert list(found)[:2] == ["conv1", "layer1.0.conv1"]
    second = found["layer3.0.conv2"]
    assert (second.fed_by, second.norm, second.sparse) == ("layer3.0.conv1", "layer3.0.bn2", True)
    assert (second.shape, second.grid, second.slides) == ((256, 4, 4), (4, 4), True)
    first = found["layer3.0.conv1"]
    assert (first.fed_by, first.slides) == (None, False), "its input is a sum, its stride 2"
    assert not found["conv1"].sparse


def test_many_images_that_are_much_alike_are_unmixed(monkeypatch):
    """Their differences are sparse too, and take up most starts of a search that does not look at signs."""
    shape = (128, 2, 2)
    common, own = (torch.randn((n, *shape), generator=rng(seed), dtype=torch.float64) for seed, n in ((1, 1), (2, 24)))
    truth = (common + 0.5 * own).clamp_min(0)
    assert alignment(truth, truth).fill_diagonal_(0).max() > 0.8
    mixed = torch.randn((24, 24), generator=rng(3), dtype=torch.float64) @ truth.flatten(1)
    basis = torch.linalg.qr(mixed.T).Q.T.reshape(24, *shape)
    found = unmix(basis, rng())
    assert len(found) == 24
    assert (alignment(found, truth).max(0).values > 1 - 1e-6).all()
    monkeypatch.setattr(unmixing, "BELOW_ZERO", 1.0)
    assert len(unmix(basis, rng())) < 24
