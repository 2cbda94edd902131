"""From findings to sentences: what counts as a leak, as stopped, as unclear."""

from dataclasses import replace

import pytest

from fluoroscope.audit.verdicts import Verdicts
from fluoroscope.findings import Cell, Score
from fluoroscope.findings import metrics as catalogue
from fluoroscope.report.traced import plain

from .conftest import plan_of

PLAN = plan_of(
    audit={
        "compare": [
            {"label": "noise", "defence": [{"name": "percentile-gaussian", "noise_scale": 1.0}]},
            {"label": "more {noise}", "defence": [{"name": "percentile-gaussian", "noise_scale": 5.0}]},
        ]
    }
)


def score(value, low=None, high=None, n=8):
    return Score(value=value, low=low, high=high, n=n)


def cell(kind, label, scores, status="done", **settings):
    return Cell(
        id=f"{kind}-{label}",
        kind=kind,
        defence=label,
        settings={"client": "client-5", **settings},
        status=status,
        reason=None if status == "done" else "it broke",
        scores=scores,
    )


def reconstruction(label, value, low, high, recognised=7, **more):
    scores = {"rdlv": score(value, low, high), "recognised": score(recognised), "images": score(8)}
    return cell("reconstruction", label, scores, **more)


def federation(label, accuracy):
    return cell("federation", label, {"accuracy": score(accuracy, accuracy - 0.05, accuracy + 0.05)})


def game(label, auc, low, high):
    return cell("client-inference", label, {"auc": score(auc, low, high, 20)})


LEAKS = [
    federation("none", 0.91),
    reconstruction("none", 0.4, 0.3, 0.5),
    game("none", 0.9, 0.7, 0.97),
    federation("noise", 0.88),
    reconstruction("noise", -0.1, -0.2, 0.0, 0),
    game("noise", 0.5, 0.3, 0.7),
    federation("more {noise}", 0.6),
    reconstruction("more {noise}", -0.5, -0.6, -0.4, 0),
    game("more {noise}", 0.5, 0.3, 0.7),
]


def verdicts(cells):
    made = Verdicts(PLAN, cells)
    return {each.threat: each for each in made.all()}, made


def said(cells, text):
    return plain({"cells": [each.model_dump() for each in cells]}, text)


def test_a_leak_that_the_cheaper_setting_stops():
    found, made = verdicts(LEAKS)
    server = found["curious-server"]
    assert (server.level, server.stopped_by) == ("leaks", "noise")
    words = said(LEAKS, server.text)
    assert "from client-5: 7 of 8; RDLV 0.40 (95 % interval 0.30 to 0.50)" in words
    assert "With “noise”: 0, RDLV -0.10" in words
    assert "accuracy 0.91 → 0.88." in words
    advice = made.recommendation()
    assert advice.defence == "noise"
    assert "0.91 → 0.88" in said(LEAKS, advice.text)
    assert found["malicious-server"].level == "not tested"


def test_an_interval_that_reaches_above_the_prior_stops_nothing():
    cells = [*LEAKS[:4], reconstruction("noise", -0.1, -0.3, 0.05, 1), *LEAKS[5:]]
    found, made = verdicts(cells)
    assert found["curious-server"].stopped_by == "more {noise}"
    assert "“more {noise}”" in said(cells, found["curious-server"].text)  # braces in a label are only braces
    assert made.recommendation().defence == "more {noise}"


def test_what_failed_is_not_what_holds():
    cells = [*LEAKS[:4], reconstruction("noise", None, None, None, status="failed"), *LEAKS[5:7]]
    found, made = verdicts(cells)
    assert found["curious-server"].stopped_by is None
    assert "No setting that was tried stops it" in said(cells, found["curious-server"].text)
    assert made.recommendation().defence is None


@pytest.mark.parametrize(
    ("low", "high", "level"), [(0.1, 0.3, "leaks"), (-0.1, 0.3, "unclear"), (-0.3, -0.1, "holds"), (-0.3, 0.0, "holds")]
)
def test_the_level_is_the_interval_s(low, high, level):
    found, _ = verdicts([federation("none", 0.9), reconstruction("none", (low + high) / 2, low, high)])
    assert found["curious-server"].level == level


def test_one_value_shows_neither_a_leak_nor_that_there_is_none():
    cells = [federation("none", 0.9), reconstruction("none", 0.0, None, None, 0)]
    found, made = verdicts(cells)
    assert found["curious-server"].level == "unclear"
    assert "(one value: no interval)" in said(cells, found["curious-server"].text)
    assert made.recommendation().defence is None
    assert "see the verdicts" in said(cells, made.recommendation().text)


def test_only_what_leaks_has_to_be_stopped():
    crafted = {"rate": score(0.9, 0.8, 0.95), "recovered": score(9), "images": score(10)}
    guard = {"refused": score(5), "clients": score(5), "recovered": score(0)}
    cells = [
        federation("none", 0.9),
        reconstruction("none", -0.3, -0.4, -0.2, 0),
        cell("crafted-model", "none", crafted),
        cell("guard", "none", guard),
    ]
    _, made = verdicts(cells)
    assert made.recommendation().defence == "none"
    assert said(cells, made.recommendation().text).startswith("Let every client inspect a model")


def test_a_game_within_chance_is_unclear_not_safe():
    cells = [federation("none", 0.9), game("none", 0.6, 0.4, 0.8)]
    found, _ = verdicts(cells)
    assert found["curious-client"].level == "unclear"
    assert "cannot be told from chance" in said(cells, found["curious-client"].text)


@pytest.mark.parametrize(("refused", "got", "stop"), [(5, 0, "guard"), (0, 9, None)])
def test_the_guard_stops_what_it_refuses(refused, got, stop):
    crafted = {"rate": score(0.9, 0.8, 0.95), "recovered": score(9), "images": score(10)}
    guard = {"refused": score(refused), "clients": score(5), "recovered": score(got)}
    found, made = verdicts([*LEAKS, cell("crafted-model", "none", crafted), cell("guard", "none", guard)])
    assert (found["malicious-server"].level, found["malicious-server"].stopped_by) == ("leaks", stop)
    assert ("guard" in made.recommendation().text.text) == (stop is not None)


def test_noise_without_a_count_is_not_called_differential_privacy():
    _, made = verdicts(LEAKS)
    words = " ".join(each.text for each in made.not_safe_to_say())
    assert "“noise”, “more {{noise}}” would be differential privacy" in words
    assert "phantoms" in words


@pytest.mark.parametrize("flipped", [False, True])
def test_the_metric_says_which_cell_is_the_leakiest_and_what_is_a_leak(monkeypatch, flipped):
    if flipped:
        turned = [replace(each, higher_is_leakier=False) if each.name == "rdlv" else each for each in catalogue.METRICS]
        monkeypatch.setattr(catalogue, "METRICS", turned)
    cells = [reconstruction("none", 0.4, 0.3, 0.5, 7, round=1), reconstruction("none", -0.4, -0.5, -0.3, 1, round=2)]
    found, _ = verdicts(cells)
    server = found["curious-server"]
    assert server.level == "leaks"
    assert f"RDLV {'-0.40' if flipped else '0.40'}" in said(cells, server.text)


def test_a_setting_with_a_cell_without_a_value_stops_nothing():
    """Not measured is not safe, whichever cell comes first."""
    unknown = reconstruction("noise", None, None, None, 0, round=2)
    for pair in ([LEAKS[4], unknown], [unknown, LEAKS[4]]):
        found, _ = verdicts([*LEAKS[:4], *pair, *LEAKS[5:6]])
        assert found["curious-server"].stopped_by is None
