"""The regression from updates to numbers is that of a slow loop."""

import pytest
import torch
from sklearn.linear_model import Ridge

from fluoroscope.attacks.inference.update_reader import PENALTIES, UpdateFeatures, UpdateReader, ridge_left_one_out
from fluoroscope.threat_models import THREATS
from fluoroscope.types import Observation


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


def test_what_is_not_linear_is_read_by_the_rounds_that_are_near():
    """An update that follows the log-odds of what is asked: a straight line through all rounds misses by a tenth."""
    targets = (torch.arange(80, dtype=torch.float64)[:, None] + 0.5) / 80
    rows = (targets / (1 - targets)).log()
    features = UpdateFeatures(None, {"layer": torch.ones(1, 1, dtype=torch.float64)}, True)
    reader = UpdateReader(features, rows, targets, ridge_left_one_out(rows, targets))
    for share in (0.2, 0.4, 0.8):
        row = torch.tensor([share / (1 - share)]).log()
        state = {"layer": torch.zeros(1)}
        seen = Observation(THREATS.get("curious-server"), 1, (), update={"layer": row}, buffers_before=state)
        assert abs(float(reader.read(seen)) - share) < 0.04
    assert abs(float(reader.fit(row.double())) - share) > 0.08
    missed = reader.left_out()[8:-8]
    assert missed.abs().mean() < 0.5 * reader.fit.left_out[8:-8].abs().mean()


def test_a_round_is_left_out_of_both_readings():
    targets = torch.rand(40, 1, generator=rng(3), dtype=torch.float64)
    rows = torch.randn(40, 3, generator=rng(4), dtype=torch.float64)
    reader = UpdateReader(UpdateFeatures(None, {}, True), rows, targets, ridge_left_one_out(rows, targets))
    others = torch.arange(40) != 7
    first = targets[7] - reader.fit.left_out[7]
    near = (targets[others] - first).abs()[:, 0].argsort(stable=True)[:20]
    expected = targets[7] - ridge_left_one_out(rows[others][near], targets[others][near])(rows[7])
    torch.testing.assert_close(reader.left_out()[7], expected)
