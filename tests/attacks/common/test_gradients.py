"""The gradient behind an update, against the gradient itself."""

import pytest
import torch
from torch import nn

from fluoroscope.attacks.common.gradients import first_step_of_adam, gradient_of, is_exact
from fluoroscope.attacks.common.setup import Setup
from fluoroscope.federation.client_round import client_round
from fluoroscope.rng import seeded_globals
from fluoroscope.threat_models import THREATS, observe
from fluoroscope.types import Adam, AdamW, LocalTraining, Network, OneGradient, PrivateBatch, Sgd

torch.manual_seed(0)
MODULE = nn.Sequential(nn.Conv2d(2, 6, 3), nn.Sigmoid(), nn.Flatten(), nn.Linear(6 * 6 * 4, 3))
NETWORK = Network.of(MODULE, (2, 8, 6))
BATCH = PrivateBatch(torch.rand(4, 2, 8, 6), torch.tensor([0, 1, 2, 0]), ("",) * 4)


def setup_of(training: LocalTraining) -> Setup:
    state, rng = NETWORK.build().state_dict(), torch.Generator().manual_seed(0)
    record = client_round(NETWORK, state, BATCH, training, rng).record
    return Setup.of(observe(record, THREATS.get("curious-server")))


def true_gradient() -> dict[str, torch.Tensor]:
    module = NETWORK.build()
    loss = nn.functional.cross_entropy(module(BATCH.images), BATCH.labels)
    names = [name for name, _ in module.named_parameters()]
    return dict(zip(names, torch.autograd.grad(loss, list(module.parameters())), strict=True))


@pytest.mark.parametrize(
    "optimiser",
    [OneGradient(), Sgd(0.1), Sgd(0.1, 0.9), Sgd(0.1, 0.9, 0.01), Sgd(0.1, 0.9, 0.01, nesterov=True)],
    ids=str,
)
def test_one_step_of_sgd_is_undone_exactly(optimiser):
    training = LocalTraining(optimiser, 4, 4)
    found = gradient_of(setup_of(training))
    assert is_exact(training)
    for name, value in true_gradient().items():
        torch.testing.assert_close(found[name], value, rtol=1e-3, atol=2e-6)


@pytest.mark.parametrize("mu", [0.0, 0.5])
@pytest.mark.parametrize(
    "optimiser",
    [Sgd(0.1, weight_decay=0.3), Sgd(0.1, 0.9, 0.3), Sgd(0.1, 0.9, 0.3, nesterov=True)],
    ids=str,
)
def test_of_several_steps_a_sum_of_gradients_is_left(optimiser, mu):
    """Every gradient of a dense layer is made of its inputs, and so is their sum; the decayed weights are not."""
    with seeded_globals(0):
        network = Network.of(nn.Sequential(nn.Flatten(), nn.Linear(96, 20), nn.Tanh(), nn.Linear(20, 3)), (2, 8, 6))
    state = network.build().state_dict()
    training = LocalTraining(optimiser, 4, 2, epochs=3, proximal_mu=mu)
    record = client_round(network, state, BATCH, training, torch.Generator().manual_seed(0)).record
    setup = Setup.of(observe(record, THREATS.get("curious-server")))
    found = gradient_of(setup)
    assert found is not None
    inputs = torch.linalg.qr(BATCH.images.flatten(1).double().T).Q
    for rows, share in ((found["1.weight"], 1e-4), (setup.update["1.weight"], None)):
        outside = float((rows.double() - rows.double() @ inputs @ inputs.T).norm() / rows.double().norm())
        assert outside < share if share else outside > 0.1


@pytest.mark.parametrize(
    "optimiser", [Adam(1e-3), Adam(1e-3, weight_decay=0.01), AdamW(1e-3, weight_decay=0.1)], ids=str
)
def test_the_first_step_of_adam_keeps_signs_and_large_ones_stay_large(optimiser):
    """Gradients far above eps saturate the step: their size is lost to rounding, their sign is not."""
    training = LocalTraining(optimiser, 4, 4)
    found, true = gradient_of(setup_of(training)), true_gradient()
    assert not is_exact(training)
    if isinstance(optimiser, AdamW) or not optimiser.weight_decay:
        for name, value in true.items():
            sure = value.abs() > 1e-5
            assert (found[name].sign() == value.sign())[sure].float().mean() > 0.99
    else:
        assert all(value.isfinite().all() for value in found.values())


def test_small_gradients_are_read_from_adam_s_first_step():
    """Where |g| is near eps, lr - |step| is far above rounding, and the formula is exact."""
    training = LocalTraining(Adam(1e-3, eps=1e-2), 4, 4)
    found = gradient_of(setup_of(training))
    for name, value in true_gradient().items():
        torch.testing.assert_close(found[name], value, rtol=2e-2, atol=2e-5)


@pytest.mark.parametrize("optimiser", [Adam(1e-2), Adam(1e-2, weight_decay=0.01), AdamW(1e-2)], ids=str)
def test_a_reading_of_adam_is_as_far_off_as_it_says(optimiser):
    """Against the true gradient: in units of the predicted deviation, errors are of size 1; bounds are bounds."""
    found, true = first_step_of_adam(setup_of(LocalTraining(optimiser, 4, 4))), true_gradient()
    off, kept = [], []
    for name, reading in found.items():
        told = reading.beyond == 0
        rounding = 1e-6 * true[name].abs().max() + 1e-6 * optimiser.weight_decay  # of the gradient's own sums
        off.append(((reading.value - true[name]) / (reading.deviation + rounding))[told])
        kept.append(((true[name] - 0.5 * reading.value) * reading.beyond > 0)[~told])
    errors = torch.cat(off)
    assert len(errors) > 100
    assert 0.3 < errors.abs().quantile(0.68) < 1.5
    assert torch.cat(kept).double().mean() > 0.95


def test_clipping_hides_the_scale_alone():
    training = LocalTraining(Sgd(0.1), 4, 4, clip_norm=0.01)
    found, true = gradient_of(setup_of(training)), true_gradient()
    assert not is_exact(training)
    a, b = (torch.cat([value.flatten() for value in each.values()]) for each in (found, true))
    assert float(torch.nn.functional.cosine_similarity(a, b, dim=0)) > 0.9999


def test_several_steps_of_adam_have_no_formula():
    assert gradient_of(setup_of(LocalTraining(Adam(1e-3), 4, 2))) is None
    assert gradient_of(setup_of(LocalTraining(Sgd(0.1), 4, 2))) is not None


def test_what_was_frozen_is_not_there():
    found = gradient_of(setup_of(LocalTraining(Sgd(0.1), 4, 4, frozen=("0.*",))))
    assert set(found) == {"3.weight", "3.bias"}
