"""From levels to sentences: what an officer reads, what is recommended, what may be said. Levels: test_levels.py."""

import pytest

from fluoroscope.audit.verdicts import Verdicts
from fluoroscope.findings import Cell, Score
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
THREATS = {"reconstruction": "curious-server", "client-inference": "curious-client", "membership": "curious-client"}


def score(value, low=None, high=None, n=8, chance=None):
    return Score(value=value, low=low, high=high, n=n, chance=chance)


def cell(kind, label, scores, status="done", attacked=None, reason="it broke", **settings):
    return Cell(
        id=f"{kind}-{label}",
        kind=kind,
        threat=THREATS.get(kind),
        defence=label,
        settings={"attack": "span", "client": "client-5", **settings},
        status=status,
        reason=None if status == "done" else reason,
        attacked=attacked,
        scores=scores,
    )


def reconstruction(label, leak, low, high, found=7, p=0.001, attacked="stand-ins", gave_up=None, **more):
    scores = {
        "leak": score(leak, low, high),
        "told_apart": score(found / 8, max(0, found / 8 - 0.3), min(1, found / 8 + 0.1), chance=1 / 8),
        "line_up": score(found / 8, 0.0, 0.4 if found < 2 else 1.0, chance=0.25),
        "found": score(found),
        "images": score(8),
        "p_value": score(p),
    }
    scores |= {} if gave_up is None else {"gave_up": score(gave_up)}
    return cell("reconstruction", label, scores, attacked=attacked, **more)


def stopped(label, **more):
    return reconstruction(label, **{"leak": 0.0, "low": -0.01, "high": 0.01, "found": 1, "p": 0.6, **more})


def federation(label, accuracy):
    return cell("federation", label, {"accuracy": score(accuracy, accuracy - 0.05, accuracy + 0.05)})


def game(label, auc, low, high, kind="client-inference"):
    return cell(kind, label, {"auc": score(auc, low, high, 20, 0.5)})


LEAKS = [
    federation("none", 0.91),
    reconstruction("none", 0.4, 0.3, 0.5),
    game("none", 0.9, 0.7, 0.97),
    federation("noise", 0.88),
    stopped("noise"),
    game("noise", 0.5, 0.42, 0.58),
    federation("more {noise}", 0.6),
    stopped("more {noise}", found=0),
    game("more {noise}", 0.5, 0.42, 0.58),
]


def verdicts(cells, plan=PLAN):
    made = Verdicts(plan, cells)
    return {each.threat: each for each in made.all()}, made


def said(cells, text):
    return plain({"cells": [each.model_dump() for each in cells]}, text)


def test_a_leak_that_the_cheaper_setting_stops():
    found, made = verdicts(LEAKS)
    server = found["curious-server"]
    assert (server.level, server.stopped_by) == ("leaks", "noise")
    words = said(LEAKS, server.text)
    assert words.startswith(
        "From 7 of 8 patients in the place of client-5 the server recovered an image that is told apart from other "
        "patients' (88% of what it recovered is; guessing reaches 12%). With “noise”: Of what the server recovered "
        "from client-5, 12% is told apart from other patients' images, and guessing reaches 12%."
    )
    assert "no more than guessing" in words
    assert words.endswith("accuracy 0.91 → 0.88.")
    assert {each.defence: each.level for each in server.levels} == {
        "none": "leaks", "noise": "holds", "more {noise}": "holds",
    }  # fmt: skip
    advice = made.recommendation()
    assert advice.defence == "noise"
    assert "0.91 → 0.88" in said(LEAKS, advice.text)
    assert found["malicious-server"].level == "not tested"
    assert any("“noise” stopped attacks of a server that looks" in each.text for each in made.safe_to_say())


def test_an_officer_reads_no_acronym():
    found, _ = verdicts([*LEAKS, game("none", 0.8, 0.7, 0.9, "membership")])
    for verdict in found.values():
        for text in (verdict.text, *(each.why for each in verdict.levels)):
            assert not any(short in text.text for short in ("RDLV", "AUC", "SSIM", "IIP", "PSNR"))


def test_a_recorded_update_speaks_of_the_client_s_own_images():
    cells = [reconstruction("none", 0.4, 0.3, 0.5, 3, attacked="recorded update")]
    words = said(cells, verdicts(cells)[0]["curious-server"].text)
    assert "Of 8 images of client-5 the server recovered 3 so that they are told apart from other patients'" in words


