"""A deployment whose nodes have images of their own trains what a simulation of the same sites trains."""

import shutil

import pytest
import torch

from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.federation.client import client_app
from fluoroscope.federation.grid import InProcessGrid
from fluoroscope.federation.plan import parse_plan
from fluoroscope.federation.progress import Silent
from fluoroscope.federation.run import federate
from fluoroscope.federation.server import serve
from fluoroscope.federation.store import RecordStore
from fluoroscope.federation.task import load_task
from tests.data.pictures import class_folders

from .conftest import plan_of

CLASSES = ["normal", "sick", "tired"]


@pytest.fixture
def houses(tmp_path):
    """North has two classes, south one of them and one more; the server has neither."""
    class_folders(tmp_path / "north", count=10)
    class_folders(tmp_path / "south", count=6, classes=("sick", "tired"))
    return tmp_path


def own_plan(**partition):
    content = {
        "rounds": 2,
        "data": {"size": 28, "channels": 1},
        "partition": {"name": "own", "sites": ["north", "south"], "classes": CLASSES, **partition},
        "training": {"lr": 0.05, "batch_size": 4},
    }
    return parse_plan(content)


def deployed(plan, out, nodes, node_plan=None) -> RecordStore:
    grid = InProcessGrid(client_app(lambda context: node_plan or plan), len(nodes), lambda _: None)
    for context, config in zip(grid._contexts.values(), nodes, strict=True):
        context.node_config = config
    serve(grid, plan, out, "cpu", Silent())
    return RecordStore(out)


def nodes(houses, names=("north", "south")):
    return [{"site": name, "images": f"folder:{houses / name}"} for name in names]


def test_it_trains_what_a_simulation_of_the_same_sites_trains(houses):
    sites = [{"name": name, "source": f"folder:{houses / name}"} for name in ("north", "south")]
    simulated = parse_plan(
        {
            "rounds": 2,
            "data": {"size": 28, "channels": 1, "site": sites},
            "partition": {"name": "sites", "test": 0.0},
            "training": {"lr": 0.05, "batch_size": 4},
        }
    )
    there, here = federate(simulated, houses / "simulated"), deployed(own_plan(), houses / "own", nodes(houses))
    for server_round in (0, 1, 2):
        expected = there.global_state(server_round)
        for name, value in here.global_state(server_round).items():
            assert torch.equal(value, expected[name])
    assert here.manifest(1).clients == there.manifest(1).clients
    assert here.manifest(2).validation == there.manifest(2).validation


def test_whichever_node_comes_first_is_the_site_that_it_says(houses):
    one = deployed(own_plan(), houses / "one", nodes(houses))
    other = deployed(own_plan(), houses / "other", nodes(houses, ("south", "north")))
    assert one.manifest(2).files == other.manifest(2).files


def test_the_server_may_have_images_to_test_on(houses):
    shutil.copytree(houses / "south", houses / "held out")
    plan = own_plan(test=f"folder:{houses / 'held out'}", auxiliary=f"folder:{houses / 'held out'}")
    deployed(plan, houses / "run", nodes(houses))
    assert '"images": 12' in (houses / "run/result.json").read_text()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"site": "west"}, "as it is set up"),
        ({"images": "folder:nowhere"}, "as it is set up"),
        ({"site": "south"}, "two nodes say that they are the site 'south'"),
        ({"site": ""}, "as it is set up"),
    ],
)
def test_a_node_that_is_set_up_wrongly_stops_the_run_before_anything_is_written(houses, wrong, said, capfd):
    config = nodes(houses)
    config[0] |= wrong
    with pytest.raises(BadInput, match=said) as problem:
        deployed(own_plan(), houses / "run", config)
    assert "folder" not in str(problem.value)  # where a site's images lie is its own business
    assert not (houses / "run").exists()


def test_a_class_that_was_not_agreed_is_refused(houses):
    with pytest.raises(BadInput, match="cannot take part"):
        deployed(own_plan(classes=["normal", "sick"]), houses / "run", nodes(houses))


def test_another_plan_at_a_node_is_refused(houses):
    other = own_plan().model_copy(update={"seed": 7})
    with pytest.raises(BadInput, match="cannot take part"):
        deployed(own_plan(), houses / "run", nodes(houses), node_plan=other)


def test_plans_that_cannot_be_are_refused(houses):
    with pytest.raises(Misconfigured, match="deployed nodes"):
        load_task(own_plan())
    with pytest.raises(Misconfigured, match="the images are with the nodes"):
        parse_plan({"data": {"source": "folder:x"}, "partition": {"name": "own"}})
    plan = own_plan()
    shapeless = plan.model_copy(update={"data": plan.data.model_copy(update={"size": None})})
    with pytest.raises(Misconfigured, match=r"data\.size"):
        deployed(shapeless, houses / "run", nodes(houses))
    for partition in ({"sites": []}, {"sites": ["a", "a"]}, {"sites": ["a/b"]}, {"classes": []}):
        with pytest.raises(Misconfigured, match="partition"):
            deployed(own_plan(**partition), houses / "run", nodes(houses))


def test_images_that_differ_between_node_and_server_are_no_longer_split_in_silence(tmp_path):
    """Of a plan that deals out one set of images: every node has to have it."""
    plan, other = plan_of(rounds=1), plan_of(rounds=1, data={"images": 200})
    grid = InProcessGrid(client_app(lambda context: other), 3, lambda _: None)
    with pytest.raises(Exception, match=r"partition\.name = 'own'"):  # whatever an engine makes of a client's error
        serve(grid, plan, tmp_path / "run", "cpu", Silent())
