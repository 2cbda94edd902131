"""Figures as inline SVG, or as files: labelled, colour-blind safe, readable in print."""

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator

from fluoroscope.atomic_write import write_bytes, write_text

# Okabe and Ito's palette and three more, told apart by people with any kind of colour vision; black is for means.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D1F", "#7F7F7F", "#5E3C99")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")

Series = Mapping[str, Sequence[tuple[float, float]]]
"""Points (x, y) by the name of their line."""

Image = npt.NDArray[np.float32]
"""(channels, height, width) in [0, 1]."""


class Point(NamedTuple):
    """A value at x, and the ends of its interval where it has one. What is not finite is not drawn."""

    x: float
    y: float
    low: float = math.nan
    high: float = math.nan


@dataclass(frozen=True)
class Panel:
    """One set of axes with a line for each series; `levels` are dotted lines to compare with."""

    title: str
    x_label: str
    y_label: str
    series: Mapping[str, Sequence[Point]]
    levels: Mapping[str, float] = field(default_factory=dict)
    log_x: bool = False
    log_y: bool = False
    joined: bool = True
    """Whether a line joins the points of a series."""
    y_range: tuple[float, float] | None = None
    whole_x: bool = False
    """Whether only whole numbers stand on the x-axis, such as rounds."""
    ticks: Sequence[str] = ()
    """Names of the places 1, 2, ... on an x-axis without numbers."""


@dataclass(frozen=True)
class Bar:
    """A value by name, the ends of its interval, and what it is compared with (a prior's value, a paper's)."""

    name: str
    y: float
    low: float = math.nan
    high: float = math.nan
    beside: float = math.nan


@dataclass(frozen=True)
class Tile:
    """One image with what is said below it."""

    image: Image
    caption: str


def lines(series: Series, x_label: str, y_label: str, bold: str | None = None, log: bool = False) -> str:
    """A line for each series, with markers as well as colours; `bold` is drawn on top of the others."""
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    for i, (name, points) in enumerate(series.items()):
        xs, ys = zip(*points, strict=True) if points else ((), ())
        (drawn,) = axes.plot(xs, ys, label=name, marker=MARKERS[i % len(MARKERS)], markersize=3.5)
        drawn.set(color=COLOURS[i % len(COLOURS)], linewidth=1.1, alpha=0.85)
        if name == bold:
            drawn.set(color="#000000", linewidth=2.6, alpha=1.0, zorder=3)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if log:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_locator(LogLocator(subs=(2, 5)))  # more of them would lie on one another
        axes.yaxis.set_minor_formatter("{x:g}")
        axes.tick_params(axis="y", which="both", labelsize=8)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return svg(figure)


