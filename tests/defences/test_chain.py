"""Stacking: each at its seam, in an order that can be, with a claim that is right."""

import pytest
import torch

from fluoroscope.defences import DEFENCES, Participation, chain
from fluoroscope.defences.accounting import affordable, epsilon, sampled_gaussian
from fluoroscope.defences.central_dp import CentralDp
from fluoroscope.defences.clip_and_noise import ClipAndNoise
from fluoroscope.defences.dp_sgd import DpSgd
from fluoroscope.defences.fed_bn import FedBn
from fluoroscope.defences.metric_privacy import MetricPrivacy
from fluoroscope.defences.percentile_gaussian import PercentileGaussian
from fluoroscope.defences.pruning import Pruning
from fluoroscope.errors import Misconfigured
from fluoroscope.types import NO_CLAIM
from tests.defences.records import record, rng

ONCE = Participation(record().training, 1, 2, 0.5)


def test_parts_act_in_their_order():
    sent = chain(FedBn(), Pruning(1.0)).send(record(), rng())
    assert sent.buffers_after is None
    assert all(not change.any() for change in sent.arrays.values())


def test_a_record_is_not_changed():
    before = {name: value.clone() for name, value in record().state_after.items()}
    chain(PercentileGaussian(10.0), Pruning(0.5)).send(record(), rng())
    assert all(torch.equal(record().state_after[name], value) for name, value in before.items())


def test_the_claim_is_the_one_that_is_made():
    alone = DpSgd(1.0, 1.0).claim(ONCE)
    assert chain(DpSgd(1.0, 1.0), Pruning(0.5)).claim(ONCE) == alone
    assert chain().claim(ONCE) == NO_CLAIM
    both = chain(FedBn(), PercentileGaussian(1.0)).claim(ONCE)
    assert both.epsilon is None
    assert "all but BatchNorm is sent" in both.statement
    assert "depends on the data" in both.statement


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((PercentileGaussian(1.0), DpSgd(1.0, 1.0)), "DpSgd stands while the client trains, so it comes before"),
        ((CentralDp(), Pruning(0.5)), "Pruning stands on what leaves the client, so it comes before CentralDp"),
        ((CentralDp(), MetricPrivacy()), "CentralDp and MetricPrivacy both stand at the server"),
        ((DpSgd(1.0, 1.0), ClipAndNoise(1.0, 1.0)), "each make a claim of their own"),
    ],
)
def test_what_cannot_be_is_refused(parts, message):
    with pytest.raises(Misconfigured, match=message):
        chain(*parts)


def test_what_is_no_defence_is_refused():
    with pytest.raises(Misconfigured, match="none of the three seams"):
        chain("noise")


def test_statistics_in_the_clear_void_a_client_s_claim():
    with pytest.raises(Misconfigured, match="fed-bn before"):
        chain(ClipAndNoise(1.0, 1.0), FedBn()).send(record(), rng())
    chain(FedBn(), ClipAndNoise(1.0, 1.0)).send(record(), rng())


def test_a_budget_lasts_as_long_as_the_sum_says():
    def spent(rounds):
        return epsilon(sampled_gaussian(2.0, 1.0, rounds), 1e-5)

    rounds = affordable(100, 8.0, spent)
    assert spent(rounds) <= 8.0 < spent(rounds + 1)
    assert affordable(3, 1e9, spent) == 3
    assert affordable(3, 0.0, spent) == 0


def test_every_defence_is_registered_by_its_name():
    assert set(DEFENCES) >= {
        "central-dp", "clip-and-noise", "clipping", "dp-sgd", "fed-bn", "hidden-layers", "metric-privacy",
        "percentile-gaussian", "pruning", "quantisation",
    }  # fmt: skip
