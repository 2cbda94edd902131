"""The engine on problems whose answer is known, and problems that must not disturb one another."""

import pytest
import torch

from fluoroscope.attacks.common.engine import Budget, descend
from fluoroscope.attacks.common.lbfgs import BatchedLbfgs
from fluoroscope.attacks.common.optimisers import Adam, Schedule
from fluoroscope.errors import Misconfigured

TARGETS = torch.rand(3, 16, generator=torch.Generator().manual_seed(0))
OPTIMISERS = {"adam": Adam(0.05), "l-bfgs": BatchedLbfgs(lr=0.5, max_iter=4)}
every_optimiser = pytest.mark.parametrize("optimiser", OPTIMISERS.values(), ids=OPTIMISERS)


def bowls(targets, sick=None, healthy_calls=0):
    """Stretched quartics with their minima at `targets`; row `sick` is not a number after so many calls."""
    stretch = torch.linspace(0.5, 2, 16)
    calls = 0

    def evaluate(x, rows):
        nonlocal calls
        calls += 1
        gap = x - targets[rows]
        values = (stretch * gap.square() + gap**4).sum(1)
        gradients = 2 * stretch * gap + 4 * gap**3
        if sick is not None and calls > healthy_calls:
            values = torch.where(rows == sick, torch.nan, values)
        return values, gradients

    return evaluate


def run(evaluate, optimiser, rows=3, budget=None, **more):
    x = torch.full((rows, 16), 0.5)
    return descend(evaluate, x, optimiser, Schedule(5, "cosine"), budget or Budget(200), **more)


@every_optimiser
def test_finds_the_minimum_of_every_problem(optimiser):
    outcome = run(bowls(TARGETS), optimiser)
    torch.testing.assert_close(outcome.best, TARGETS, atol=2e-2, rtol=0)
    assert outcome.traces.shape[1] == 3
    assert (outcome.values <= outcome.traces.nan_to_num(torch.inf).amin(0)).all()
    assert not outcome.diverged.any()


@every_optimiser
def test_a_problem_runs_as_if_it_were_alone(optimiser):
    together = run(bowls(TARGETS), optimiser)
    for i in range(3):
        alone = run(bowls(TARGETS[i : i + 1]), optimiser, rows=1)
        torch.testing.assert_close(alone.best[0], together.best[i], atol=1e-5, rtol=0)
        length = min(len(alone.traces), len(together.traces))
        torch.testing.assert_close(
            alone.traces[:length, 0], together.traces[:length, i], atol=1e-6, rtol=1e-3, equal_nan=True
        )


@every_optimiser
def test_a_diverged_problem_rests_at_its_best_and_disturbs_nobody(optimiser):
    sick = run(bowls(TARGETS, sick=1, healthy_calls=6), optimiser)
    healthy = run(bowls(TARGETS), optimiser)
    for i in (0, 2):
        torch.testing.assert_close(sick.best[i], healthy.best[i], atol=1e-5, rtol=0)
        assert sick.traces[-1, i].isfinite() == healthy.traces[-1, i].isfinite()
    assert sick.diverged.tolist() == [False, True, False]
    assert sick.values[1].isfinite()
    assert torch.equal(sick.last[1], sick.best[1])
    assert sick.traces[8:, 1].isnan().all()


@every_optimiser
def test_a_problem_that_never_was_a_number_stays_where_it_began(optimiser):
    outcome = run(bowls(TARGETS, sick=0), optimiser, budget=Budget(5))
    assert torch.equal(outcome.best[0], outcome.start[0])
    assert outcome.values[0] == torch.inf
    assert outcome.values[1].isfinite()


def flat(x, rows):
    return torch.ones(len(x)), torch.zeros_like(x)


@every_optimiser
def test_budgets_end_a_run(optimiser):
    assert len(run(bowls(TARGETS), optimiser, budget=Budget(7)).traces) == 7

    def sloping(x, rows):  # for ever
        return x.sum(1), torch.ones_like(x)

    assert len(run(sloping, optimiser, budget=Budget(10**6, seconds=0.1)).traces) < 10**6
    for wrong in ({"iterations": 0}, {"iterations": 1, "seconds": -1.0}, {"iterations": 1, "stagnation": 0}):
        with pytest.raises(Misconfigured, match="must be above 0"):
            Budget(**wrong)


