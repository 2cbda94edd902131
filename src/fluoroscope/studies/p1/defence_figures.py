"""How the rows of P1's defence studies are drawn."""

import math

import torch
from matplotlib.figure import Figure

from fluoroscope.report.figures import Bar, Panel, Point, bars, panels, scatter
from fluoroscope.scores.projection import tsne
from fluoroscope.studies.study import Row, Rows

NO_LEAK = {"no better than the prior": 0.0}


def by_client(title: str, rows: Rows) -> Figure:
    """Fig. 4: a bar for each client and round, and for each attack where there are several."""
    several = len({row["attack"] for row in rows}) > 1
    drawn = [
        Bar(
            f"{row['client']} ({row['images']}), round {row['round']}" + (f", {row['attack']}" if several else ""),
            *_rdlv(row),
        )
        for row in rows
        if not row.failed
    ]
    return bars(title, drawn, "RDLV (95 % interval)")


def by_defence(title: str, rows: Rows) -> Figure:
    """A bar for each defence of the one-image client."""
    drawn = [Bar(f"{row['attack']}, {row['defence']}", *_rdlv(row)) for row in rows if not row.failed]
    return bars(title, drawn, "RDLV (95 % interval)")


def by_noise(title: str, rows: Rows) -> Figure:
    """Fig. 8: RDLV of every client by sigma0, and the accuracy beside it."""
    leak = _lines(rows, "sigma0")
    cost = {"test accuracy": [Point(row["sigma0"], _number(row, "test_accuracy")) for row in _first(rows, "sigma0")]}
    return panels(
        title,
        [
            Panel("leakage", "σ₀", "RDLV (95 % interval)", leak, NO_LEAK),
            Panel("utility", "σ₀", "test accuracy of the last model", cost),
        ],
    )


def by_epsilon(title: str, rows: Rows) -> Figure:
    """Fig. 9: RDLV and accuracy by the noise of DP-SGD."""
    leak: dict[str, list[Point]] = {}
    named: dict[str, list[Row]] = {}
    for row in rows:
        name = "no defence" if row["clip_norm"] is None else f"DP-SGD, clipping norm {row['clip_norm']:g}"
        leak.setdefault(f"{row['attack']}, {name}", []).append(Point(_noise(row), *_rdlv(row)))
        if row["attack"] == rows[0]["attack"]:  # accuracy and epsilon are the federation's, whoever attacks
            named.setdefault(name, []).append(row)
    cost = {name: [Point(_noise(row), _number(row, "test_accuracy")) for row in found] for name, found in named.items()}
    spent = {name: [Point(_noise(row), _number(row, "epsilon")) for row in found] for name, found in named.items()}
    return panels(
        title,
        [
            Panel("leakage", "noise multiplier", "RDLV (95 % interval)", leak, NO_LEAK),
            Panel("utility", "noise multiplier", "test accuracy of the last model", cost),
            Panel("privacy", "noise multiplier", "ε of the one-image client", spent, log_y=True),
        ],
    )


def by_k(title: str, rows: Rows) -> Figure:
    """Fig. 11: k-IIP of every client, a panel for each noise."""
    levels = list(dict.fromkeys(row["sigma0"] for row in rows))
    drawn = []
    for level in levels:
        series = {
            _client(row): [
                Point(k, share)
                for k, share in zip(row.result.curves["k"], row.result.curves["k_iip"], strict=True)
                if k is not None and share is not None
            ]
            for row in rows
            if row["sigma0"] == level and not row.failed
        }
        drawn.append(Panel(f"σ₀ = {level:g}", "k nearest", "k-IIP", series, y_range=(-0.03, 1.03)))
    return panels(title, drawn)


def projected(title: str, rows: Rows) -> Figure:
    """Fig. 10: every client's images and the reconstructions from its update, on one plane."""
    kept = [row for row in rows if not row.failed]
    groups = [(row, kind) for row in kept for kind in ("embedded originals", "embedded reconstructions")]
    everything = torch.cat([row.result.images[kind] for row, kind in groups])
    points = tsne(everything, torch.Generator().manual_seed(0))
    sizes = [len(row.result.images[kind]) for row, kind in groups]
    parts = {
        f"{_client(row)}: {kind.removeprefix('embedded ')}": part.numpy()
        for (row, kind), part in zip(groups, torch.split(points, sizes), strict=True)
    }
    return scatter(title, parts, pairs=True)


def _lines(rows: Rows, x: str) -> dict[str, list[Point]]:
    lines: dict[str, list[Point]] = {}
    for row in rows:
        attack = "" if row["attack"] == rows[0]["attack"] else f", {row['attack']}"
        lines.setdefault(f"{_client(row)}{attack}", []).append(Point(float(row[x]), *_rdlv(row)))
    return lines


def _first(rows: Rows, x: str) -> list[Row]:
    """One row for each value of x: the accuracy is the federation's, the same for all its clients."""
    return list({row[x]: row for row in reversed(rows)}.values())[::-1]


def _client(row: Row) -> str:
    return f"{row['client']} ({row['images']} image{'s' if row['images'] > 1 else ''})"


def _noise(row: Row) -> float:
    return float(row["noise_multiplier"] or 0.0)


def _rdlv(row: Row) -> tuple[float, float, float]:
    return _number(row, "rdlv"), _number(row, "rdlv_low"), _number(row, "rdlv_high")


def _number(row: Row, measure: str) -> float:
    value = row[measure]
    return math.nan if value is None else float(value)
