"""Defences at the server, against their formulas and a slow loop."""

import dp_accounting
import pytest
import torch
from dp_accounting.rdp import RdpAccountant

from fluoroscope.defences import Participation
from fluoroscope.defences.central_dp import CentralDp
from fluoroscope.defences.distance import distance
from fluoroscope.defences.metric_privacy import MetricPrivacy
from fluoroscope.errors import Misconfigured
from fluoroscope.types import LocalTraining, Sgd
from tests.defences.records import rng

TRAINING = LocalTraining(Sgd(0.1), 10, 5)


def updates(count, scale=1.0):
    return [
        {"w": scale * torch.randn(40, 50, generator=rng(i)), "b": scale * torch.randn(50, generator=rng(100 + i))}
        for i in range(count)
    ]


def test_central_dp_clips_each_and_noises_the_mean():
    defence, cohort = CentralDp(clip_norm=5.0, noise_multiplier=0.2), updates(4)
    clipped = [defence.clip_update(update) for update in cohort]
    for update in clipped:
        assert float(torch.cat([v.flatten() for v in update.values()]).norm()) == pytest.approx(5.0, rel=1e-4)
    mean = {name: torch.stack([u[name] for u in clipped]).mean(0) for name in clipped[0]}
    noise = torch.cat([(defence.noise_aggregate(mean, clipped, rng()).update[n] - mean[n]).flatten() for n in mean])
    assert float(noise.std()) == pytest.approx(0.2 * 5 / 4, rel=0.05)


def test_the_claim_depends_on_the_largest_weight():
    """Three clients, one of which weighs a half: it moves the mean by half a clip."""
    even = CentralDp(1.0, 2.0).claim(Participation(TRAINING, 10, 3, 1 / 3))
    uneven = CentralDp(1.0, 2.0).claim(Participation(TRAINING, 10, 3, 1 / 2))
    for claim, multiplier in ((even, 2.0), (uneven, 4 / 3)):
        event = dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(multiplier), 10)
        assert claim.epsilon == pytest.approx(RdpAccountant().compose(event).get_epsilon(1e-5))
    assert CentralDp(1.0, 2.0).claim(Participation(TRAINING, 10, 3, None)).epsilon is None
    assert CentralDp(1.0, 0.0).claim(Participation(TRAINING, 10, 3, 1 / 3)).epsilon is None


@pytest.mark.parametrize("layers", ["arrays", "weights"])
def test_the_distance_is_the_slow_loop_s(layers):
    cohort = updates(3)
    names = ["w", "b"] if layers == "arrays" else ["w"]
    worst = 0.0
    for i in range(3):
        for j in range(3):
            norms = [float((cohort[i][n] - cohort[j][n]).square().sum().sqrt()) for n in names]
            worst = max(worst, sum(norms) / len(norms))
    assert distance(cohort, layers) == pytest.approx(worst, rel=1e-6)


@pytest.mark.parametrize(("scale", "power"), [("direct", 1), ("inverse", -1)])
def test_metric_privacy_scales_by_the_distance(scale, power):
    defence, cohort = MetricPrivacy(5.0, 0.2, scale), updates(4, 0.01)
    mean = cohort[0]
    noise = torch.cat([(defence.noise_aggregate(mean, cohort, rng()).update[n] - mean[n]).flatten() for n in mean])
    assert float(noise.std()) == pytest.approx(0.2 * 5 / 4 * distance(cohort, "arrays") ** power, rel=0.05)


def test_identical_clients_need_no_noise():
    cohort = updates(1) * 3
    noise_aggregate = MetricPrivacy(scale="inverse").noise_aggregate(cohort[0], cohort, rng()).update
    assert all(torch.equal(noise_aggregate[name], value) for name, value in cohort[0].items())


def test_metric_privacy_says_that_it_is_not_differential_privacy():
    claim = MetricPrivacy(clip_norm=5, noise_multiplier=0.01).claim(Participation(TRAINING, 1, 3, 1 / 3))
    # sqrt(2 ln(1.25 / 1e-5)) * 3 / (5 * 0.01): the mean's distance in units of the noise, P3 definition 6
    assert "epsilon = 290.7 divided by that round's d" in claim.statement
    for words in ("not differential privacy", "epsilon * r", "not itself protected"):
        assert words in claim.statement
    with pytest.raises(Misconfigured, match="inverse or direct"):
        MetricPrivacy(scale="sideways")
