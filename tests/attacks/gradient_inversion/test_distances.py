"""Distances against their formulas, at agreement, and under vmap."""

import math

import pytest
import torch

from fluoroscope.attacks.gradient_inversion.distances import (
    DISTANCES,
    AdaptiveGaussian,
    Cosine,
    Gaussian,
    LayerL2,
    RelativeLayerL2,
    SquaredL2,
)
from fluoroscope.errors import Misconfigured


def layers(seed: int) -> list[torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(s, generator=g, dtype=torch.float64) for s in ((3, 2), (3,), (4, 3))]


A, B = layers(0), layers(1)
SQUARES = [float((a - b).square().sum()) for a, b in zip(A, B, strict=True)]


def test_formulas():
    flat_a, flat_b = (torch.cat([v.flatten() for v in x]) for x in (A, B))
    assert SquaredL2()(A, B).item() == pytest.approx(sum(SQUARES))
    assert LayerL2()(A, B).item() == pytest.approx(sum(s**0.5 for s in SQUARES))
    nothing = [torch.zeros_like(b) for b in B]
    assert RelativeLayerL2()(nothing, B).item() == pytest.approx(1)
    assert RelativeLayerL2()(A, B).item() == pytest.approx(float(LayerL2()(A, B) / LayerL2()(nothing, B)))
    assert Cosine()(A, B).item() == pytest.approx(1 - float(torch.nn.functional.cosine_similarity(flat_a, flat_b, 0)))
    fixed = sum((1 - torch.tensor(-s / 50).exp()) / (i + 1) for i, s in enumerate(SQUARES))
    assert Gaussian(50.0)(A, B).item() == pytest.approx(float(fixed))
    assert Gaussian(50.0, "code")(A, B).item() == pytest.approx(1 - math.exp(-sum(SQUARES) / 50))
    scales = [b.numel() * float(b.var(correction=0)) for b in B]
    for form, half in (("paper", 1), ("code", 2)):
        pairs = enumerate(zip(SQUARES, scales, strict=True))
        value = sum((1 - torch.tensor(-s / (half * n)).exp()) / (i + 1) for i, (s, n) in pairs)
        assert AdaptiveGaussian(form)(A, B).item() == pytest.approx(float(value), rel=1e-6)


@pytest.mark.parametrize("name", list(DISTANCES))
def test_zero_with_a_finite_derivative_at_agreement(name):
    ours = [b.clone().requires_grad_() for b in B]
    value = DISTANCES.get(name)()(ours, B)
    assert value.item() == pytest.approx(0, abs=1e-12)
    for gradient in torch.autograd.grad(value, ours):
        assert gradient.isfinite().all()


@pytest.mark.parametrize("name", list(DISTANCES))
def test_many_problems_are_each_their_own(name):
    distance = DISTANCES.get(name)()
    pairs = [(layers(i), layers(10 + i)) for i in range(3)]
    ours, theirs = ([torch.stack(column) for column in zip(*side, strict=True)] for side in zip(*pairs, strict=True))
    together = torch.func.vmap(lambda a, b: distance(a, b))(ours, theirs)
    torch.testing.assert_close(together, torch.stack([distance(a, b) for a, b in pairs]))


def test_cosine_ignores_layers_without_a_gradient():
    seen = [*B, torch.zeros(5, dtype=torch.float64)]
    noisy = [*A, torch.full((5,), 9.0, dtype=torch.float64)]
    torch.testing.assert_close(Cosine()(noisy, seen), Cosine()(A, B))


def test_a_layer_of_one_value_has_a_scale():
    one = [torch.tensor([2.0])]
    assert AdaptiveGaussian()([torch.tensor([1.0])], one).isfinite()


def test_lambda_must_be_positive():
    with pytest.raises(Misconfigured, match="lambda2 must be above 0, not -1"):
        Gaussian(-1.0)


def test_the_cosines_derivative_is_autograds():
    """With a layer that was seen as zero, which counts for nothing."""
    theirs = [*B, torch.zeros(2, dtype=torch.float64)]
    ours = [value.clone().requires_grad_() for value in [*A, torch.ones(2, dtype=torch.float64)]]
    value = Cosine()(ours, theirs)
    found, derivatives = Cosine().pulled([each.detach() for each in ours], theirs)
    torch.testing.assert_close(found, value.detach())
    for each, expected in zip(derivatives, torch.autograd.grad(value, ours), strict=True):
        torch.testing.assert_close(each, expected)


@pytest.mark.parametrize("distance", [SquaredL2(), LayerL2(), RelativeLayerL2(), Gaussian(5.0), AdaptiveGaussian()])
def test_slopes_of_squared_gaps_give_autograds_derivative(distance):
    ours = [value.clone().requires_grad_() for value in A]
    value = 3 * distance(ours, B)
    found, slopes = distance.sloped(3.0, torch.tensor(SQUARES, dtype=torch.float64), distance.units(B))
    torch.testing.assert_close(found, value.detach())
    expected = torch.autograd.grad(value, ours)
    for a, b, slope, gradient in zip(A, B, slopes, expected, strict=True):
        torch.testing.assert_close(2 * slope * (a - b), gradient)
