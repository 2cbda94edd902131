"""NVFlare's filters, number by number against NVFlare's own classes."""

import math
from dataclasses import replace

import numpy as np
import pytest

from fluoroscope.defences import Participation
from fluoroscope.defences.percentile_privacy import PercentilePrivacy
from fluoroscope.defences.svt_privacy import SvtPrivacy
from fluoroscope.errors import Misconfigured
from fluoroscope.types import LocalTraining, Sgd
from tests.defences.records import record, rng

TRAINING = LocalTraining(Sgd(0.1), 8, 2)


def filtered(own, arrays, steps=None, seed=0):
    """What NVFlare's filter makes of a weight difference."""
    pytest.importorskip("nvflare")
    from nvflare.apis.dxo import DXO, DataKind, MetaKey
    from nvflare.apis.fl_context import FLContext
    from nvflare.apis.shareable import Shareable

    meta = {} if steps is None else {MetaKey.NUM_STEPS_CURRENT_ROUND: steps}
    dxo = DXO(DataKind.WEIGHT_DIFF, {name: np.array(value) for name, value in arrays.items()}, meta)
    np.random.seed(seed)
    return own.process_dxo(dxo, Shareable(), FLContext())


def differences(plain):
    """As an NVFlare client sends them: parameters and buffers, counters too."""
    buffers = {name: value - plain.buffers_before[name] for name, value in plain.buffers_after.items()}
    return {name: value.numpy() for name, value in (plain.arrays | buffers).items()}


@pytest.mark.parametrize(("steps", "settings"), [(1, {}), (4, {}), (4, {"percentile": 70, "gamma": 1e-4})])
def test_percentile_privacy_is_nvflare_s(steps, settings):
    pytest.importorskip("nvflare")
    from nvflare.app_common.filters.percentile_privacy import PercentilePrivacy as Theirs

    plain = record()  # with BatchNorm
    theirs = filtered(Theirs(**settings), differences(plain), steps).data
    sent = PercentilePrivacy(**settings, steps=steps).send(plain, rng())
    ours = differences(sent)
    assert set(ours) == set(theirs)
    for name, value in theirs.items():
        np.testing.assert_allclose(ours[name], value, rtol=1e-5, atol=1.2e-7)  # a weight near 1 has no finer change
    zeros = np.concatenate([(value == 0).ravel() for name, value in theirs.items() if value.ndim])
    assert zeros.mean() == pytest.approx(settings.get("percentile", 10) / 100, abs=0.02)
    counter = next(name for name in ours if name.endswith("num_batches_tracked"))
    assert ours[counter] == 1


def test_the_steps_are_the_client_s_own_unless_it_reports_others():
    plain = replace(record(), training=TRAINING)
    assert TRAINING.steps == 4
    own, four, one = (PercentilePrivacy(gamma=1e-4, steps=steps).send(plain, rng()) for steps in (None, 4, 1))
    largest = [max(float(value.abs().max()) for value in sent.arrays.values()) for sent in (own, four, one)]
    assert largest == pytest.approx([4e-4, 4e-4, 1e-4], rel=1e-3)