def test_stagnation_ends_each_problem_by_itself():
    def half(x, rows):
        moving = (rows == 1)[:, None]
        return torch.where(moving, x, torch.ones_like(x)).sum(1), moving * torch.ones_like(x)

    outcome = run(half, Adam(0.05), rows=2, budget=Budget(50, stagnation=10))
    assert outcome.traces[:, 0].isfinite().sum() == 11
    assert outcome.traces[:, 1].isfinite().sum() == 50
    assert len(run(flat, Adam(0.05), budget=Budget(500, stagnation=10)).traces) == 11


def test_a_projection_holds():
    outcome = run(bowls(TARGETS + 5), Adam(0.05), project=lambda x: x.clamp(0, 1))
    assert outcome.best.max() == 1.0
    assert outcome.last.max() == 1.0
    assert run(bowls(TARGETS + 5), Adam(0.05)).last.max() > 1.0


@every_optimiser
def test_start_snapshots_and_last_are_the_way(optimiser):
    outcome = run(bowls(TARGETS), optimiser, budget=Budget(9), snapshots=3)
    assert torch.equal(outcome.start, torch.full((3, 16), 0.5))
    assert list(outcome.snapshots) == [3, 6, 9]
    assert torch.equal(outcome.snapshots[9], outcome.last)
    shorter = descend(bowls(TARGETS), outcome.start, optimiser, Schedule(), Budget(3))
    longer = descend(bowls(TARGETS), outcome.start, optimiser, Schedule(), Budget(9), snapshots=3)
    assert torch.equal(shorter.last, longer.snapshots[3])


@every_optimiser
def test_a_schedule_of_zero_stands_still(optimiser):
    outcome = descend(bowls(TARGETS), torch.rand(3, 16), optimiser, Schedule(warmup=10**9), Budget(3))
    torch.testing.assert_close(outcome.last, outcome.start, atol=1e-6, rtol=0)


def gradient_only(gradient):
    return lambda x, rows: (torch.zeros(len(x)), gradient(x))


def test_adam_equals_torch_and_the_sign_is_only_a_sign():
    x = torch.tensor([[1.0, -2.0, 0.5]])
    settings = Adam(0.1, weight_decay=0.01)
    ours, state = x.clone(), settings.init(x)
    theirs = x.clone().requires_grad_()
    reference = torch.optim.AdamW([theirs], lr=0.1, weight_decay=0.01)
    for i in range(20):
        ours, state, _ = settings.step(ours, state, gradient_only(lambda x, i=i: torch.sin(x + i)))
        theirs.grad = torch.sin(theirs.detach() + i)
        reference.step()
    torch.testing.assert_close(ours, theirs.detach())
    signed = Adam(0.1, signed=True)
    one, _, _ = signed.step(x, signed.init(x), gradient_only(lambda x: torch.tensor([[1e-9, -5.0, 3.0]])))
    torch.testing.assert_close(one, x - 0.1 * torch.tensor([1.0, -1.0, 1.0]))


@every_optimiser
def test_nothing_changes_its_input(optimiser):
    x = TARGETS.clone()
    state = optimiser.init(x)
    x, state, _ = optimiser.step(x, state, bowls(TARGETS + 1))
    kept_x, kept = x.clone(), state.copy().tensors()
    optimiser.step(x, state, bowls(TARGETS + 1))
    assert torch.equal(x, kept_x)
    assert all(torch.equal(value, kept[name]) for name, value in state.tensors().items())


def test_schedules():
    steps = Schedule(decay="steps")
    assert [round(steps.factor(i, 80), 6) for i in (0, 29, 30, 50, 70)] == [1, 1, 0.1, 0.01, 0.001]
    cosine = Schedule(warmup=10, decay="cosine")
    assert cosine.factor(0, 100) == 0.1
    assert cosine.factor(50, 100) == 0.5
    assert cosine.factor(99, 100) < 0.001
