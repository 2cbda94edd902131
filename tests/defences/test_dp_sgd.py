"""DP-SGD against a loop over images, dp-accounting and Opacus' own accountant."""

import dp_accounting
import pytest
import torch
from dp_accounting.rdp import RdpAccountant
from opacus.accountants import RDPAccountant as OpacusAccountant

from fluoroscope.defences import Participation
from fluoroscope.defences.dp_sgd import DpSgd
from fluoroscope.errors import Misconfigured, Unsupported
from fluoroscope.federation.local_training import local_training
from fluoroscope.models import Architecture
from fluoroscope.types import LocalTraining, Sgd
from tests.defences.records import images, rng


def setting(model="lenet5", count=4, **changes):
    network = Architecture(model, 1, 2, 32).build()
    state = {name: value.detach().clone() for name, value in network.state_dict().items()}
    return network, state, images(count), LocalTraining(Sgd(0.1), count, **{"batch_size": count, **changes})


def test_without_noise_and_with_a_wide_clip_it_is_plain_training():
    network, state, data, training = setting(epochs=2)
    after, loss = DpSgd(clip_norm=1e6, noise_multiplier=0.0).train(network, state, data, training, rng())
    plain = local_training(network, state, data, training, rng())
    for name, value in plain.state.items():
        torch.testing.assert_close(after[name], value, atol=1e-5, rtol=1e-4)
    assert loss == pytest.approx(plain.loss, rel=1e-3)


def test_each_image_is_clipped_by_itself():
    network, state, data, training = setting()
    clip = 0.5
    after, _ = DpSgd(clip, noise_multiplier=0.0).train(network, state, data, training, rng())
    parameters = {name: value.clone().requires_grad_() for name, value in state.items()}
    total = {name: torch.zeros_like(value) for name, value in state.items()}
    for i in range(len(data)):
        logits = torch.func.functional_call(network, parameters, (data.images[i : i + 1],))
        loss = torch.nn.functional.cross_entropy(logits, data.labels[i : i + 1])
        gradient = dict(zip(parameters, torch.autograd.grad(loss, list(parameters.values())), strict=True))
        size = torch.cat([g.flatten() for g in gradient.values()]).norm()
        for name, g in gradient.items():
            total[name] += g * min(1.0, clip / float(size)) / len(data)
    for name, value in state.items():
        torch.testing.assert_close(after[name], value - 0.1 * total[name], atol=1e-5, rtol=1e-3)


def test_the_noise_is_multiplier_times_clip_over_the_batch():
    network, state, data, training = setting()
    quiet, _ = DpSgd(1.0, 0.0).train(network, state, data, training, rng())
    noisy, _ = DpSgd(1.0, 4.0).train(network, state, data, training, rng())
    noise = torch.cat([(noisy[n] - quiet[n]).flatten() for n in quiet])
    assert float(noise.std()) == pytest.approx(0.1 * 4.0 * 1.0 / 4, rel=0.05)  # lr * multiplier * clip / batch


def test_the_claim_counts_poisson_batches():
    training = LocalTraining(Sgd(0.1), images=100, batch_size=10, epochs=2)
    claim = DpSgd(1.0, 1.1).claim(Participation(training, rounds=5))
    event = dp_accounting.SelfComposedDpEvent(
        dp_accounting.PoissonSampledDpEvent(0.1, dp_accounting.GaussianDpEvent(1.1)), 100
    )
    assert claim.epsilon == RdpAccountant().compose(event).get_epsilon(1e-5)
    opacus = OpacusAccountant()
    opacus.history = [(1.1, 0.1, 100)]
    assert claim.epsilon == pytest.approx(opacus.get_epsilon(1e-5), rel=0.02)
    assert (claim.unit, claim.delta) == ("record", 1e-5)


def test_without_noise_there_is_no_claim():
    claim = DpSgd(1.0, 0.0).claim(Participation(LocalTraining(Sgd(0.1), 4, 4), 1))
    assert claim.epsilon is None
    assert "not differential privacy" in claim.statement


def test_batches_are_poisson_and_may_be_empty():
    network, state, data, training = setting(count=3, batch_size=1, epochs=4)
    after, loss = DpSgd(1.0, 1.0).train(network, state, data, training, rng())
    assert all(value.isfinite().all() for value in after.values())
    assert loss >= 0


def test_batchnorm_is_refused_with_the_remedy():
    network, state, data, training = setting("small-cnn")
    with pytest.raises(Unsupported, match=r"BatchNorm.*resnet18-gn.*percentile-gaussian"):
        DpSgd(1.0, 1.0).train(network, state, data, training, rng())


def test_the_model_is_left_as_it_was_and_the_draws_are_the_seed_s():
    network, state, data, training = setting()
    first, _ = DpSgd(1.0, 1.0).train(network, state, data, training, rng(7))
    again, _ = DpSgd(1.0, 1.0).train(network, state, data, training, rng(7))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert all(torch.equal(network.state_dict()[name], value) for name, value in state.items())


def test_a_negative_multiplier_is_refused():
    with pytest.raises(Misconfigured, match="noise_multiplier must be 0 or more"):
        DpSgd(1.0, -1.0)


@pytest.mark.parametrize("count", [1, 2, 8])
def test_neighbours_of_a_small_client_have_the_same_number_of_images(count):
    """opacus#571, #819: with fewer images than a batch, one image less would be another divisor and other noise."""
    claim = DpSgd(1.0, 1.0).claim(Participation(LocalTraining(Sgd(0.1), count, batch_size=4), rounds=1))
    rate, steps = min(1.0, 4 / count), -(-count // 4)
    sampled = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(1.0))
    event = dp_accounting.SelfComposedDpEvent(sampled, steps)
    zeroed = RdpAccountant(neighboring_relation=dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE).compose(event)
    assert claim.epsilon == pytest.approx(zeroed.get_epsilon(1e-5))
    assert (claim.relation, claim.unit, claim.trust) == ("zero-out", "record", "local")
    assert "number of images counts as public" in claim.statement


@pytest.mark.parametrize("images", [3, 30])
def test_noise_beyond_what_floats_can_square_is_a_sentence(images):
    part = Participation(LocalTraining(Sgd(0.1), images, batch_size=4), rounds=1)
    assert "too small for any bound" in DpSgd(1.0, 1e-200).claim(part).statement
    assert DpSgd(1.0, 1e200).claim(part).epsilon <= DpSgd(1.0, 10.0).claim(part).epsilon


def test_buffers_that_are_sent_beside_the_noise_void_the_claim():
    part = Participation(LocalTraining(Sgd(0.1), 4, 4), rounds=1, open_buffers=True)
    assert "without noise" in DpSgd(1.0, 1.0).claim(part).statement
    assert DpSgd(1.0, 1.0).claim(part).epsilon is None
