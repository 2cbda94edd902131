"""How the rows of membership and source inference are drawn."""

from matplotlib.figure import Figure

from fluoroscope.report.figures import Bar, Panel, Point, bars, panels
from fluoroscope.studies.study import Row, Rows


def membership(title: str, rows: Rows) -> Figure:
    """A ROC for each seat and attack, the AUC of all with its interval, and the members found at few false alarms."""
    kept = [row for row in rows if not row.failed]
    seats = list(dict.fromkeys((row["seat"], row["attack"]) for row in kept))
    privacies = list(dict.fromkeys(row["privacy"] for row in kept))
    areas: dict[str, list[Point]] = {name: [] for name in privacies}
    found: dict[str, list[Point]] = {name: [] for name in privacies}
    for row in kept:  # side by side, so that no interval hides another
        x = 1 + seats.index((row["seat"], row["attack"])) + 0.12 * (privacies.index(row["privacy"]) - 1.5)
        areas[row["privacy"]].append(Point(x, row["auc"], row["auc_low"], row["auc_high"]))
        found[row["privacy"]].append(Point(x, row["tpr_at_5_fpr"]))
    label = ", ".join(f"{i + 1}: {seat} {attack}" for i, (seat, attack) in enumerate(seats))
    chosen = {place: [row for row in kept if (row["seat"], row["attack"]) == place] for place in seats}
    return panels(
        title,
        [
            *(_roc(seat, attack, chosen[seat, attack]) for seat, attack in seats),
            Panel("AUC, 95 % interval", label, "AUC", areas, {"AUC of chance": 0.5}, joined=False, y_range=(0, 1.02)),
            Panel(
                "members found at 5 % false positives",
                label,
                "true-positive rate",
                found,
                {"rate of chance": 0.05},
                joined=False,
                y_range=(-0.02, 1.02),
            ),
        ],
    )


def _roc(seat: str, attack: str, rows: Rows) -> Panel:
    curves = {row["privacy"]: _curve(row) for row in rows}
    same = [name for name, curve in curves.items() if list(curves.values()).count(curve) > 1]
    note = f"; one curve: {', '.join(same)}" if same else ""
    chance = {"chance": [Point(0, 0), Point(1, 1)]}
    return Panel(f"{seat}'s seat, {attack}{note}", "false-positive rate", "true-positive rate", chance | curves)


def source(title: str, rows: Rows) -> Figure:
    """The share of right guesses with its interval, chance beside it."""
    return bars(
        title,
        [
            Bar(row["privacy"], row["accuracy"], row["low"], row["high"], row["chance"])
            for row in rows
            if not row.failed
        ],
        "share of right guesses, 95 % interval",
        "chance",
    )


def _curve(row: Row) -> list[Point]:
    curves = row.result.curves
    pairs = zip(curves["false_positive_rate"], curves["true_positive_rate"], strict=True)
    return [Point(x, y) for x, y in pairs if x is not None and y is not None]