SETTINGS = [
    {},
    {"fraction": 0.6, "replace": False},
    {"fraction": 0.9, "tau": 1e-2, "epsilon": 2000.0, "gamma": 0.02},  # several passes
    {"epsilon_threshold": 0.04, "epsilon_release": 7.0},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_svt_privacy_is_nvflare_s_draw_by_draw(settings):
    """Of one array, where both draw in the same order."""
    pytest.importorskip("nvflare")
    from nvflare.app_common.filters.svt_privacy import SVTPrivacy as Theirs

    values = np.random.default_rng(3).normal(0, 1e-2, 3000)
    dxo = filtered(Theirs(**settings), {"w": values}, steps=4, seed=5)
    ours = SvtPrivacy(**settings).released(values / 4, np.random.RandomState(5)) * 4
    np.testing.assert_allclose(ours, dxo.data["w"], rtol=1e-12)
    budget = SvtPrivacy(**settings).budget(3000)
    assert budget.ledger == pytest.approx(dxo.get_meta_prop("svt_privacy_budget")["epsilon_total"])
    assert budget.chosen == dxo.get_meta_prop("svt_privacy_budget")["n_upload"]
    assert budget.total > budget.ledger


def test_svt_privacy_of_several_arrays_is_alike():
    """Where NVFlare draws array by array, as many numbers of each leave, with as much noise; counters pass."""
    pytest.importorskip("nvflare")
    from nvflare.app_common.filters.svt_privacy import SVTPrivacy as Theirs

    plain = record()
    theirs = filtered(Theirs(gamma=1e-3), differences(plain), 1).data
    sent = SvtPrivacy(gamma=1e-3).send(plain, rng())
    ours = differences(sent)
    large = max(theirs, key=lambda name: theirs[name].size)
    for state in (ours, theirs):
        left = np.concatenate([value.ravel() for value in state.values() if value.ndim])
        left = left[left != 0]
        total = sum(value.size for value in state.values())
        # c draws with replacement of the half that is accepted; Laplace noise of scale 20 gamma.
        assert len(left) / total == pytest.approx(0.5 * (1 - math.exp(-0.2)), rel=0.15)
        assert np.abs(left).mean() == pytest.approx(0.02, rel=0.1)
        assert (state[large] != 0).mean() == pytest.approx(0.09, abs=0.03)
    counter = next(name for name in ours if name.endswith("num_batches_tracked"))
    assert ours[counter] == theirs[counter] == 1
    assert sent.buffers_after[counter].dtype == plain.buffers_after[counter].dtype


def part(rounds=1, **more):
    return Participation(TRAINING, rounds, **more)


def test_the_epsilon_of_svt_grows_with_the_network():
    """0.1 for every tenth weight: 70 000 for seven million of them, in one round."""
    budget = SvtPrivacy().budget(7_000_000)
    assert budget.release == pytest.approx(70_000)
    assert budget.ledger == pytest.approx(70_000.1)
    assert budget.selection == pytest.approx(1.0, rel=0.01)  # ten times what the ledger says of it
    claim = SvtPrivacy().claim(part(values=7_000_000))
    # zCDP of 0.1-DP, 700 000 times, and what it is at delta (Bun and Steinke 2016): never below Renyi's own count
    rho = 700_000 * 0.1**2 / 2 + 1.0**2 / 2
    assert 0.8 * rho < claim.epsilon < 1.1 * (rho + 2 * math.sqrt(rho * math.log(1e5)))
    assert "70001 with a delta of 0" in claim.statement
    many = SvtPrivacy().claim(part(20, values=7_000_000))
    assert many.epsilon > 15 * claim.epsilon
    assert (claim.unit, claim.relation, claim.trust, claim.delta) == ("client", "replace", "local", 1e-5)


def test_what_is_small_is_counted_with_a_delta_of_0():
    """Ten numbers, one of them released: Renyi's count at delta is the larger."""
    defence = SvtPrivacy(fraction=1.0, epsilon=0.01, epsilon_release=0.01)
    assert defence.claim(part(values=1)).epsilon == pytest.approx(0.02)


def test_more_is_accepted_than_the_ledger_counts():
    """The technique stops after c acceptances; here about half of all are accepted, five times as many."""
    defence, asked = SvtPrivacy(), []

    class Spy(np.random.RandomState):
        def choice(self, accepted, size, replace):
            asked.append((len(accepted), size))
            return super().choice(accepted, size=size, replace=replace)

    defence.released(np.zeros(10_000), Spy(0))
    ((accepted, chosen),) = asked
    assert chosen == 1000
    assert accepted > 4 * chosen


def test_the_choice_is_as_private_as_counted():
    """Two neighbours, d = c = 1: no set of outcomes is likelier than e^epsilon times; and the bound is not idle."""
    defence = SvtPrivacy(fraction=1.0, epsilon=1.0, epsilon_release=2.0, gamma=1.0, tau=0.5)
    draws = np.random.default_rng(0)
    low, high = (
        np.array([defence.released(np.array([value]), draws)[0] for _ in range(6_000)]) for value in (-1.0, 1.0)
    )
    ratio = np.log((high > 1).mean() / (low > 1).mean())
    assert 1.0 < ratio < defence.budget(1).total


@pytest.mark.parametrize(("settings", "least", "most"), [({}, 12, 12), ({"epsilon_release": 1.0}, 0, 4)])
def test_who_has_the_candidates_tells_them_apart(settings, least, most):
    """By correlation, behind the defaults, whose epsilon is large; and not where the release has an epsilon of 1."""
    candidates = np.random.default_rng(0).choice([-1e-5, 1e-5], size=(12, 300_000))
    defence, draws = SvtPrivacy(**settings), np.random.default_rng(1)
    named = [int((candidates @ defence.released(each, draws)).argmax()) for each in candidates]
    assert least <= sum(number == guess for number, guess in enumerate(named)) <= most


def test_what_is_not_covered_is_not_claimed():
    assert "not differential privacy" in SvtPrivacy().claim(part()).statement
    assert "make each a vector" in SvtPrivacy().claim(part(values=100, open_scalars=True)).statement
    assert PercentilePrivacy().claim(part(values=100)).epsilon is None


def test_parts_of_epsilon_that_do_not_add_up_are_refused():
    with pytest.raises(Misconfigured, match=r"add up to epsilon = 0\.1"):
        SvtPrivacy(epsilon_threshold=0.05, epsilon_query=0.04)


def test_nothing_at_home_is_needed():
    """A client that keeps its statistics filters what it sends."""
    kept = replace(record(), buffers_after=None)
    for defence in (SvtPrivacy(), PercentilePrivacy()):
        sent = defence.send(kept, rng())
        assert sent.buffers_after is None
        assert all(value.isfinite().all() for value in sent.state_after.values())
        assert any(change.any() for change in sent.arrays.values())
