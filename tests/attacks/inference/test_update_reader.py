"""The regression from updates to numbers is that of a slow loop."""

import pytest
import torch
from sklearn.linear_model import Ridge

from fluoroscope.attacks.inference.update_reader import PENALTIES, ridge_left_one_out


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def test_the_ridge_is_that_of_a_slow_loop():
    """Each row left out, the others fitted anew, by another library."""
    features = torch.randn(12, 7, generator=rng(1), dtype=torch.float64)
    targets = torch.rand(12, 3, generator=rng(2), dtype=torch.float64)
    fit = ridge_left_one_out(features, targets)
    x = ((features - fit.centre) / fit.scale).numpy()
    level = (x**2).sum(1).mean()
    errors = {}
    for penalty in PENALTIES:
        left = []
        for i in range(12):
            others = [j for j in range(12) if j != i]
            fitted = Ridge(alpha=penalty * level).fit(x[others], targets[others].numpy())
            left.append(abs(fitted.predict(x[i : i + 1])[0] - targets[i].numpy()).mean())
        errors[penalty] = sum(left) / 12
    best = min(errors, key=errors.__getitem__)
    assert fit.error == pytest.approx(errors[best])
    whole = Ridge(alpha=best * level).fit(x, targets.numpy())
    assert fit.weights.T.numpy() == pytest.approx(whole.coef_)


def test_a_linear_world_is_read_without_an_error():
    features = torch.randn(20, 5, generator=rng(1), dtype=torch.float64)
    targets = features @ torch.randn(5, 2, generator=rng(2), dtype=torch.float64) + 3
    fit = ridge_left_one_out(features, targets)
    assert fit.left_out.abs().max() < 1e-4
    torch.testing.assert_close(fit(features[0]), targets[0], atol=1e-4, rtol=0)
