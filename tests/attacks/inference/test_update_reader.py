"""The regression from updates to numbers is that of a slow loop."""

import pytest
import torch
from sklearn.linear_model import Ridge

from fluoroscope.attacks.inference.update_reader import PENALTIES, UpdateFeatures, UpdateReader, ridge_left_one_out


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


def test_arrays_count_alike_however_large_they_are():
    """A weight per feature is that of a feature as many times as large: the slow way is to scale what comes out."""
    features = torch.randn(12, 5, generator=rng(1), dtype=torch.float64)
    targets = torch.rand(12, 2, generator=rng(2), dtype=torch.float64)
    weights = torch.tensor([1.0, 1.0, 0.5, 0.5, 0.5]).double()
    fit = ridge_left_one_out(features, targets, weights)
    x = ((features - features.mean(0)) / features.std(0) * weights).numpy()
    level = (x**2).sum(1).mean()
    by_library = [Ridge(alpha=penalty * level).fit(x, targets.numpy()).predict(x[:1])[0] for penalty in PENALTIES]
    assert any(fit(features[0]).numpy() == pytest.approx(each) for each in by_library)


def test_of_an_array_that_is_sent_some_numbers_are_looked_at():
    places = {"fc.weight": torch.tensor([2]), "layer": torch.tensor([3, 0])}
    update = {"fc.weight": torch.tensor([[1.0, 2.0], [3.0, 4.0]]), "fc.bias": torch.tensor([5.0, 6.0])}
    buffers = {"layer": torch.arange(4.0)}
    parts = UpdateFeatures(None, places).of(update, {"layer": torch.ones(4)}, buffers)
    assert [part.tolist() for part in parts] == [[3], [2, -1]]
    alone = UpdateFeatures("fc.weight", {}).of(update, {}, {})
    assert [part.tolist() for part in alone] == [[3, 7, 5, 6]]


def test_an_interval_holds_what_was_missed_of_rounds_that_were_left_out():
    targets = torch.rand(40, 1, generator=rng(3), dtype=torch.float64)
    rows = torch.randn(40, 3, generator=rng(4), dtype=torch.float64)
    reader = UpdateReader(UpdateFeatures(None, {}), ridge_left_one_out(rows, targets))
    missed = reader.fit.left_out.abs()
    assert int((missed <= reader.half_width).sum()) == 39  # the 95 % quantile of one more than 40
