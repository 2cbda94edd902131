"""Plans that fit the images: what is written can be read, and says what was seen."""

import tomllib

import pytest

from fluoroscope.audit.fitted import fitted
from fluoroscope.audit.plan import AuditPlan
from fluoroscope.audit.presets import PRESETS, customised
from fluoroscope.data.sites import Site
from fluoroscope.data.survey import Survey
from fluoroscope.federation.plan import parse_plan_as


def seen(**changes):
    usual = {
        "source": "folder:images",
        "images": 400,
        "sides": (64,),
        "channels": 1,
        "classes": {"ill": 100, "well": 300},
        "patients": 400,
        "sites": {},
    }
    return Survey(**{**usual, **changes})


def plan_for(survey, preset="quick", **changes):
    keep = preset != "quick"
    text = fitted(customised(preset, 'folder:a "quoted" place'), survey, keep_partition=keep, **changes)
    return parse_plan_as(AuditPlan, tomllib.loads(text), preset), text


@pytest.mark.parametrize(
    ("sides", "side", "words"),
    [
        ((20,), 28, "as the images have them"),
        ((32,), 32, "as the images have them"),
        ((64,), 64, "as the images have them"),
        ((40, 512), 40, "the images have 40 to 512"),
        ((224,), 64, "the images have 224, and larger ones take longer"),
        ((90, 224), 64, "the images have 90 to 224, and larger ones take longer"),
    ],
)
def test_the_size_is_that_of_the_images_within_reason(sides, side, words):
    plan, text = plan_for(seen(sides=sides))
    assert plan.data.size == side
    assert words in text


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("channels", [1, 3])
def test_every_preset_takes_colour_and_any_path(preset, channels):
    plan, _ = plan_for(seen(channels=channels), preset)
    assert plan.data.channels == (3 if channels == 3 else None)
    assert plan.data.source == 'folder:a "quoted" place'
    assert plan.audit.preset == preset


def test_without_sites_hospitals_of_different_size_are_made_up():
    plan, text = plan_for(seen())
    rows = plan.partition.settings["train"]
    assert rows == [[10, 30], [10, 30], [1, 60], [8, 8], [1, 0]]
    assert plan.audit.clients == ("client-5",)
    assert "made up" in text
    needed = [sum(row[i] for row in rows) for i in range(2)]
    rest = plan.partition.settings
    for need, held in zip(needed, (100, 300), strict=True):
        assert need + 5 * rest["validation"] + rest["test"] / 2 + rest["auxiliary"] / 2 <= held


@pytest.mark.parametrize("classes", [{"a": 10, "b": 10}, {str(i): 9 for i in range(40)}])
def test_too_few_images_are_shared_equally(classes):
    plan, _ = plan_for(seen(classes=classes, patients=60))
    assert (plan.partition.name, plan.partition.settings["clients"]) == ("iid", 3)
    assert plan.audit.clients == ("client-1",)


def test_sites_become_clients_and_the_smallest_is_looked_at():
    tables = (Site("north", "folder:x/north"), Site("south", "folder:x/south"))
    plan, _ = plan_for(seen(sites={"north": 300, "south": 100}, tables=tables))
    assert [(site.name, site.source) for site in plan.data.site] == [(site.name, site.source) for site in tables]
    assert (plan.partition.name, plan.audit.clients) == ("sites", ("south",))
    assert "curious-client" not in plan.audit.threats, "it needs three"
    by_table, _ = plan_for(seen(sites={"St. Mary": 300, "b": 400}))
    assert (by_table.data.site, by_table.partition.name, by_table.audit.clients) == ((), "sites", ("St.-Mary",))


def test_who_knows_better_says_how_many_clients_there_are():
    tables = (Site("north", "folder:x/north"),)
    plan, _ = plan_for(seen(sites={"north": 400}, tables=tables), clients=6)
    assert (plan.data.folders, plan.partition.name, plan.partition.settings["clients"]) == ("sites", "iid", 6)
