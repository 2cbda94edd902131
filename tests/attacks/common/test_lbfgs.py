"""The oracle is torch.optim.LBFGS, one problem at a time."""

from dataclasses import fields, replace

import pytest
import torch

from fluoroscope.attacks.common.lbfgs import BatchedLbfgs


def rosenbrock(x):
    return (100 * (x[..., 1:] - x[..., :-1] ** 2) ** 2 + (1 - x[..., :-1]) ** 2).sum(-1) / 50


def quadratic(x):
    scale = torch.logspace(-2, 1, x.shape[-1], dtype=x.dtype)
    return (scale * (x - 1) ** 2).sum(-1)


def quartic(x):
    return ((x - 0.3) ** 4).sum(-1) + (x.sum(-1) - 1) ** 2


OBJECTIVES = [rosenbrock, quadratic, quartic]


def evaluator(objective, calls=None):
    def evaluate(x, active):
        if calls is not None:
            calls.append(active.tolist())
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            values = objective(x)
            (gradients,) = torch.autograd.grad(values.sum(), x)
        return values, gradients

    return evaluate


def starts(rows, dim=10):
    return torch.rand(rows, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def torch_run(objective, x, steps, **settings):
    """x after every step, and the values that step returned."""
    x = x.clone().requires_grad_()
    optimiser = torch.optim.LBFGS([x], **settings)

    def closure():
        optimiser.zero_grad()
        value = objective(x)
        value.backward()
        return value

    trace = []
    for _ in range(steps):
        value = float(optimiser.step(closure).detach())
        trace.append((x.detach().clone(), value))
    return trace


def ours(objective, x, steps, settings):
    state = settings.init(x)
    trace = []
    for _ in range(steps):
        x, state, values = settings.step(x, state, evaluator(objective))
        trace.append((x, values))
    return trace


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize(("lr", "history"), [(1.0, 100), (0.1, 100), (0.5, 4)])
def test_every_row_equals_torch(objective, lr, history):
    """30 iterations: later a last-bit difference grows, as it does in torch when its start moves by 1 ulp."""
    x = starts(5)
    trace = ours(objective, x, 3, BatchedLbfgs(lr=lr, history=history, max_iter=10))
    for row in range(len(x)):
        oracle = torch_run(objective, x[row], 3, lr=lr, history_size=history, max_iter=10)
        for (mine, values), (expected, value) in zip(trace, oracle, strict=True):
            torch.testing.assert_close(mine[row], expected, rtol=0, atol=1e-8)
            assert float(values[row]) == pytest.approx(value, abs=1e-8)


@pytest.mark.parametrize("max_iter", [1, 2, 3, 4])
def test_short_steps_equal_torch(max_iter):
    """Below four iterations it is max_eval that ends torch's step."""
    x = starts(3)
    trace = ours(rosenbrock, x, 12, BatchedLbfgs(lr=0.3, max_iter=max_iter))
    for row in range(3):
        expected = torch_run(rosenbrock, x[row], 12, lr=0.3, max_iter=max_iter)[-1][0]
        torch.testing.assert_close(trace[-1][0][row], expected, rtol=0, atol=1e-8)


def test_rejected_pairs_equal_torch():
    """A concave stretch gives y.s < 0: the pair is dropped and the rows' histories part ways."""

    def wavy(x):
        return (torch.cos(3 * x) + 0.1 * x**2).sum(-1)

    x = torch.linspace(-3, 3, 24, dtype=torch.float64).reshape(6, 4)
    settings = BatchedLbfgs(lr=0.2, max_iter=5, history=3)
    state, now = settings.init(x), x
    for _ in range(4):
        now, state, _ = settings.step(now, state, evaluator(wavy))
    assert len(set(state.pairs.tolist())) > 1
    for row in range(len(x)):
        expected = torch_run(wavy, x[row], 4, lr=0.2, max_iter=5, history_size=3)[-1][0]
        torch.testing.assert_close(now[row], expected, rtol=0, atol=1e-8)


def test_a_batch_equals_each_row_alone():
    x = starts(7)
    together = ours(rosenbrock, x, 3, BatchedLbfgs(lr=0.5))[-1][0]
    for row in range(7):
        alone = ours(rosenbrock, x[row : row + 1], 3, BatchedLbfgs(lr=0.5))[-1][0]
        torch.testing.assert_close(together[row : row + 1], alone, rtol=0, atol=1e-10)


@pytest.mark.parametrize("poison", [torch.nan, torch.inf])
@pytest.mark.parametrize("late", [False, True])
def test_a_diverged_row_rests_at_its_best_and_leaves_the_others_alone(poison, late):
    x = starts(4)
    settings = BatchedLbfgs(lr=0.5)
    seen = []

    def sick(x, active):
        values, gradients = evaluator(rosenbrock)(x, active)
        ill = active == 2
        if ill.any():
            seen.append((float(values[ill]), x[ill][0].clone()))
        if not late:
            values = torch.where(ill, poison, values)
        elif len(seen) > 7:
            gradients = torch.where(ill[:, None], poison, gradients)
        return values, gradients

    now, state = x, settings.init(x)
    for _ in range(3):
        now, state, values = settings.step(now, state, sick)
    assert state.diverged.tolist() == [False, False, True, False]
    assert len(seen) == (8 if late else 1), "a frozen row must not be evaluated again"
    best = min(seen[:7], key=lambda pair: pair[0])[1] if late else x[2]
    assert torch.equal(now[2], best)
    assert float(values[2]) == (min(v for v, _ in seen[:7]) if late else torch.inf)
    healthy = ours(rosenbrock, x, 3, settings)[-1][0]
    for row in (0, 1, 3):
        torch.testing.assert_close(now[row], healthy[row], rtol=0, atol=1e-10)


def test_a_step_out_of_range_is_frozen_unseen():
    """The last iteration of a step moves without an evaluation: what it returns must still be finite."""

    def steep(x, active):
        return x.sum(1), torch.full_like(x, 1e300)

    settings = BatchedLbfgs(lr=1e308, max_iter=1)
    x = torch.ones(1, 3, dtype=torch.float64)
    state = settings.init(x)
    state = replace(state, iterations=state.iterations + 1)  # so that the first, shortened step is behind it
    now, state, _ = settings.step(x, state, steep)
    assert torch.equal(now, x)
    assert state.diverged.all()


def test_converged_rows_cost_nothing():
    x = starts(3)
    x[1] = 1.0  # the minimum
    calls = []
    settings = BatchedLbfgs()
    now, state = x, settings.init(x)
    for _ in range(3):
        now, state, _ = settings.step(now, state, evaluator(quadratic, calls))
    assert sum(1 in call for call in calls) == 1
    assert torch.equal(now[1], x[1])
    assert state.rested[1]


def test_nothing_changes_its_input():
    x = starts(3)
    settings = BatchedLbfgs(lr=0.5, history=5)
    now, state, _ = settings.step(x, settings.init(x), evaluator(rosenbrock))
    kept = {f.name: getattr(state, f.name).clone() for f in fields(state)}
    start = now.clone()
    first = settings.step(now, state, evaluator(rosenbrock))[0]
    assert torch.equal(now, start)
    assert all(torch.equal(getattr(state, name), value) for name, value in kept.items())
    assert torch.equal(first, settings.step(now, replace(state), evaluator(rosenbrock))[0])


def two_loops(steps, changes, scale, q):
    """L-BFGS as the textbooks have it, newest pair last."""
    pairs = list(zip(steps, changes, strict=True))
    alphas = []
    for s, y in reversed(pairs):
        alphas.append((s @ q) / (s @ y))
        q = q - alphas[-1] * y
    q = scale * q
    for (s, y), alpha in zip(pairs, reversed(alphas), strict=True):
        q = q + s * (alpha - (y @ q) / (s @ y))
    return q


def test_in_float32_a_direction_is_as_exact_as_by_the_two_loops():
    """After 200 iterations, the ring of 30 pairs rewritten several times: the kept inverse has not drifted."""
    settings = BatchedLbfgs(lr=0.3, history=30, tolerance_change=0, tolerance_grad=0)
    x = starts(4, dim=50).float()
    state = settings.init(x)
    for _ in range(10):
        x, state, _ = settings.step(x, state, evaluator(rosenbrock))
    assert state.pairs.min() > 100
    q = torch.randn(4, 50, generator=torch.Generator().manual_seed(1))
    none = torch.zeros(4, dtype=torch.bool)
    ours = settings._turned(state.copy(), torch.arange(4), q, torch.zeros_like(q), none)
    for row in range(4):
        order = [int(i) % 30 for i in range(int(state.pairs[row]) - 30, int(state.pairs[row]))]
        pairs = state.steps[row, order], state.changes[row, order]
        single = two_loops(*pairs, state.scale[row], q[row])
        exact = two_loops(*(p.double() for p in pairs), state.scale[row].double(), q[row].double())
        error = (ours[row] - exact).norm() / exact.norm()
        assert error < 10 * (single - exact).norm() / exact.norm() + 1e-5
        assert error < 1e-2
