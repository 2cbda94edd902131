"""Plans of audits: whom they attack by themselves, what they refuse, and the presets."""

import tomllib

import pytest

from fluoroscope.audit.plan import AuditPlan, read_audit_plan
from fluoroscope.audit.presets import PRESETS, customised, preset_plan
from fluoroscope.audit.schedule import cells_of
from fluoroscope.errors import Misconfigured
from fluoroscope.federation.plan import parse_plan_as, read_plan

from .conftest import plan_of


def test_the_attacked_are_those_who_have_most_to_lose(plan):
    assert plan.reconstruction_target.name == "client-5"  # one patient
    assert plan.imprint_target.name == "client-4"  # most images in a single step
    assert plan.inference_target.name == "client-3"  # 2 and 40 images, the others as many of each
    assert plan_of(audit={"client": "client-1"}).reconstruction_target.name == "client-1"
    with pytest.raises(Misconfigured, match="client-1, client-2"):
        plan_of(audit={"client": "client-9"}).reconstruction_target  # noqa: B018


def test_settings_are_compared_with_none_and_with_the_plan_s_own(plan):
    assert list(plan.labels) == ["none", "noise"]
    own = plan_of(defence=[{"name": "fed-bn"}])
    assert list(own.labels) == ["none", "as planned", "noise"]
    assert not own.federation("none").defence
    assert own.federation("as planned").defence[0].name == "fed-bn"


def test_all_threats_without_a_defence_come_first(plan):
    kinds = [(cell.kind, cell.label) for cell in cells_of(plan)]
    none = ["federation", "reconstruction", "crafted-model", "guard", "client-inference"]
    assert kinds == [(kind, "none") for kind in none] + [
        (kind, "noise") for kind in ("federation", "reconstruction", "client-inference")
    ]
    assert len({cell.id for cell in cells_of(plan)}) == len(kinds)


def test_another_budget_or_label_changes_no_cell_that_it_does_not_concern(plan):
    wider = plan_of(audit={"budget_minutes": 99, "compare": []})
    assert cells_of(wider) == [cell for cell in cells_of(plan) if cell.label == "none"]


@pytest.mark.parametrize(
    ("audit", "words"),
    [
        ({"threats": ["curious-cat"]}, "audit.threats"),
        ({"budget": 3}, "did you mean 'budget_minutes'"),
        ({"rounds": [7]}, "round 7"),
        ({"attacks": ["spam"]}, "did you mean 'span'"),
        ({"compare": [{"label": "none", "defence": [{"name": "fed-bn"}]}]}, "'none' is taken"),
        ({"compare": [{"label": "x", "defence": [{"name": "fed-bm"}]}]}, "did you mean 'fed-bn'"),
        ({"compare": [{"label": "x", "defence": [{"name": "central-dp", "clip_norm": -1}]}]}, "clip_norm"),
    ],
)
def test_what_is_wrong_is_named(audit, words):
    with pytest.raises(Misconfigured, match=words):
        plan_of(audit=audit)


# The papers' data sets are thousands of phantoms; how they are divided is tested with the partitions.
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in ("p1", "p2") else n for n in PRESETS])
def test_every_preset_can_be_planned(name, tmp_path):
    plan = preset_plan(name)
    assert plan.audit.preset == name
    assert cells_of(plan.model_copy(update={"data": plan.data}))
    (tmp_path / "plan.toml").write_text(customised(name))
    assert read_plan(tmp_path / "plan.toml").rounds == plan.rounds  # an audit's plan is a federation's, too


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_takes_what_the_user_says_of_the_own_set_up(name, tmp_path):
    text = customised(name, "folder:mine", clients=6, model="resnet18", budget=7.5, seed=3)
    plan = parse_plan_as(AuditPlan, tomllib.loads(text))
    assert (plan.data.source, plan.data.images, plan.model.name) == ("folder:mine", None, "resnet18")
    assert (plan.partition.name, plan.partition.settings["clients"]) == ("iid", 6)
    assert (plan.audit.budget_minutes, plan.seed, plan.audit.target) == (7.5, 3, None)
    assert "#" in text
    (tmp_path / "plan.toml").write_text(text)
    assert read_audit_plan(tmp_path / "plan.toml").data.source == f"folder:{tmp_path / 'mine'}"


def test_an_unknown_preset_is_named():
    with pytest.raises(Misconfigured, match="quick, p1, p2, p3"):
        customised("p9")
