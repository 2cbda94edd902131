"""Plans that say which hospital holds which images, from the file to the records."""

import csv
from pathlib import Path

import pytest
import torch

from fluoroscope.audit.cell import AuditCell
from fluoroscope.cells.store import key
from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.federation.data_plan import DataPlan
from fluoroscope.federation.plan import Plan, parse_plan, read_plan
from fluoroscope.federation.run import federate
from fluoroscope.federation.task import forget_tasks, load_task
from tests.data.pictures import class_folders, pixels, save

PLAN = """
rounds = 2
[data]
size = 28
[[data.site]]
name = "north"
source = "folder:north/"
batch_size = 4
[[data.site]]
name = "south"
source = "folder:elsewhere/south"
[training]
batch_size = 6
"""
SITE = {"name": "north", "source": "phantom/chest"}


@pytest.fixture
def plan(tmp_path) -> Plan:
    """North has two classes, south one of them and one more."""
    class_folders(tmp_path / "north", count=10)
    class_folders(tmp_path / "elsewhere" / "south", count=6, classes=("sick", "tired"))
    (tmp_path / "plan.toml").write_text(PLAN)
    return read_plan(tmp_path / "plan.toml")


def test_each_site_is_a_client(plan):
    task = load_task(plan)
    assert task.images.name == "north, south"
    assert task.images.classes == ("normal", "sick", "tired")
    assert task.network.outputs == 3
    assert [(client.name, client.batch_size) for client in task.clients] == [("north", 4), ("south", None)]
    for i, client in enumerate(task.clients):
        held = {*client.train, *client.validation}
        assert {task.images.sites[j] for j in held} == {client.name}
        assert task.local_training(i, {"server-round": 1}).batch_size == (4, 6)[i]
    assert {task.images.sites[j] for j in task.partition.test} == {"north", "south"}


def test_a_federation_of_two_folders(plan, tmp_path):
    store = federate(plan, tmp_path / "run")
    assert store.header.clients == ["north", "south"]
    task = load_task(plan)
    for i, client in enumerate(task.clients):
        record = store.load(2, client.name)
        assert record.cohort == (client.name,)
        assert record.training.images == len(client.train)
        assert record.training.batch_size == (4, 6)[i]
        assert any(value.abs().sum() > 0 for value in record.arrays.values())
    assert (tmp_path / "run/rounds/0001/north.safetensors").exists()


def test_images_that_changed_since_are_noticed(plan, tmp_path):
    federate(plan, tmp_path / "run")
    save(tmp_path / "elsewhere" / "south" / "sick" / "0.png", pixels(77, 8, 8))
    forget_tasks()
    with pytest.raises(BadInput, match="records of another set of images"):
        federate(plan, tmp_path / "run")
    forget_tasks()


def test_a_cell_of_an_audit_knows_every_site_s_files(plan, tmp_path):
    class Nothing(AuditCell):
        kind = "nothing"
        settings = property(lambda self: {})

        def run(self, context):
            raise NotImplementedError

    cell = Nothing("none", plan.model_dump_json())
    before = key(cell, 0)
    assert key(cell, 0) == before
    save(tmp_path / "elsewhere" / "south" / "sick" / "0.png", pixels(77, 9, 9))
    assert key(cell, 0) != before


def test_a_table_with_sites(tmp_path):
    class_folders(tmp_path / "images", count=12)
    with (tmp_path / "images" / "images.csv").open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["file", "label", "patient", "site"])
        for name in ("normal", "sick"):
            rows.writerows([f"{name}/{i}.png", name, f"{name}-{i}", ("north", "St. Mary")[i % 2]] for i in range(12))
    partition = {"name": "sites", "batch_sizes": {"St.-Mary": 2}}
    content = {"data": {"source": f"folder:{tmp_path / 'images'}"}, "partition": partition}
    clients = load_task(parse_plan(content)).clients
    assert [(client.name, client.batch_size) for client in clients] == [("north", None), ("St.-Mary", 2)]
    shared = load_task(parse_plan({**content, "partition": {"name": "iid", "clients": 3}})).clients
    assert [client.name for client in shared] == ["client-1", "client-2", "client-3"], "a column obliges to nothing"


def test_folders_that_are_sites(tmp_path):
    for name in ("site1", "site2"):
        class_folders(tmp_path / name, count=8)
    source = f"folder:{tmp_path}"
    with pytest.raises(BadInput, match="site1, site2 look like sites"):
        load_task(parse_plan({"data": {"source": source}}))
    by_site = parse_plan({"data": {"source": source, "folders": "sites"}})
    assert [client.name for client in load_task(by_site).clients] == ["site1", "site2"]
    dealt = parse_plan({"data": {"source": source, "folders": "sites"}, "partition": {"name": "iid", "clients": 3}})
    assert len(load_task(dealt).clients) == 3
    classes = load_task(parse_plan({"data": {"source": source, "folders": "classes"}})).images.classes
    assert classes == ("site1", "site2")


