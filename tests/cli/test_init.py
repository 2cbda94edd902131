"""`fluoroscope init`: from images to a plan that an audit accepts."""

from pathlib import Path

import pytest

from fluoroscope.audit.plan import read_audit_plan
from fluoroscope.audit.schedule import cells_of
from fluoroscope.cli.app import program
from fluoroscope.errors import BadInput, Misconfigured
from tests.data.test_survey import draw

SHARED = Path(__file__).parents[3] / "shared/data"


def init(*arguments):
    program()(["init", *map(str, arguments)], standalone_mode=False)


@pytest.fixture
def images(tmp_path):
    for label in ("ill", "well"):
        for i in range(70):
            draw(tmp_path / f"images/{label}/{label}{i}.png", 36)
    return tmp_path / "images"


def test_it_says_what_it_saw_and_the_plan_lies_anywhere(images, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    init("images", "plans/mine.toml", "--budget", 3)
    said = capsys.readouterr().out
    for line in (
        "images: 140, grey, 36 pixels a side; the plan takes 36",
        "classes: ill 70, well 70",
        "patients: 140 (as many as images",
        "sites: not known",
        "next: fluoroscope audit plans/mine.toml --dry-run",
    ):
        assert line in said
    plan = read_audit_plan(tmp_path / "plans/mine.toml")
    assert (plan.data.size, plan.audit.budget_minutes, len(plan.task.clients)) == (36, 3, 5)
    assert {cell.threat for cell in cells_of(plan)} == {None, "curious-server", "malicious-server", "curious-client"}


def test_the_older_ways_to_say_it(images, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    init("plan.toml", "--data", "folder:images", "--clients", 3)
    assert len(read_audit_plan(tmp_path / "plan.toml").task.clients) == 3
    init("phantoms.toml", "--preset", "p2")
    assert read_audit_plan(tmp_path / "phantoms.toml").data.source == "phantom/chest"
    with pytest.raises(BadInput, match="--force"):
        init("plan.toml")


@pytest.mark.parametrize(
    ("arguments", "problem", "words"),
    [
        (["nowhere/"], BadInput, "nowhere"),
        (["empty"], BadInput, "holds no pictures"),
        (["a.toml", "b.toml"], Misconfigured, "two plans"),
        (["images", "plan.toml", "--data", "images"], Misconfigured, "both say where the images are"),
        (["images", "--preset", "p9"], Misconfigured, "no preset 'p9'"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_written(images, tmp_path, monkeypatch, arguments, problem, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(problem, match=words):
        init(*arguments)
    assert not list(tmp_path.glob("*.toml"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["cxr-nih-64", "cxr-covid-224", "fundus-128", "mnist-32", "omniglot-32", "cifar-100-32", "pneumoniamnist.npz"],
)
def test_real_images_get_a_plan_that_an_audit_accepts(tmp_path, name):
    if not (SHARED / name).exists():
        pytest.skip("these images are not here")
    init(SHARED / name, tmp_path / "plan.toml")
    plan = read_audit_plan(tmp_path / "plan.toml")
    assert plan.task.images.channels == (3 if name in ("fundus-128", "cifar-100-32") else 1)
    assert cells_of(plan)
