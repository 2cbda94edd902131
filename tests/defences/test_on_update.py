"""Defences on what leaves the client, each against its formula."""

from dataclasses import replace

import dp_accounting
import numpy as np
import pytest
import torch
from dp_accounting.rdp import RdpAccountant

from fluoroscope.defences import Participation
from fluoroscope.defences.clip_and_noise import ClipAndNoise
from fluoroscope.defences.clipping import Clipping
from fluoroscope.defences.contract import norm
from fluoroscope.defences.fed_bn import FedBn
from fluoroscope.defences.hidden_layers import HiddenLayers
from fluoroscope.defences.percentile_gaussian import PercentileGaussian
from fluoroscope.defences.pruning import Pruning
from fluoroscope.defences.quantisation import Quantisation
from fluoroscope.errors import Misconfigured
from tests.defences.records import record, rng


def difference(after, before):
    return torch.cat([(after[name] - before[name]).flatten() for name in before])


def test_percentile_gaussian_has_the_deviation_of_p1():
    """s = s0 * percentile(|dW|, q), over parameters and statistics together."""
    plain = record()
    noised = PercentileGaussian(3.0, 90.0).send(plain, rng())
    changes = [*plain.arrays.values()]
    changes += [v - plain.buffers_before[n] for n, v in plain.buffers_after.items() if v.is_floating_point()]
    sizes = np.concatenate([change.abs().flatten().numpy() for change in changes])
    noise = difference(noised.state_after, plain.state_after)
    assert float(noise.std()) == pytest.approx(3 * np.percentile(sizes, 90), rel=0.02)
    assert abs(float(noise.mean())) < 4 * float(noise.std()) / len(noise) ** 0.5
    name = next(n for n in plain.buffers_after if n.endswith("running_mean"))
    assert not torch.equal(noised.buffers_after[name], plain.buffers_after[name])
    counter = next(n for n in plain.buffers_after if n.endswith("num_batches_tracked"))
    assert torch.equal(noised.buffers_after[counter], plain.buffers_after[counter])


def test_no_noise_is_no_change():
    assert PercentileGaussian(0.0).send(record(), rng()) is record()


def test_clipping_bounds_the_norm_and_keeps_the_direction():
    whole = float(norm(record().arrays))
    short = Clipping(whole / 3).send(record(), rng())
    assert float(norm(short.arrays)) == pytest.approx(whole / 3, rel=1e-4)
    cosine = torch.cosine_similarity(
        *(torch.cat([v.flatten() for v in r.arrays.values()]) for r in (short, record())), dim=0
    )
    assert float(cosine) == pytest.approx(1.0, abs=1e-5)
    long = Clipping(3 * whole).send(record(), rng())
    torch.testing.assert_close(dict(long.state_after), dict(record().state_after))


def test_a_zero_update_can_be_clipped():
    still = replace(record(), state_after=record().state_before)
    assert all(v.isfinite().all() for v in Clipping(1.0).send(still, rng()).state_after.values())


def test_clip_and_noise_has_the_noise_that_its_claim_counts():
    plain = record("lenet5")
    defence = ClipAndNoise(clip_norm=0.01, noise_multiplier=2.0)
    sent = defence.send(plain, rng())
    clipped = Clipping(0.01).send(plain, rng())
    noise = difference(sent.state_after, clipped.state_after)
    assert float(noise.std()) == pytest.approx(0.02, rel=0.05)
    claim = defence.claim(Participation(plain.training, rounds=3))
    # Two clipped updates are up to two clips apart.
    event = dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(1.0), 3)
    assert claim.epsilon == pytest.approx(RdpAccountant().compose(event).get_epsilon(1e-5))
    assert claim.unit == "client"


def test_clip_and_noise_does_not_let_statistics_pass():
    with pytest.raises(Misconfigured, match="fed-bn before it"):
        ClipAndNoise(1.0, 1.0).send(record(), rng())


@pytest.mark.parametrize("sparsity", [0.0, 0.7, 1.0])
def test_pruning_keeps_the_largest(sparsity):
    pruned = Pruning(sparsity).send(record(), rng()).arrays
    for name, change in record().arrays.items():
        kept = pruned[name].abs() > 0
        if sparsity < 1 and (~kept).any() and kept.any():
            assert change.abs()[~kept].max() <= change.abs()[kept].min() + 1e-7
        assert int(kept.sum()) <= change.numel() - round(sparsity * change.numel())


def test_quantisation_has_few_levels_and_the_right_mean():
    few = Quantisation(4).send(record(), rng()).arrays
    for name, change in record().arrays.items():
        step = float(change.abs().max()) / 7
        if step < 1e-6:
            continue
        levels = few[name] / step
        assert (levels - levels.round()).abs().max() < 2e-2
        assert (few[name] - change).abs().max() < step * 1.01
    name = next(iter(record().arrays))
    many = torch.stack([Quantisation(3).send(record(), rng(i)).arrays[name] for i in range(300)])
    change = record().arrays[name]
    error = (many.mean(0) - change).abs().max() / change.abs().max()
    assert error < 0.12


def test_fed_bn_keeps_all_of_batchnorm_or_the_statistics_alone():
    statistics = FedBn(parameters=False)
    kept = statistics.send(record(), rng())
    assert kept.buffers_after is None
    assert set(kept.state_after) == set(record().state_after)
    assert "its scale and shift too" in statistics.claim(Participation(record().training, 1)).statement
    proper = FedBn().send(record(), rng())
    assert proper.buffers_after is None
    missing = set(record().state_after) - set(proper.state_after)
    layers = {name.removesuffix(".running_mean") for name in record().buffers_before if name.endswith("running_mean")}
    assert missing == {f"{layer}.{part}" for layer in layers for part in ("weight", "bias")}
    with pytest.raises(Misconfigured, match="lenet5 has no BatchNorm"):
        FedBn().send(record("lenet5"), rng())


def test_hidden_layers_leave_nothing_of_them():
    first = next(iter(record().state_after)).rpartition(".")[0]
    sent = HiddenLayers((first,)).send(record(), rng())
    assert not [name for name in sent.state_after if name.startswith(f"{first}.")]
    assert len(sent.state_after) < len(record().state_after)
    with pytest.raises(Misconfigured, match=r"no layer 'conv99'.*has: "):
        HiddenLayers(("conv99",)).send(record(), rng())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PercentileGaussian(-1.0), "noise_scale must be 0 or more, not -1"),
        (lambda: PercentileGaussian(float("nan")), "noise_scale must be 0 or more"),
        (lambda: PercentileGaussian(1.0, 101.0), r"percentile must lie in 0\.\.100, not 101"),
        (lambda: Clipping(0.0), "clip_norm must be above 0"),
        (lambda: ClipAndNoise(1.0, 0.0), "noise_multiplier must be above 0"),
        (lambda: Pruning(1.5), r"sparsity must lie in 0\.\.1"),
        (lambda: Quantisation(1), r"bits must lie in 2\.\.16"),
        (lambda: HiddenLayers(()), "at least one layer"),
    ],
)
def test_bad_settings_are_refused_with_the_range(make, message):
    with pytest.raises(Misconfigured, match=message):
        make()
