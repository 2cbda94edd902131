"""Where clients stand on the map: by hand, and on the page."""

import json
import re

import pytest

from fluoroscope.findings import read_findings
from fluoroscope.report import frontier
from fluoroscope.report.audit_report import render_audit, render_numbers
from fluoroscope.report.frontier import Place, Point, distance, measured, placed, standings
from tests.report.audits import make_audit

GRID = tuple(
    Point(Place(images, steps, 1, "sgd", 64, "resnet18", "none"), images * steps <= 8, 0.3, 3, 8, 4, "span")
    for images in (1, 4, 16)
    for steps in (1, 2, 8)
)
NOISED = Point(Place(4, 2, 1, "sgd", 64, "resnet18", "clip-and-noise"), False, 0.01, 1, 40, 5, "ridge")


@pytest.fixture
def own(tmp_path):
    """An audit that may be changed."""
    return make_audit(tmp_path)


@pytest.fixture
def planned(own):
    """The audit of a plan that says how clients train; `change` writes findings.json anew."""

    def change(training=None, clients=((8, 4),), setting=None, **more):
        path = own / "findings.json"
        document = json.loads(path.read_text(encoding="utf-8"))
        usual = {"optimiser": "sgd", "momentum": 0.0, "epochs": 1, "batch_size": 8, "steps": None}
        document["plan"] = {"model": {"name": "resnet18"}, "training": {**usual, **(training or {})}, **more}
        document["data"]["size"] = 64
        document["data"]["clients"] = [
            {"name": f"site-{i}", "train": train, "validation": 0, "batch_size": batch}
            for i, (train, batch) in enumerate(clients)
        ]
        if setting:
            document["own"] = setting
        path.write_text(json.dumps(document), encoding="utf-8")
        return read_findings(own)

    return change


def test_a_place_is_what_the_plan_says(planned):
    findings = planned({"epochs": 3, "optimiser": "adamw"}, ((500, 16),)).findings
    assert placed(findings, 500, 16) == Place(16, 32, 3, "adamw", 64, "resnet18", "none")
    assert placed(findings, 3, 16) == Place(3, 1, 3, "adamw", 64, "resnet18", "none")
    assert placed(planned({"momentum": 0.9}).findings, 8, None) == Place(8, 1, 1, "momentum", 64, "resnet18", "none")
    assert placed(planned({"steps": 6}).findings, 8, 4).epochs == 3
    assert placed(planned({"steps": 1}).findings, 8, 4).steps == 1


def test_the_nearest_point_is_the_nearest_by_hand(planned):
    (found,) = standings(planned(clients=((8, 4),)).findings, GRID)
    assert found.nearest.place == Place(4, 2, 1, "sgd", 64, "resnet18", "none")
    assert (found.distance, found.off_the_map) == (0.0, False)
    (large,) = standings(planned({"epochs": 3}, ((500, 16),)).findings, GRID)
    assert large.nearest.place.images_per_step == 16
    assert large.nearest.place.steps == 8
    assert large.distance == pytest.approx(2 + 1.585, abs=0.01)
    assert large.off_the_map


def test_a_defended_client_is_placed_by_its_defence(planned):
    one = Place(4, 2, 1, "sgd", 64, "resnet18", "clip-and-noise")
    assert distance(one, NOISED.place) == 0
    assert min((*GRID, NOISED), key=lambda point: distance(one, point.place)) is NOISED
    findings = planned(setting="clip-and-noise 0.5").findings
    (found,) = standings(findings, (*GRID, NOISED))
    assert found.place.defence != "none"


def test_findings_that_do_not_say_how_clients_train_have_no_map(own):
    path = own / "findings.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**document, "plan": {}}), encoding="utf-8")
    read = read_findings(own)
    assert standings(read.findings, GRID) == []
    assert "Where do the hospitals stand?" not in render_audit(read)


def test_the_figure_comes_first_for_both_readers(planned, monkeypatch):
    monkeypatch.setattr(frontier, "measured", lambda: (*GRID, NOISED))
    page = render_audit(planned(clients=((8, 4), (500, 16))))
    headings = re.findall(r"<h3[^>]*>([^<]+)</h3>", page[page.index('id="questions"') :])
    assert headings[0] == "Where do the hospitals stand?"
    engineers = re.findall(r"<h3[^>]*>([^<]+)</h3>", page[page.index('id="engineer"') :])
    assert engineers[0] == "Where do the hospitals stand?"
    assert re.search(r"Leaks: \d+ of \d+ images were recovered .* \(steps: 2, images in a step: 4, epochs: 1,", page)
    assert re.search(r"Not shown to leak: .* \(steps: 8, images in a step: 16, epochs: 1, sgd,", page)
    assert "Nobody measured training like this hospital" in page


def test_the_page_of_numbers_has_the_table_without_names(planned):
    page = render_numbers(planned(clients=((8, 4),)))
    assert "site-0" not in page


def test_without_a_measured_point_there_is_no_figure(planned, monkeypatch):
    monkeypatch.setattr(frontier, "measured", tuple)
    assert "Where do the hospitals stand?" not in render_audit(planned())


def test_where_no_attack_made_a_guess_nothing_is_said(monkeypatch):
    point = {"images_per_step": 1, "steps": 2, "epochs": 1, "optimiser": "sgd", "size": 64, "network": "resnet18"}
    point |= {"defence": "none", "beyond": 0, "leak": None, "found": 0, "images": 12, "attacks": 0, "attack": None}
    monkeypatch.setattr(frontier, "_file", lambda: {"points": [point]})
    measured.cache_clear()
    assert measured() == ()
    monkeypatch.undo()
    measured.cache_clear()


def test_the_committed_map_is_whole():
    points = measured()
    assert len({point.place for point in points}) == len(points)
    assert all(point.found <= point.images for point in points)
    assert all(point.attack and point.attacks for point in points)
    assert frontier.map_command().startswith("python examples/frontier/measure.py")
