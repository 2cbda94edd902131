"""Every way from what was measured to a level."""

from dataclasses import replace

import pytest

from fluoroscope.audit.levels import RULES, Levels, standing
from fluoroscope.findings import Cell, Score
from fluoroscope.findings import metrics as catalogue

THREATS = {"reconstruction": "curious-server", "client-inference": "curious-client", "source": "curious-server"}


def cell(kind="reconstruction", label="none", scores=None, status="done", **settings):
    told = {"attack": "span", "client": "client-5", "round": 1, **settings}
    return Cell(
        id=f"{kind}-{label}-{'-'.join(map(str, told.values()))}",
        kind=kind,
        threat=THREATS.get(kind, "curious-client"),
        defence=label,
        settings=told,
        status=status,
        reason=None if status == "done" else "it broke",
        scores=scores or {},
    )


def images(label="none", leak=(0.4, 0.3, 0.5), line_up=(0.9, 0.8, 1.0), p=0.001, **more):
    value, low, high = leak
    scores = {
        "leak": Score(value=value, low=low, high=high, n=8),
        "line_up": Score(value=line_up[0], low=line_up[1], high=line_up[2], n=8, chance=0.25),
        "p_value": Score(value=p, n=8),
    }
    return cell("reconstruction", label, scores, **more)


LEAK = images
AT_NULL = {"leak": (0.0, -0.01, 0.01), "line_up": (0.25, 0.1, 0.4), "p": 0.6}
WIDE = {"leak": (0.0, -0.1, 0.1), "line_up": (0.25, 0.1, 0.4), "p": 0.6}


def small(label="none", **more):
    return images(label, **{**AT_NULL, **more})


def wide(label="none", **more):
    return images(label, **{**WIDE, **more})


def gone(label="none", status="gave up", **more):
    return cell("reconstruction", label, status=status, **more)


@pytest.mark.parametrize(
    ("found", "stands"),
    [
        (LEAK(), "above"),
        (LEAK(leak=(0.4, -0.1, 0.9)), "between"),  # the interval holds 0
        (LEAK(p=0.2), "between"),  # as often by chance
        (LEAK(leak=(0.4, None, None)), "above"),  # one value: the p-value decides
        (LEAK(leak=(0.4, None, None), p=0.2), "between"),
        (LEAK(leak=(0.4, None, None), p=None), "between"),
        (LEAK(leak=(0.01, 0.001, 0.015), line_up=(0.3, 0.2, 0.4)), "above"),  # small, and beyond chance: a leak
        (small(), "none"),
        (small(leak=(0.0, -0.01, 0.021)), "between"),
        (small(leak=(0.0, -0.01, 0.02)), "none"),
        (small(line_up=(0.3, 0.1, 0.51)), "between"),
        (small(line_up=(0.3, 0.1, 0.5)), "none"),
        (small(line_up=(0.3, None, None)), "between"),
        (LEAK(leak=(None, None, None)), "unknown"),
        (gone(), "unknown"),
        (gone(status="failed"), "unknown"),
        (gone(status="left out"), "unknown"),
    ],
)
def test_where_a_cell_stands(found, stands):
    assert standing(found) == stands


def game(value, low, high, kind="client-inference", name="auc", chance=0.5, label="none", p=None):
    scores = {name: Score(value=value, low=low, high=high, n=20, chance=chance)}
    return cell(kind, label, scores | ({} if p is None else {"p_value": Score(value=p)}))


@pytest.mark.parametrize(
    ("found", "stands"),
    [
        (game(0.9, 0.7, 0.97), "above"),
        (game(0.9, 0.7, 0.97, p=0.2), "between"),
        (game(0.5, 0.41, 0.59), "none"),
        (game(0.5, 0.3, 0.7), "between"),
        (game(0.7, 0.62, 0.78, "membership"), "above"),
        (game(0.5, 0.45, 0.55, "membership"), "none"),
        (game(0.8, 0.7, 0.9, "source", "accuracy", 1 / 3), "above"),
        (game(0.3, 0.25, 0.4, "source", "accuracy", 1 / 3), "none"),
        (game(0.3, 0.2, 0.5, "source", "accuracy", 1 / 3), "between"),
        (game(0.8, 0.7, 0.9, "source", "accuracy", None), "between"),  # without what chance gives nothing is shown
    ],
)
def test_where_a_game_stands(found, stands):
    assert standing(found) == stands


def test_the_worst_of_many_must_be_rarer():
    found = LEAK(p=0.04)
    assert standing(found, 1) == "above"
    assert standing(found, 2) == "between"


