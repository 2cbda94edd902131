"""The map as a study: which points are measured, and the figure.

Not the product of all settings, which would be 2880 points: the grid of images per step and steps, and from two base
points every other factor by itself. The bases are P1's client 1 (two steps of four) and the client of one image.
"""

import math
from dataclasses import replace

import numpy as np
from matplotlib.figure import Figure

from fluoroscope.studies.frontier.map import MapCell
from fluoroscope.studies.study import Row, Rows, Size, Study, enter

IMAGES_PER_STEP = (1, 2, 4, 8, 16)
STEPS = (1, 2, 4, 8)
BASES = (MapCell(4, 2), MapCell(1, 1))


def design(size: Size) -> list[MapCell]:
    """The points; in the paper's size of twice the pixels and with ten times the processor time."""
    grid = [MapCell(images, steps) for steps in STEPS for images in IMAGES_PER_STEP]
    points = [*BASES, *grid, *(varied for base in BASES for varied in one_factor_at_a_time(base))]
    if size == "paper":
        points = [replace(point, seconds=600.0, size=2 * point.size) for point in points]
    return list(dict.fromkeys(points))


def one_factor_at_a_time(base: MapCell) -> list[MapCell]:
    """The base with each other setting of each factor."""
    return [
        replace(base, epochs=2),
        replace(base, optimiser="momentum"),
        replace(base, optimiser="adamw"),
        *([replace(base, size=32)] if base.images_per_step > 1 else []),  # BatchNorm needs two values per channel
        replace(base, network="small-cnn"),
        replace(base, network="lenet5"),
        replace(base, defence="fed-bn"),
        replace(base, defence="fed-bn + clip-and-noise"),
    ]


_FACTORS = ("epochs", "optimiser", "size", "network", "defence")


def drawn(title: str, rows: Rows) -> Figure:
    """The grid as a table of colours, and the single factors beside it."""
    figure = Figure(figsize=(12.5, 5.2), layout="constrained")
    figure.suptitle(title, fontsize=10, wrap=True)
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.5))
    usual = {name: _most_common([row[name] for row in rows]) for name in _FACTORS}
    grid = {(r["images_per_step"], r["steps"]): r for r in rows if all(r[n] == v for n, v in usual.items())}
    across, down = (sorted({place[axis] for place in grid}) for axis in (0, 1))
    values = np.array([[_leak(grid.get((a, d))) for a in across] for d in down])
    image = left.imshow(values, cmap="cividis", vmin=0.0, vmax=0.6, origin="lower", aspect="auto")
    for y, d in enumerate(down):
        for x, a in enumerate(across):
            row = grid.get((a, d))
            colour = "white" if not values[y, x] > 0.35 else "black"
            left.text(x, y, _written(row), ha="center", va="center", fontsize=8, color=colour)
    left.set_xticks(range(len(across)), [str(a) for a in across])
    left.set_yticks(range(len(down)), [str(d) for d in down])
    left.set(xlabel="images per step", ylabel="steps", title="one epoch, by images per step and steps")
    left.title.set_fontsize(9)
    figure.colorbar(image, ax=left, label="leak beyond the null (RDLV)")
    singles = [(r, _differs(r, usual)) for r in rows if _differs(r, usual)]
    labels = [f"{r['images_per_step']} x {r['steps']}: {what}" for r, what in singles]
    for place, (row, _) in enumerate(singles):
        if row["leak"] is None:
            right.text(0.01, place, "no attack applies, or all gave up", va="center", fontsize=7)
            continue
        colour = "#D55E00" if row["beyond"] else "#7F7F7F"
        right.hlines(place, row["leak_low"], row["leak_high"], color=colour, linewidth=1.4)
        right.plot(row["leak"], place, marker="o" if row["beyond"] else "s", color=colour, markersize=5)
    right.axvline(0, color="#000000", linewidth=0.8, linestyle=":")
    right.set_yticks(range(len(labels)), labels, fontsize=8)
    right.invert_yaxis()
    right.set(
        xlabel="leak beyond the null (corrected interval)", title="one factor changed: orange circle, beyond chance"
    )
    right.title.set_fontsize(9)
    right.spines[["top", "right"]].set_visible(False)
    return figure


def _differs(row: Row, usual: dict[str, object]) -> str:
    return ", ".join(f"{name} {row[name]}" for name in _FACTORS if row[name] != usual[name])


def _most_common(values: list[object]) -> object:
    return max(dict.fromkeys(values), key=values.count)


def _leak(row: Row | None) -> float:
    return math.nan if row is None or row["leak"] is None else float(row["leak"])


def _written(row: Row | None) -> str:
    if row is None:
        return ""
    if row["leak"] is None:
        return "none"
    return f"{row['leak']:.2f}{'*' if row['beyond'] else ''}\n{row['found']} of {row['images']}"


enter(
    Study(
        "frontier/map",
        "Where images leak: images per step, steps, epochs, optimiser, size, network, defence (* beyond chance)",
        "The best of all attacks that apply, each within its share of the processor; its interval and p-value are "
        "corrected for their number.",
        {size: design(size) for size in ("small", "paper")},
        drawn,
        parallel=True,
    )
)
