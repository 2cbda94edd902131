"""Plans of audits: whom they attack by themselves, what they refuse, and the presets."""

import json
import tomllib
from dataclasses import replace

import pytest

from fluoroscope.audit.cell import told_apart
from fluoroscope.audit.plan import AuditPlan, read_audit_plan
from fluoroscope.audit.presets import PRESETS, customised, preset_plan
from fluoroscope.audit.run import make_folders
from fluoroscope.audit.schedule import cells_of
from fluoroscope.errors import Misconfigured
from fluoroscope.federation.plan import parse_plan_as, read_plan

from .conftest import plan_of


def names(plan):
    return [split.name for split in plan.audited_clients]


def test_the_attacked_are_those_who_have_most_to_lose(plan):
    assert names(plan)[0] == "client-5"  # one patient
    assert plan.imprint_target.name == "client-4"  # most images in a single step
    assert plan.inference_target.name == "client-3"  # 2 and 40 images, the others as many of each
    with pytest.raises(Misconfigured, match="client-1, client-2"):
        names(plan_of(audit={"clients": ["client-9"]}))


def test_a_sample_of_the_clients_is_audited_or_all_or_those_named():
    assert names(plan_of(audit={"clients": None})) == [
        "client-5",
        "client-1",
        "client-3",
    ]  # fewest; the median; most images, and the odd one
    assert names(plan_of(audit={"clients": "all"})) == ["client-5", "client-4", "client-1", "client-2", "client-3"]
    assert names(plan_of(audit={"clients": ["client-1", "client-4"]})) == ["client-4", "client-1"]
    assert names(plan_of(audit={"client": "client-1", "clients": None})) == ["client-1"]


def test_first_and_last_rounds_of_the_audited_clients_are_recorded():
    plan = plan_of(rounds=7)
    assert plan.attacked_rounds == (7, 1)
    assert plan_of(rounds=7, audit={"rounds": [2, 5]}).attacked_rounds == (5, 2)
    records = plan.federation("none").records
    assert records.rounds == [1, 7]
    assert set(records.clients) == set(names(plan))


def test_settings_are_compared_with_none_and_with_the_plan_s_own(plan):
    assert list(plan.labels) == ["none", "noise"]
    own = plan_of(defence=[{"name": "fed-bn"}])
    assert list(own.labels) == ["none", "as planned", "noise"]
    assert not own.federation("none").defence
    assert own.federation("as planned").defence[0].name == "fed-bn"


def test_every_threat_comes_first_without_a_defence_then_with_each_then_other_clients_and_rounds():
    asked = {"membership": ["loss", "lira-offline", "rmia"], "clients": ["client-4", "client-5"]}
    asked |= {"inference": ["label-counts", "membership", "source", "metrics"]}
    plan = plan_of(rounds=2, audit=asked)
    cells = cells_of(plan)
    kinds = [(cell.kind, cell.label) for cell in cells]
    server = ["metrics", "reconstruction", "label-counts", "source", "membership"]
    first = [
        *((kind, "none") for kind in ("federation", "crafted-model", "guard")),
        ("federation", "noise"),
        *((kind, label) for label in ("none", "noise") for kind in (*server, "client-inference")),
    ]
    assert kinds[: len(first)] == first
    rest = cells[len(first) :]
    assert [cell.label for cell in rest] == ["none"] * (len(rest) // 2) + ["noise"] * (len(rest) // 2)
    found = {(cell.client, cell.round) for cell in cells if cell.kind == "reconstruction"}
    assert found == {(client, r) for client in names(plan) for r in (1, 2)}
    asked = {(cell.attack_name, cell.round) for cell in cells if cell.kind == "membership"}
    assert asked == {(name, r) for name in ("loss", "lira-offline", "rmia") for r in (1, 2)}
    assert len({cell.id for cell in cells}) == len(cells)


def test_what_the_server_infers_is_the_plan_s_choice():
    plan = plan_of(audit={"inference": ["metrics"], "threats": ["curious-server"], "compare": []})
    assert {cell.kind for cell in cells_of(plan)} == {"federation", "metrics", "reconstruction"}
    one = plan_of(audit={"clients": ["client-1"], "threats": ["curious-server"], "compare": []})
    assert "source" not in {cell.kind for cell in cells_of(one)}, "one client alone is told from nobody"


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
        ({"membership": ["lera"]}, "did you mean 'lira'"),
        ({"inference": ["labels"]}, "audit.inference"),
        ({"clients": "some"}, "audit.clients"),
        ({"compare": [{"label": "none", "defence": [{"name": "fed-bn"}]}]}, "'none' is taken"),
        ({"compare": [{"label": "None", "defence": [{"name": "fed-bn"}]}]}, "'None' is taken by 'none'"),
        ({"compare": [{"label": "As-Planned", "defence": [{"name": "fed-bn"}]}]}, "is taken by 'as planned'"),
        ({"compare": [{"label": each, "defence": [{"name": "fed-bn"}]} for each in ("a b", "a-b")]}, "taken by 'a b'"),
        ({"compare": [{"label": "!?", "defence": [{"name": "fed-bn"}]}]}, "no letter or digit"),
        ({"compare": [{"label": "x" * 81, "defence": [{"name": "fed-bn"}]}]}, "at most 80 characters"),
        ({"attacks": ["span", "span"]}, "audit.attacks names 'span' twice"),
        ({"rounds": [1, 1]}, "audit.rounds names 1 twice"),
        ({"membership": ["loss", "loss"]}, "audit.membership names 'loss' twice"),
        ({"threats": ["curious-server"] * 2}, "audit.threats names 'curious-server' twice"),
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


def test_cells_that_would_share_a_name_are_refused_before_any_is_run(plan):
    cells = cells_of(plan)
    assert told_apart(cells) == cells
    with pytest.raises(Misconfigured, match="two cells would both be called 'federation-none-"):
        told_apart([*cells, cells[0]])
    with pytest.raises(Misconfigured, match="at most 200 fit into a file's name"):
        told_apart([replace(cells[0], label="x" * 300)])


def test_what_is_sent_around_has_names_and_no_folders(tmp_path):
    plan = plan_of(
        data={"source": f"folder:{tmp_path}/home/ward-3/chests"},
        defence=[{"name": "homomorphic-encryption", "key": f"{tmp_path}/home/secret.key"}],
        audit={"compare": [{"label": "x", "defence": [{"name": "homomorphic-encryption", "key": f"{tmp_path}/k"}]}]},
    )
    shown = plan.shown()
    assert str(tmp_path) not in json.dumps(shown)
    assert shown["data"]["source"] == "folder:chests"
    assert plan_of().shown() == plan_of().model_dump(mode="json"), "a plan without paths is as it is"


@pytest.mark.parametrize("private", [True, False])
def test_images_of_patients_lie_in_folders_of_their_owner(tmp_path, private):
    make_folders(tmp_path / "new", private)
    (tmp_path / "shared").mkdir(mode=0o755)
    make_folders(tmp_path / "shared", private)
    open_to = {path: path.stat().st_mode & 0o077 for path in tmp_path.rglob("*")}
    shared = open_to.pop(tmp_path / "shared")
    assert shared, "a folder that was there stays as it was"
    assert len(open_to) == (5 if private else 1)
    assert not private or not any(open_to.values())