@pytest.mark.parametrize(
    ("cells", "bare", "noise", "why"),
    [
        ([LEAK(), small("noise")], "leaks", "holds", "small"),
        ([LEAK(), LEAK("noise")], "leaks", "leaks", "above"),
        ([LEAK(), wide("noise")], "leaks", "unclear", "large"),
        ([LEAK(), gone("noise")], "leaks", "not tested", "without a result"),
        ([LEAK(), gone("noise", "failed")], "leaks", "not tested", "without a result"),
        ([LEAK()], "leaks", "not tested", "without a result"),
        # Nothing leaks without the defence: that it does not with it shows nothing.
        ([small(), small("noise")], "unclear", "unclear", "no undefended leak"),
        ([wide(), small("noise")], "unclear", "unclear", "no undefended leak"),
        ([gone(), small("noise")], "not tested", "unclear", "no undefended leak"),
        ([gone(), gone("noise")], "not tested", "not tested", "without a result"),
        ([gone(), LEAK("noise")], "not tested", "leaks", "above"),
        ([], "not tested", "not tested", "without a result"),
        # Another client's leak does not count, nor another round's.
        ([LEAK(client="client-1"), small("noise")], "leaks", "unclear", "no undefended leak"),
        ([LEAK(round=2), small("noise")], "leaks", "unclear", "no undefended leak"),
        # Another attack is not the one that leaks.
        ([LEAK(attack="ridge"), small(), small("noise")], "leaks", "unclear", "not repeated"),
        ([LEAK(attack="ridge"), small("noise"), gone("noise", attack="ridge")], "leaks", "unclear", "not repeated"),
        ([LEAK(), gone(attack="ridge"), small("noise"), gone("noise", attack="ridge")], "leaks", "holds", "small"),
        # The best attacker must be at its null, not the one that leaked alone.
        ([LEAK(), small("noise"), wide("noise", attack="ridge", leak=(0.05, -0.1, 0.1))], "leaks", "unclear", "large"),
        ([LEAK(), small("noise"), LEAK("noise", attack="ridge")], "leaks", "leaks", "above"),
        # Every client, every round.
        (
            [LEAK(), LEAK(client="client-1"), small("noise"), small("noise", client="client-1")],
            "leaks", "holds", "small",
        ),
        (
            [LEAK(), LEAK(client="client-1"), small("noise"), gone("noise", client="client-1")],
            "leaks", "unclear", "without a result",
        ),
        ([LEAK(), LEAK(client="client-1"), small("noise")], "leaks", "unclear", "not repeated"),
        ([LEAK(), small(client="client-1"), small("noise")], "leaks", "holds", "small"),
        ([LEAK(), small("noise"), LEAK("noise", round=9)], "leaks", "leaks", "above"),
    ],
)  # fmt: skip
def test_every_level(cells, bare, noise, why):
    levels = Levels(cells)
    assert levels.of("curious-server", "none").level == bare
    found = levels.of("curious-server", "noise")
    assert (found.level, found.why) == (noise, why)


def test_without_a_defence_nothing_holds():
    for cells in ([small()], [wide()], [small(), small(attack="ridge")], [small(), gone(client="client-1")]):
        assert Levels(cells).of("curious-server", "none").level == "unclear"


def test_what_rehearsal_chose_decides():
    chosen = wide("noise", rehearsed="chosen", attack="ridge", leak=(-0.1, -0.2, 0.0))
    luckier = small("noise", rehearsed="runner-up", leak=(0.0, -0.01, 0.01))
    bare = [LEAK(attack="ridge", rehearsed="chosen"), LEAK(rehearsed="runner-up")]
    found = Levels([*bare, chosen, luckier]).of("curious-server", "noise")
    assert found.level == "holds"
    assert found.cell[1] is chosen, "although the other got more"
    # It was chosen before anybody looked, and is not the worst of many: a p-value of 0.04 is enough.
    many = [small(client=f"client-{i}") for i in range(9)]
    assert Levels([*many, LEAK(p=0.04)]).of("curious-server", "none").level == "unclear"
    assert Levels([*many, LEAK(p=0.04, rehearsed="chosen")]).of("curious-server", "none").level == "leaks"


def test_a_threat_is_the_worst_of_its_kinds():
    told = game(0.8, 0.7, 0.9, "source", "accuracy", 1 / 3)
    levels = Levels([small(), told])
    assert levels.of_kind("curious-server", "reconstruction", "none").level == "unclear"
    assert levels.of("curious-server", "none").level == "leaks"
    assert levels.kinds("curious-server") == ["reconstruction", "source"]
    held = [LEAK(), told, small("noise"), game(0.3, 0.25, 0.4, "source", "accuracy", 1 / 3, "noise")]
    assert Levels(held).of("curious-server", "noise").level == "holds"
    assert Levels(held[:3]).of("curious-server", "noise").level == "unclear", "only part was measured"


def test_the_metric_says_what_is_leakier(monkeypatch):
    turned = [replace(each, higher_is_leakier=False) if each.name == "leak" else each for each in catalogue.METRICS]
    monkeypatch.setattr(catalogue, "METRICS", turned)
    assert standing(LEAK()) == "between"
    assert standing(LEAK(leak=(-0.4, -0.5, -0.3))) == "above"


def test_every_rule_asks_declared_metrics():
    for kind, rule in RULES.items():
        assert all(size.kind == kind for size in rule.sizes)
        for name in (rule.score, *(size.metric for size in rule.sizes)):
            assert any(each.higher_is_leakier for each in catalogue.declared(name, kind)), (kind, name)