def test_a_leak_without_anybody_told_apart():
    cells = [reconstruction("none", 0.1, 0.05, 0.2, 0)]
    found, _ = verdicts(cells)
    assert found["curious-server"].level == "leaks"
    assert "nearer to its own patients than to others by more than chance" in said(cells, found["curious-server"].text)


def test_a_setting_that_is_not_shown_to_stop_it():
    wide = stopped("noise", low=-0.1, high=0.1)
    cells = [*LEAKS[:4], wide, *LEAKS[5:]]
    found, made = verdicts(cells)
    assert found["curious-server"].stopped_by == "more {noise}"
    assert "“more {noise}”" in said(cells, found["curious-server"].text)  # braces in a label are only braces
    assert made.recommendation().defence == "more {noise}"
    level = found["curious-server"].levels[1]
    assert level.level == "unclear"
    assert "Too few were attacked to exclude a leak" in said(cells, level.why)


@pytest.mark.parametrize("status", ["failed", "left out", "gave up"])
def test_what_has_no_result_is_not_what_holds(status):
    gone = cell("reconstruction", "noise", {}, status=status, reason="span cannot read this network.")
    cells = [*LEAKS[:4], gone, *LEAKS[5:7]]
    found, made = verdicts(cells)
    server = found["curious-server"]
    assert server.stopped_by is None
    assert "No setting that was tried is shown to stop it" in said(cells, server.text)
    assert made.recommendation().defence is None
    assert server.levels[1].level == "not tested"
    assert "span cannot read this network" in said(cells, server.levels[1].why)


def test_an_attack_that_gave_up_everywhere_tested_nothing():
    """Trials F1: its guess is the prior, RDLV 0.00 to 0.00, and that is no result."""
    gone = cell("reconstruction", "none", {"gave_up": score(8)}, status="gave up", reason="it cannot read this network")
    cells = [federation("none", 0.9), gone, federation("noise", 0.8), gone.model_copy(update={"defence": "noise"})]
    found, made = verdicts(cells)
    assert {each.level for each in found["curious-server"].levels} == {"not tested"}
    words = said(cells, found["curious-server"].text)
    assert words == "Not tested: reconstruction of client-5 (the attack gave up: it cannot read this network)."
    advice = made.recommendation()
    assert advice.defence is None
    assert "was needed" not in advice.text.text
    assert "none is recommended" in advice.text.text
    assert any("curious server" in each.text for each in made.not_safe_to_say())
    assert not made.safe_to_say()


def test_an_attack_that_gave_up_on_some_says_on_how_many():
    cells = [
        reconstruction("none", 0.2, 0.1, 0.3, 4, gave_up=3).model_copy(update={"reason": "the rank is too low."}),
    ]
    words = said(cells, verdicts(cells)[0]["curious-server"].text)
    assert "; the attack gave up on 3 of 8 (the rank is too low)." in words


def test_where_nothing_leaks_without_a_defence_none_is_recommended():
    cells = [federation("none", 0.9), stopped("none"), federation("noise", 0.8), stopped("noise")]
    found, made = verdicts(cells)
    assert [each.level for each in found["curious-server"].levels] == ["unclear", "unclear", "not tested"]
    assert "which does not show that another attack would fail" in said(cells, found["curious-server"].text)
    assert "does not show that it helps" in said(cells, found["curious-server"].levels[1].why)
    assert made.recommendation().defence is None


def test_a_plan_s_own_defences_are_what_the_verdict_is_about():
    plan = plan_of(defence=[{"name": "percentile-gaussian", "noise_scale": 1.0}], audit={"compare": []})
    cells = [*LEAKS[:3], federation("as planned", 0.85), stopped("as planned"), game("as planned", 0.9, 0.7, 0.97)]
    found, made = verdicts(cells, plan)
    assert (found["curious-server"].level, found["curious-server"].stopped_by) == ("holds", "as planned")
    assert "From 7 of 8 patients" in said(cells, found["curious-server"].text)
    assert "With “as planned”: Of what the server recovered" in said(cells, found["curious-server"].text)
    assert found["curious-client"].level == "leaks"
    assert made.recommendation().defence is None, "it stops one of two"