def test_sources_are_relative_to_the_file(plan, tmp_path):
    north, south = plan.data.site
    assert north.source == f"folder:{(tmp_path / 'north').resolve()}"
    assert south.source == f"folder:{(tmp_path / 'elsewhere/south').resolve()}"
    assert plan.data.sources == (north.source, south.source)
    (tmp_path / "plan.toml").write_text(PLAN.replace("folder:north/", "phantom/chest"))
    assert read_plan(tmp_path / "plan.toml").data.site[0].source == "phantom/chest"


def test_a_plan_with_sites_survives_being_written(plan):
    assert Plan.model_validate_json(plan.model_dump_json()) == plan
    assert plan.partition.name == "sites"


def test_a_plan_without_sites_is_written_as_before():
    """Runs and cells are known by it: nothing may be added."""
    before = (
        '{"source":"phantom/chest","size":null,"channels":null,"images":null,"seed":null,"skip_bad":false,'
        '"burn_in":false}'
    )
    assert DataPlan().model_dump_json() == before
    assert parse_plan({"data": {"site": []}}).fingerprint == parse_plan({}).fingerprint


def test_the_fingerprint_knows_the_sites(plan):
    north, south = plan.data.site
    prints = {plan.fingerprint}
    for site in (("north", south.source, 4), ("north", north.source, 5), ("west", north.source, 4)):
        changed = dict(zip(("name", "source", "batch_size"), site, strict=True))
        data = plan.model_dump(mode="json")["data"] | {"site": [changed, south.model_dump(mode="json")]}
        prints.add(parse_plan(plan.model_dump(mode="json") | {"data": data}).fingerprint)
    assert len(prints) == 4


def test_phantoms_in_every_site():
    sites = [{"name": name, "source": "phantom/chest"} for name in ("a", "b")]
    task = load_task(parse_plan({"data": {"size": 28, "images": 20, "site": sites}}))
    assert task.images.synthetic
    assert torch.tensor([len(client.train) for client in task.clients]).tolist() == [13, 13]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"data": {"source": "folder:x", "site": [SITE]}}, r"data\.source and \[\[data\.site\]\] both say where"),
        ({"data": {"folders": "sites", "site": [SITE]}}, r"data\.folders = 'sites' and \[\[data\.site\]\] both"),
        ({"data": {"site": [SITE, SITE]}}, r"two \[\[data\.site\]\] tables are called 'north'; give each its own"),
        ({"data": {"site": [SITE, {**SITE, "name": "North"}]}}, "sites 'north' and 'North' would both be the client"),
        ({"data": {"site": [{**SITE, "name": "north wing"}]}}, "the site 'north wing' is .* write it as 'north-wing'"),
        ({"data": {"site": [{**SITE, "name": "global"}]}}, "a site cannot be called 'global'"),
        ({"data": {"site": [{"name": "north"}]}}, r"data\.site\.0\.source: Field required"),
        ({"data": {"site": [{**SITE, "batchsize": 3}]}}, r"no key 'data\.site\.0\.batchsize'; did you mean 'batch_s"),
        ({"data": {"site": [{**SITE, "batch_size": 0}]}}, r"data\.site\.0\.batch_size: .*equal to 1, not 0"),
        ({"data": {"site": "north"}}, r"data\.site: "),
        ({"data": {"folders": "wards"}}, r"data\.folders: .*'classes' or 'sites', not 'wards'"),
        ({"data": {"site": [SITE]}, "partition": {"name": "iid"}}, "'iid' would deal the images out anew.*leave par"),
        ({"data": {"site": [{**SITE, "batch_size": 3}]}, "partition": {"batch_sizes": {"north": 4}}}, "say the same"),
    ],
)  # fmt: skip
def test_errors_name_the_key(content, message):
    with pytest.raises(Misconfigured, match=message):
        parse_plan(content)


def test_settings_of_another_split(plan):
    content = plan.model_dump(mode="json") | {"partition": {"clients": 4}}
    with pytest.raises(Misconfigured, match="partition sites has no setting 'clients'; it takes: validation, test"):
        load_task(parse_plan(content))


def test_a_site_that_is_not_there(tmp_path):
    (tmp_path / "plan.toml").write_text(PLAN)
    with pytest.raises(BadInput, match=f"no file or folder '{Path(tmp_path / 'north').resolve()}'"):
        load_task(read_plan(tmp_path / "plan.toml"))
