"""Ridge regression in its dual form."""

import pytest
import torch

from fluoroscope.attacks.learned.kernel_ridge import STRENGTHS, cross_validated, fit


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(("count", "width"), [(40, 7), (12, 30)])
def test_the_dual_is_the_primal(count, width):
    """(F'F + s)^-1 F'Y with everything minus its mean; s is relative to the mean squared length."""
    features, targets, unseen = draw(count, width) + 2, draw(count, 3, seed=1) - 1, draw(5, width, seed=2)
    centred, mean = features - features.mean(0), targets.mean(0)
    strength = 0.3 * centred.square().sum(1).mean()
    primal = torch.linalg.solve(
        centred.T @ centred + strength * torch.eye(width, dtype=torch.float64), centred.T @ (targets - mean)
    )
    expected = mean + (unseen - features.mean(0)) @ primal
    torch.testing.assert_close(fit(features, targets, 0.3)(unseen), expected)


def test_cross_validation_is_the_slow_loop():
    features, targets = draw(30, 50), draw(30, 50)[:, :2] + draw(30, 2, seed=1)
    groups = [str(number // 2) for number in range(30)]
    folds = [int(group) % 5 for group in groups]
    left = []
    for strength in STRENGTHS:
        error, whole = 0.0, 0.0
        for fold in range(5):
            out = torch.tensor([f == fold for f in folds])
            guess = fit(features[~out], targets[~out], strength)(features[out])
            error += float((guess - targets[out]).square().sum())
            whole += float((targets[~out].mean(0) - targets[out]).square().sum())
        left.append(error / whole)
    strength, unexplained = cross_validated(features, targets, groups)
    assert strength == STRENGTHS[left.index(min(left))]
    assert unexplained == pytest.approx(min(left))


def test_nothing_to_learn_leaves_the_mean():
    """Targets that have nothing to do with the features: the strongest ridge is best, and the guess is the mean."""
    features, targets = draw(60, 20), draw(60, 4, seed=1)
    strength, unexplained = cross_validated(features, targets, [str(number) for number in range(60)])
    assert strength == max(STRENGTHS)
    assert unexplained > 0.95
    guess = fit(features, targets, strength)(draw(5, 20, seed=2))
    assert (guess - targets.mean(0)).abs().max() < 0.1


def test_a_patient_on_both_sides_would_flatter():
    """Two images of each patient that differ by nothing: only folds across patients say what the features are worth."""
    first, second = torch.arange(20), torch.arange(20).roll(1)  # so that a patient's two images meet in no fold
    order = torch.cat([first, second])
    features, targets = draw(20, 200)[order], draw(20, 4, seed=1)[order]
    _, honest = cross_validated(features, targets, [str(number) for number in order.tolist()])
    _, flattered = cross_validated(features, targets, [str(number) for number in range(40)])
    assert flattered < 0.1
    assert honest > 0.9