def test_only_what_leaks_has_to_be_stopped():
    crafted = {"rate": score(0.9, 0.8, 0.95), "recovered": score(9), "images": score(10)}
    guard = {"refused": score(5), "clients": score(5), "recovered": score(0)}
    cells = [
        federation("none", 0.9), stopped("none"), cell("crafted-model", "none", crafted), cell("guard", "none", guard),
    ]  # fmt: skip
    _, made = verdicts(cells)
    assert made.recommendation().defence == "none"
    assert said(cells, made.recommendation().text).startswith("Let every client inspect a model")


def test_a_game_in_words():
    found, _ = verdicts(LEAKS)
    words = said(LEAKS, found["curious-client"].text)
    assert words.startswith(
        "Shown a federation in which client-5 takes part and one in which it does not, a curious hospital names the "
        "right one in 90% of cases; guessing reaches 50%. With “noise”: Shown a federation"
    )


@pytest.mark.parametrize(("refused", "got", "stop"), [(5, 0, "guard"), (0, 9, None)])
def test_the_guard_stops_what_it_refuses(refused, got, stop):
    crafted = {"rate": score(0.9, 0.8, 0.95), "recovered": score(9), "images": score(10)}
    guard = {"refused": score(refused), "clients": score(5), "recovered": score(got)}
    found, made = verdicts([*LEAKS, cell("crafted-model", "none", crafted), cell("guard", "none", guard)])
    assert (found["malicious-server"].level, found["malicious-server"].stopped_by) == ("leaks", stop)
    assert {each.level for each in found["malicious-server"].levels} == {"holds" if stop else "leaks"}
    assert ("guard" in made.recommendation().text.text) == (stop is not None)


def test_a_crafted_model_that_failed_shows_nothing():
    crafted = {"rate": score(0.0, 0.0, 0.3), "recovered": score(0), "images": score(10)}
    guard = {"refused": score(5), "clients": score(5), "recovered": score(0)}
    cells = [cell("crafted-model", "none", crafted, steps=4), cell("guard", "none", guard)]
    found, _ = verdicts(cells)
    assert (found["malicious-server"].level, found["malicious-server"].stopped_by) == ("unclear", None)
    assert "it trains in 4 steps" in said(cells, found["malicious-server"].text)


def test_the_sizes_are_written_down():
    _, made = verdicts(LEAKS)
    assert [(each.kind, each.metric, each.most, each.of) for each in made.sizes()] == [
        ("reconstruction", "leak", 0.02, "value"),
        ("reconstruction", "line_up", 2.0, "times chance"),
        ("client-inference", "auc", 0.1, "above chance"),
    ]


def test_noise_without_a_count_is_not_called_differential_privacy():
    _, made = verdicts(LEAKS)
    words = " ".join(each.text for each in made.not_safe_to_say())
    assert "“noise”, “more {{noise}}” would be differential privacy" in words
    assert "phantoms" in words


def test_each_kind_of_attack_has_its_own_level_and_cell():
    """The level of a threat is the worst of its kinds, and the sentence of a setting is theirs together."""
    auc = {"auc": score(0.9, 0.8, 0.95, chance=0.5), "p_value": score(0.001)}
    cells = (
        reconstruction("none", 0.3, 0.2, 0.4),
        stopped("noise"),
        cell("client-inference", "none", auc),
        cell("client-inference", "noise", auc),
        cell("membership", "none", {}, status="failed"),
    )
    verdicts = {verdict.threat: verdict for verdict in Verdicts(PLAN, cells).all()}
    server = {each.defence: each.kinds for each in verdicts["curious-server"].levels}
    assert [(kind.kind, kind.level, kind.cell) for kind in server["none"]] == [
        ("reconstruction", "leaks", "reconstruction-none")
    ]
    assert [(kind.level, kind.cell) for kind in server["noise"]] == [("holds", "reconstruction-noise")]
    client = next(each for each in verdicts["curious-client"].levels if each.defence == "none")
    assert client.level == "leaks"
    assert [(kind.kind, kind.level) for kind in client.kinds] == [
        ("client-inference", "leaks"),
        ("membership", "not tested"),
    ]
    assert all(kind.why.text.rstrip(".") in client.why.text for kind in client.kinds[1:])
    crafted = verdicts["malicious-server"].levels[0]
    assert [(kind.kind, kind.level, kind.cell) for kind in crafted.kinds] == [("crafted-model", "not tested", None)]