def svg(figure: Figure) -> str:
    """The figure as an `<svg>` element to stand inside a page; the same figure gives the same bytes."""
    buffer = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "fluoroscope", "svg.fonttype": "none", "font.family": "sans-serif"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None}, transparent=True)
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def panels(title: str, drawn: Sequence[Panel]) -> Figure:
    """Panels side by side under one title, with one legend for all of them."""
    columns = len(drawn) if len(drawn) < 4 else 2
    rows = -(-len(drawn) // columns)
    figure = Figure(figsize=(max(7.4, 4.6 * columns + 1.2), 3.6 * rows + 0.8), layout="constrained")
    figure.suptitle(title, fontsize=10, wrap=True)
    styles: dict[str, int] = {}
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes, panel in zip(grid.flat, drawn, strict=False):
        draw_panel(axes, panel, styles)
    for unused in grid.flat[len(drawn) :]:
        unused.set_axis_off()
    handles = {label: h for axes in figure.axes for h, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=min(4, 1 + columns),
        fontsize=8,
        frameon=False,
    )
    return figure


def bars(title: str, drawn: Sequence[Bar], y_label: str, beside: str | None = None) -> Figure:
    """A bar for each value with its interval; what it is compared with stands on it as a black mark."""
    figure = Figure(figsize=(max(6.8, 0.55 * len(drawn) + 2), 4.6), layout="constrained")
    figure.suptitle(title, fontsize=10, wrap=True)
    axes = figure.subplots()
    places = range(len(drawn))
    axes.bar(places, [bar.y for bar in drawn], color=COLOURS[0], width=0.62)
    for place, bar in enumerate(drawn):
        if math.isfinite(bar.low) and math.isfinite(bar.high):
            axes.vlines(place, bar.low, bar.high, color="#000000", linewidth=1.2)
    compared = [(place, bar.beside) for place, bar in enumerate(drawn) if math.isfinite(bar.beside)]
    if beside and compared:
        xs, ys = zip(*compared, strict=True)
        axes.scatter(xs, ys, marker="_", s=420, linewidth=2.4, color=COLOURS[1], label=beside)
        axes.legend(fontsize=8, frameon=False, loc="lower right", bbox_to_anchor=(1.0, 1.0))
    axes.axhline(0, color="#000000", linewidth=0.6)
    axes.set_xticks(places, [bar.name for bar in drawn], rotation=35, ha="right", fontsize=8)
    axes.set_ylabel(y_label)
    _plain(axes)
    return figure


def scatter(title: str, groups: Mapping[str, npt.NDArray[np.float32]], pairs: bool = False) -> Figure:
    """Points (n, 2) on a plane without a scale. With `pairs` two groups share a colour, the second is larger."""
    figure = Figure(figsize=(7.2, 6.0), layout="constrained")
    figure.suptitle(title, fontsize=10, wrap=True)
    axes = figure.subplots()
    for number, (name, points) in enumerate(groups.items()):
        kind, second = (number // 2, number % 2) if pairs else (number, 0)
        colour, marker = COLOURS[kind % len(COLOURS)], MARKERS[kind % len(MARKERS)]
        style = {"s": 90, "edgecolors": "#000000"} if second else {"s": 22, "alpha": 0.55}
        axes.scatter(points[:, 0], points[:, 1], color=colour, marker=marker, label=name, **style)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_xlabel("t-SNE 1 (no unit)")
    axes.set_ylabel("t-SNE 2 (no unit)")
    figure.legend(loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    return figure


def gallery(title: str, rows: Mapping[str, Sequence[Tile]]) -> Figure:
    """A row of captioned images for each name."""
    columns = max(len(tiles) for tiles in rows.values())
    figure = Figure(figsize=(1.65 * columns + 1.3, 1.95 * len(rows) + 0.7), layout="constrained")
    figure.suptitle(title, fontsize=10, wrap=True)
    grid = figure.subplots(len(rows), columns, squeeze=False)
    for line, (name, tiles) in zip(grid, rows.items(), strict=True):
        for axes in line:
            axes.set_axis_off()
        for axes, tile in zip(line, tiles, strict=False):
            pixels = np.clip(np.nan_to_num(tile.image), 0, 1).transpose(1, 2, 0)
            axes.imshow(pixels if pixels.shape[2] == 3 else pixels[:, :, 0], cmap="gray", vmin=0, vmax=1)
            axes.text(0.5, -0.03, tile.caption, transform=axes.transAxes, ha="center", va="top", fontsize=7)
        line[0].text(-0.08, 0.5, name, transform=line[0].transAxes, ha="right", va="center", rotation=90, fontsize=8)
    return figure


def write(figure: Figure, stem: Path) -> tuple[Path, Path]:
    """The figure as STEM.png and STEM.svg."""
    FigureCanvasAgg(figure)  # the figure draws itself: no window, and no pyplot to share with anyone
    png, vector = stem.with_name(f"{stem.name}.png"), stem.with_name(f"{stem.name}.svg")
    pixels = io.BytesIO()
    figure.savefig(pixels, dpi=130, facecolor="white")
    write_bytes(png, pixels.getvalue())
    write_text(vector, svg(figure))
    return png, vector


def draw_panel(axes: Axes, panel: Panel, styles: dict[str, int]) -> None:
    """The panel on its axes; `styles` remembers which name has which colour."""
    for name, points in panel.series.items():
        i = styles.setdefault(name, len(styles))  # a name keeps its colour from panel to panel
        seen = [point for point in points if math.isfinite(point.y)]
        colour = COLOURS[i % len(COLOURS)]
        every = max(1, len(seen) // 12)
        xs, ys = [p.x for p in seen], [p.y for p in seen]
        axes.plot(
            xs,
            ys,
            label=name,
            color=colour,
            linewidth=1.3 if panel.joined else 0,
            marker=MARKERS[i % len(MARKERS)],
            markersize=4,
            markevery=every,
        )
        banded = [point for point in seen if math.isfinite(point.low) and math.isfinite(point.high)]
        if len(banded) == 1 or not panel.joined:  # a band of one point would not be seen
            for point in banded:
                axes.vlines(point.x, point.low, point.high, color=colour, linewidth=1.0)
        elif banded:
            lows, highs = [p.low for p in banded], [p.high for p in banded]
            axes.fill_between([p.x for p in banded], lows, highs, color=colour, alpha=0.15, linewidth=0)
    for i, (name, level) in enumerate(panel.levels.items()):
        axes.axhline(level, color="#7F7F7F", linestyle=(":", "--")[i % 2], linewidth=1.2, label=name)
    axes.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.y_label)
    axes.title.set_fontsize(9)
    for chosen, scale, axis in (
        (panel.log_x, axes.set_xscale, axes.xaxis),
        (panel.log_y, axes.set_yscale, axes.yaxis),
    ):
        if chosen:
            scale("log")
            axis.set_major_formatter("{x:g}")  # matplotlib's own are formulas, which are drawn as they are written here
            axis.set_minor_formatter("")
            low, high = axis.get_view_interval()
            if high < 100 * low:  # or a single power of ten would be all that is labelled
                axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    if panel.y_range:
        axes.set_ylim(*panel.y_range)
    if panel.whole_x:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if panel.ticks:
        axes.set_xticks(range(1, len(panel.ticks) + 1), panel.ticks, fontsize=8)
    _plain(axes)


def _plain(axes: Axes) -> None:
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
