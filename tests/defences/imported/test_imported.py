"""Other people's configuration becomes the defences that it means, or is refused by name."""

import json
import tomllib

import pytest
from flwr.clientapp.mod import LocalDpMod, adaptiveclipping_mod
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideAdaptiveClipping,
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideAdaptiveClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAvg,
)

from fluoroscope.defences.adaptive_clipping import AdaptiveClipping
from fluoroscope.defences.central_dp import CentralDp
from fluoroscope.defences.clipping import Clipping
from fluoroscope.defences.hidden_layers import HiddenLayers
from fluoroscope.defences.imported import from_flower, plan_tables, read_privacy_json
from fluoroscope.defences.local_dp import LocalDp
from fluoroscope.defences.percentile_privacy import PercentilePrivacy
from fluoroscope.defences.svt_privacy import SvtPrivacy
from fluoroscope.errors import BadInput, Misconfigured, Unsupported
from fluoroscope.federation.plan import Plan
from fluoroscope.federation.settings import build_defences

SVT = {"path": "nvflare.app_common.filters.svt_privacy.SVTPrivacy", "args": {"fraction": 0.2, "noise_var": 0.5}}
PERCENTILE = {"name": "PercentilePrivacy", "args": {"percentile": 30, "gamma": 0.02, "data_kinds": ["WEIGHT_DIFF"]}}
EXCLUDE = {
    "class_path": "nvflare.app_common.filters.exclude_vars.ExcludeVars",
    "args": {"exclude_vars": ["conv1.bias"]},
}
STATISTICS = {"name": "AddNoiseToMinMax", "args": {"min_noise_level": 0.1}}


def site(*filters, name="private", default="private"):
    scopes = [
        {"name": "public", "task_data_filters": [{"name": "BadModelDetector"}]},
        {"name": name, "task_result_filters": list(filters)},
    ]
    return {"scopes": scopes, "default_scope": default}


@pytest.fixture
def written(tmp_path):
    def write(content):
        path = tmp_path / "privacy.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return write


def test_a_site_s_filters_come_in_their_order(written):
    found = read_privacy_json(written(site(STATISTICS, SVT, PERCENTILE, EXCLUDE)))
    assert found == [
        SvtPrivacy(fraction=0.2, noise_var=0.5),
        PercentilePrivacy(30, 0.02),
        HiddenLayers(("conv1.bias",)),
    ]


def test_another_scope_can_be_asked_for(written):
    path = written(site(SVT, default="public"))
    assert read_privacy_json(path) == []
    assert read_privacy_json(path, scope="private") == [SvtPrivacy(fraction=0.2, noise_var=0.5)]
    with pytest.raises(Misconfigured, match="no scope 'secret'; it has: public, private"):
        read_privacy_json(path, scope="secret")


def test_a_job_s_filters_on_their_way_out_are_read(written):
    groups = [
        {"tasks": ["train"], "filters": [SVT]},
        {"tasks": ["train"], "direction": "in", "filters": [PERCENTILE]},
    ]
    assert read_privacy_json(written({"task_result_filters": groups})) == [SvtPrivacy(fraction=0.2, noise_var=0.5)]


@pytest.mark.parametrize(
    ("content", "kind", "words"),
    [
        (site({"path": "clinic.filters.Secret"}), Unsupported, r"clinic\.filters\.Secret is not known here; known are"),
        (site({**PERCENTILE, "args": {"data_kinds": ["WEIGHTS"]}}), Unsupported, "whole weights"),
        (site({**PERCENTILE, "args": {"gama": 1}}), Misconfigured, "no argument 'gama'; it takes: gamma, percentile"),
        (site({**PERCENTILE, "args": {"steps": 1}}), Misconfigured, "no argument 'steps'"),
        (site({**PERCENTILE, "args": {"gamma": 0}}), Misconfigured, "gamma must be above 0, not 0"),
        (site({**PERCENTILE, "args": {"gamma": "much"}}), Misconfigured, "cannot be made of {'gamma': 'much'}"),
        (site({**EXCLUDE, "args": {"exclude_vars": "conv.*"}}), Misconfigured, "list of names"),
        ({"components": []}, BadInput, "neither scopes nor task_result_filters"),
        ({"scopes": ["private"]}, BadInput, "not laid out"),
        ("{", BadInput, "cannot be read as JSON"),
    ],
)
def test_what_cannot_be_read_is_named(content, kind, words, written):
    with pytest.raises(kind, match=words) as refused:
        read_privacy_json(written(content))
    assert "privacy.json" in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(BadInput, match=r"none\.json"):
        read_privacy_json(tmp_path / "none.json")


def test_flower_s_objects_become_defences():
    assert from_flower(LocalDpMod(1.0, 2.0, 0.5, 1e-6)) == [LocalDp(1.0, 2.0, 0.5, 1e-6)]
    server = DifferentialPrivacyServerSideFixedClipping(FedAvg(), 0.7, 2.0, 10)
    client = DifferentialPrivacyClientSideFixedClipping(FedAvg(), 0.7, 2.0, 10)
    assert from_flower(server) == [CentralDp(2.0, 0.7)]
    assert from_flower(client) == [Clipping(2.0), CentralDp(2.0, 0.7)]


@pytest.mark.parametrize(
    ("kind", "before"),
    [
        (DifferentialPrivacyServerSideAdaptiveClipping, []),
        (DifferentialPrivacyClientSideAdaptiveClipping, [Clipping(0.3)]),
    ],
)
def test_adaptive_clipping_comes_back_as_it_was_set(kind, before):
    *first, found = from_flower(kind(FedAvg(), 0.5, 20, 0.3, 0.6, 0.1, 2.0))
    assert first == before
    assert isinstance(found, AdaptiveClipping)
    assert found.noise_multiplier == pytest.approx(0.5)
    assert (found.num_sampled_clients, found.clip_norm, found.target_clipped_quantile) == (20, 0.3, 0.6)
    assert (found.clip_norm_lr, found.clipped_count_stddev) == (0.1, 2.0)


def test_what_is_no_defence_of_flower_s_is_named():
    with pytest.raises(Unsupported, match="FedAvg is no defence"):
        from_flower(FedAvg())
    with pytest.raises(Unsupported, match="give the strategy's wrapper"):
        from_flower(adaptiveclipping_mod)


def test_the_tables_are_a_plan_s():
    defences = [SvtPrivacy(gamma=1e-4, replace=False), HiddenLayers(("conv1", "a.b")), LocalDp(1.0, 2.0, 0.5)]
    plan = Plan.model_validate(tomllib.loads(plan_tables(defences)))
    parts = [build_defences([(part.name, part.settings)]).parts[0] for part in plan.defence]
    assert parts == defences
