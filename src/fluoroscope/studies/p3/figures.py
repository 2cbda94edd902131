"""How P3's rows are drawn."""

import math

from matplotlib.figure import Figure

from fluoroscope.report.figures import Bar, Panel, Point, bars, panels
from fluoroscope.studies.study import Row, Rows


def by_strategy(title: str, rows: Rows) -> Figure:
    """Accuracy with its standard deviation, and the distance d, by strategy: a series for each privacy."""
    kept = [row for row in rows if not row.failed]
    strategies = list(dict.fromkeys(row["strategy"] for row in kept))
    privacies = list(dict.fromkeys(row["privacy"] for row in kept))
    accuracy: dict[str, list[Point]] = {name: [] for name in privacies}
    apart: dict[str, list[Point]] = {name: [] for name in privacies}
    for row in kept:
        # Side by side, so that no interval hides another.
        x = 1 + strategies.index(row["strategy"]) + 0.1 * (privacies.index(row["privacy"]) - len(privacies) / 2)
        mean, spread = _number(row["accuracy"]), _number(row["accuracy_std"])
        accuracy[row["privacy"]].append(Point(x, mean, mean - spread, mean + spread))
        apart[row["privacy"]].append(Point(x, _number(row["distance"])))
    return panels(
        title,
        [
            Panel(
                "accuracy, mean and standard deviation over seeds",
                "strategy",
                "accuracy",
                accuracy,
                joined=False,
                ticks=strategies,
            ),
            Panel("distance d between the clients", "strategy", "d", apart, joined=False, ticks=strategies),
        ],
    )


def by_round(title: str, rows: Rows) -> Figure:
    """Figs B.2 and B.3: accuracy by round, a panel for each strategy; and d by round."""
    drawn = []
    for strategy in dict.fromkeys(row["strategy"] for row in rows if not row.failed):
        chosen = [row for row in rows if row["strategy"] == strategy and not row.failed]
        series = {row["privacy"]: _band(row, "round", "accuracy") for row in chosen}
        label = "accuracy, mean and range over seeds"
        drawn.append(Panel(strategy, "round", label, series, y_range=(0, 1), whole_x=True))
    apart = {
        f"{row['privacy']}, {row['strategy']}": _band(row, "round", "distance")
        for row in rows
        if not row.failed and row["privacy"] == "metric-privacy"
    }
    drawn.append(Panel("distance d under metric privacy", "round", "d", apart, whole_x=True))
    return panels(title, drawn)


def by_threshold(title: str, rows: Rows) -> Figure:
    """Figs C.4 and C.5: ROC curves on the test set, a panel for each strategy."""
    drawn = []
    for strategy in dict.fromkeys(row["strategy"] for row in rows if not row.failed):
        chosen = [row for row in rows if row["strategy"] == strategy and not row.failed]
        series = {row["privacy"]: _band(row, "false_positive_rate", "true_positive_rate") for row in chosen}
        areas = ", ".join(f"{row['privacy']} {_number(row['auc']):.2f}" for row in chosen)
        drawn.append(Panel(f"{strategy}, AUC: {areas}", "false-positive rate", "true-positive rate", series))
    return panels(title, drawn)


def differences(title: str, rows: Rows) -> Figure:
    """Tables 9, 10, D.13 to D.16: P3's relative difference beside ours."""
    return _beside_the_paper(title, rows, "difference", "difference of the losses, % (with std over seeds)")


def losses_on_test(title: str, rows: Rows) -> Figure:
    """Table 11."""
    return _beside_the_paper(title, rows, "test_loss", "loss on the test set after round 1")


def _beside_the_paper(title: str, rows: Rows, measure: str, label: str) -> Figure:
    """A bar per row with its spread, where it was measured over seeds, and P3's number."""
    drawn = []
    for row in (row for row in rows if not row.failed):
        mean, spread = _number(row[measure]), _number(row[f"{measure}_std"])
        printed = (row.paper or {}).get(measure, math.nan)
        drawn.append(Bar(f"{row['strategy']}, {row['privacy']}", mean, mean - spread, mean + spread, printed))
    return bars(title, drawn, label, "P3")


def game(title: str, rows: Rows) -> Figure:
    """Is the target in or out: ROC after round 1 and over all rounds, and the AUC with its interval."""
    kept = [row for row in rows if not row.failed]
    diagonal = {"chance": [Point(0, 0), Point(1, 1)]}
    curves = [
        Panel(
            f"ROC, {when}",
            "false-positive rate",
            "true-positive rate",
            diagonal
            | {_name(row): _band(row, f"{key}false_positive_rate", f"{key}true_positive_rate") for row in kept},
        )
        for key, when in (("", "round 1"), ("all_rounds_", "all rounds"))
    ]
    areas = {
        _name(row): [
            Point(
                place + 0.06 * number,
                _number(row[f"{key}auc"]),
                _number(row[f"{key}auc_low"]),
                _number(row[f"{key}auc_high"]),
            )
            for place, key in ((1, ""), (2, "all_rounds_"))
        ]
        for number, row in enumerate(kept)
    }
    last = Panel(
        "AUC, 95 % interval",
        "what the attacker has seen",
        "AUC",
        areas,
        {"chance (AUC 0.5)": 0.5},
        joined=False,
        y_range=(0, 1.02),
        ticks=("round 1", "all rounds"),
    )
    return panels(title, [*curves, last])


def _name(row: Row) -> str:
    return f"{row['privacy']}, {row['shadow']} shadow set"


def _band(row: Row, x: str, y: str) -> list[Point]:
    curves = row.result.curves
    missing = [math.nan] * len(curves[x])
    lows, highs = curves.get(f"{y}_low", missing), curves.get(f"{y}_high", missing)
    values = zip(curves[x], curves[y], lows, highs, strict=True)
    return [Point(_number(a), _number(b), _number(c), _number(d)) for a, b, c, d in values]


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
