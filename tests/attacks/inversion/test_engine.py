"""The engine on problems whose answer is known, and problems that must not disturb one another."""

import torch

from fluoroscope.attacks.inversion.engine import Budget, descend, one_by_one
from fluoroscope.attacks.inversion.optimisers import Adam, Moments, Schedule

TARGETS = torch.rand(3, 1, 1, 4, 4, generator=torch.Generator().manual_seed(0))


def bowl(target: torch.Tensor, poison_at: int | None = None):
    """A quadratic with its minimum at `target`; from call `poison_at` on it is not a number."""
    calls = 0

    def evaluate(images, logits):
        nonlocal calls
        calls += 1
        if poison_at is not None and calls > poison_at:
            return torch.tensor(torch.nan), torch.full_like(images, torch.nan), torch.zeros_like(logits)
        gap = images - target
        return gap.square().sum() + logits.square().sum(), 2 * gap, 2 * logits

    return evaluate


def run(evaluators, budget=None, images=None):
    images = torch.full_like(TARGETS[: len(evaluators)], 0.5) if images is None else images
    logits = torch.ones(len(evaluators), 1, 2)
    return descend(one_by_one(evaluators), images, logits, Adam(0.05), Schedule(5, "cosine"), budget or Budget(200))


def test_finds_the_minimum_of_every_problem():
    outcome = run([bowl(target) for target in TARGETS])
    torch.testing.assert_close(outcome.images, TARGETS, atol=1e-2, rtol=0)
    assert outcome.logits.abs().max() < 0.05
    assert outcome.traces.shape == (200, 3)
    assert torch.equal(outcome.values, outcome.traces.amin(0))


def test_a_problem_runs_as_if_it_were_alone():
    together = run([bowl(target) for target in TARGETS])
    for i, target in enumerate(TARGETS):
        alone = run([bowl(target)])
        assert torch.equal(alone.images[0], together.images[i])
        assert torch.equal(alone.traces[:, 0], together.traces[:, i])


def test_a_diverged_problem_rests_at_its_best_and_disturbs_nobody():
    together = run([bowl(TARGETS[0]), bowl(TARGETS[1], poison_at=30), bowl(TARGETS[2])])
    healthy = run([bowl(target) for target in TARGETS])
    for i in (0, 2):
        assert torch.equal(together.images[i], healthy.images[i])
    assert together.values[1].isfinite()
    assert together.traces[31:, 1].isnan().all()
    assert together.images[1].isfinite().all()


def test_budgets_end_a_run():
    assert len(run([bowl(TARGETS[0])], Budget(7)).traces) == 7
    assert len(run([bowl(TARGETS[0])], Budget(10**6, seconds=0.2)).traces) < 10**6
    stuck = torch.full((1, 1, 1, 4, 4), 0.5)
    flat = lambda images, logits: (torch.ones(()), torch.zeros_like(images), torch.zeros_like(logits))  # noqa: E731
    assert len(run([flat], Budget(500, stagnation=10), stuck).traces) == 11


def test_images_stay_in_their_box():
    outcome = run([bowl(TARGETS[0] + 5)])
    assert outcome.images.max() == 1.0


def test_adam_equals_torch_and_the_sign_is_only_a_sign():
    x = torch.tensor([1.0, -2.0, 0.5])
    ours, moments = x.clone(), Moments.zero(x)
    theirs = x.clone().requires_grad_()
    reference = torch.optim.AdamW([theirs], lr=0.1, weight_decay=0.01)
    for i in range(20):
        gradient = torch.sin(ours + i)
        ours, moments = Adam(0.1, weight_decay=0.01).step(ours, gradient, moments, 1.0)
        theirs.grad = torch.sin(theirs.detach() + i)
        reference.step()
    torch.testing.assert_close(ours, theirs.detach())
    one, _ = Adam(0.1, signed=True).step(x, torch.tensor([1e-9, -5.0, 3.0]), Moments.zero(x), 1.0)
    torch.testing.assert_close(one, x - 0.1 * torch.tensor([1.0, -1.0, 1.0]))


def test_schedules():
    steps = Schedule(decay="steps")
    assert [round(steps.factor(i, 80), 6) for i in (0, 29, 30, 50, 70)] == [1, 1, 0.1, 0.01, 0.001]
    cosine = Schedule(warmup=10, decay="cosine")
    assert cosine.factor(0, 100) == 0.1
    assert cosine.factor(50, 100) == 0.5
    assert cosine.factor(99, 100) < 0.001
