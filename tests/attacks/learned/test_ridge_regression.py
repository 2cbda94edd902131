"""The kernel form is the plain one, and its strength is what held-out patients say."""

import pytest
import torch
from sklearn.kernel_ridge import KernelRidge

from fluoroscope.attacks.learned.ridge_regression import Deviations, Directions, Ridge, held_out_errors


def draws(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


def plain(evidence: dict[str, torch.Tensor]) -> dict[str, Deviations]:
    return {kind: Deviations.of(values) for kind, values in evidence.items()}


def test_held_out_errors_are_those_of_a_loop_over_scikit_learn():
    inputs, targets = draws(40, 6), draws(40, 9) + 3
    folds = torch.arange(40) % 5
    kernel = inputs @ inputs.T
    found = held_out_errors(kernel, targets @ targets.T, folds, (0.01, 1.0))
    for error, strength in zip(found.tolist(), (0.01, 1.0), strict=True):
        slow = 0.0
        for fold in range(5):
            out = folds == fold
            mean = targets[~out].mean(0)
            model = KernelRidge(alpha=strength * float(kernel.diagonal().mean()))
            model.fit(inputs[~out].numpy(), (targets[~out] - mean).numpy())
            slow += float(((torch.from_numpy(model.predict(inputs[out].numpy())) + mean - targets[out]) ** 2).sum())
        assert error == pytest.approx(slow, rel=1e-4)


def test_it_learns_what_is_linear_and_leaves_out_what_says_nothing():
    told, noise = draws(80, 5), draws(80, 400)
    targets = told @ draws(5, 30)
    evidence = {"told": told, "noise": noise}
    learned = Ridge.fit(evidence, plain(evidence), targets, torch.arange(80) % 5)
    assert learned.kinds == ("told",)
    assert learned.error < 0.01
    again = learned.predict({"told": told[:3], "noise": noise[:3]})
    torch.testing.assert_close(again, targets[:3], atol=0.05, rtol=0.05)


def test_nothing_learned_is_the_mean():
    evidence = {"noise": draws(60, 300)}
    learned = Ridge.fit(evidence, plain(evidence), draws(60, 20), torch.arange(60) % 5)
    assert learned.error == pytest.approx(1, abs=0.1)
    guess = learned.predict({"noise": draws(4, 300)})
    assert (guess - learned.mean).abs().max() < 0.5, "of targets that deviate by 1"


def test_a_value_that_never_moves_is_not_blown_up():
    still = torch.ones(10, 2)
    assert torch.equal(Deviations.of(still)(still + 1e-6), torch.zeros(10, 2, dtype=torch.float64))


def test_directions_forget_size_and_sign():
    rows = draws(20, 8) + 2
    found = Directions.of(rows)
    sizes = torch.linspace(-3, 4, 20, dtype=torch.float64)[:, None]
    torch.testing.assert_close(found(rows * sizes), found(rows))
