"""Small figures that stand in a grid and change colour with the page: one question each, intervals always drawn."""

import math
import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from textwrap import fill

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from fluoroscope.report.figures import COLOURS, MARKERS, Panel, draw_panel, svg

_INK = "#1b1f23"
"""Stands for the colour of the page's text, which the reader's light or dark setting decides."""
_THEME = {_INK: "currentColor", **{colour.lower(): f"var(--c{i},{colour})" for i, colour in enumerate(COLOURS)}}
_WIDTH = 3.7
_TITLE, _NAME, _ENTRY = 34, 20, 25
"""Letters in a line of a title, of a category's name and of a column of the legend."""


@dataclass(frozen=True)
class Dot:
    """A value on the line of its category, with the ends of its interval."""

    category: str
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Dots:
    """Values by category; each series has its colour and marker, and a place in the legend if it has a name.

    `levels` are dotted lines to compare with.
    """

    title: str
    label: str
    categories: Sequence[str]
    series: Mapping[str, Sequence[Dot]]
    levels: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class _Legend:
    """Names below a figure: in two columns, or in one if they are long."""

    names: Sequence[str]

    @property
    def columns(self) -> int:
        return 2 if max(map(len, self.names), default=0) <= _ENTRY else 1

    @property
    def height(self) -> float:
        """In inches."""
        return 0.21 * math.ceil(sum(fill(name, _TITLE + 6).count("\n") + 1 for name in self.names) / self.columns)

    def draw(self, figure: Figure, axes: Axes) -> None:
        handles, labels = axes.get_legend_handles_labels()
        if labels:
            wrapped = [fill(label, _TITLE + 6) for label in labels]
            figure.legend(handles, wrapped, loc="outside lower center", ncols=self.columns, fontsize=8, frameon=False)


def dots(drawn: Dots) -> str:
    """Categories from top to bottom, so that their names can be read."""
    legend = _Legend([*filter(None, drawn.series), *drawn.levels])
    with _style():
        lines = max(
            sum(dot.category == name for dots in drawn.series.values() for dot in dots) for name in drawn.categories
        )
        names = [fill(name, _NAME) for name in drawn.categories]
        row = max(0.42, 0.09 * lines, 0.17 + 0.14 * max(name.count("\n") for name in names))
        height = 1.15 + len(drawn.categories) * row + legend.height
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        axes = figure.subplots()
        taken: Counter[str] = Counter()
        for i, (name, points) in enumerate(drawn.series.items()):
            colour = COLOURS[i % len(COLOURS)]
            places = []
            for dot in points:  # each on a line of its own: intervals that lie on one another cannot be read
                places.append(drawn.categories.index(dot.category) + _line(taken[dot.category], lines))
                taken[dot.category] += 1
            for place, dot in zip(places, points, strict=True):
                if dot.low is not None and dot.high is not None:
                    axes.hlines(place, dot.low, dot.high, color=colour, linewidth=2.0, alpha=0.55)
            axes.plot(
                [dot.value for dot in points],
                places,
                linestyle="none",
                marker=MARKERS[i % len(MARKERS)],
                markersize=4.8,
                color=colour,
                label=name or "_unnamed",
            )
        for i, (name, level) in enumerate(drawn.levels.items()):
            axes.axvline(level, color=_INK, linestyle=(":", "--")[i % 2], linewidth=1.2, label=name)
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(drawn.categories) - 0.5, -0.5)
        axes.set_xlabel(drawn.label)
        _title(axes, drawn.title)
        axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        axes.grid(axis="x", alpha=0.3)
        axes.tick_params(axis="y", length=0)
        axes.spines[["top", "right", "left"]].set_visible(False)
        legend.draw(figure, axes)
        return _themed(figure)


def curves(panel: Panel, diagonal: str | None = None, order: Sequence[str] = ()) -> str:
    """One panel of lines with their bands; `diagonal` names the line from corner to corner.

    Names keep the colour of their place in `order` from panel to panel.
    """
    legend = _Legend([*panel.series, *panel.levels, *filter(None, [diagonal])])
    with _style():
        figure = Figure(figsize=(_WIDTH, (3.4 if diagonal else 2.4) + legend.height), layout="constrained")
        axes = figure.subplots()
        draw_panel(axes, replace(panel, title=""), {name: i for i, name in enumerate(order)})
        if diagonal:
            axes.plot([0, 1], [0, 1], color=_INK, linestyle=":", linewidth=1.2, label=diagonal)
            axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
        _title(axes, panel.title)
        legend.draw(figure, axes)
        return _themed(figure)


def cloud(title: str, groups: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Points on a plane without a scale (t-SNE)."""
    legend = _Legend(list(groups))
    with _style():
        figure = Figure(figsize=(_WIDTH, 3.3 + legend.height), layout="constrained")
        axes = figure.subplots()
        for i, (name, points) in enumerate(groups.items()):
            x, y = np.asarray(points, dtype=np.float64).reshape(-1, 2).T
            colour, marker = COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]
            axes.plot(x, y, linestyle="none", marker=marker, color=colour, markersize=4.5, alpha=0.75, label=name)
        axes.set(xticks=[], yticks=[], xlabel="t-SNE 1 (no unit)", ylabel="t-SNE 2 (no unit)")
        _title(axes, title)
        legend.draw(figure, axes)
        return _themed(figure)


def _style() -> AbstractContextManager[None]:
    return mpl.rc_context(
        {
            "text.color": _INK,
            "axes.labelcolor": _INK,
            "axes.edgecolor": _INK,
            "xtick.color": _INK,
            "ytick.color": _INK,
            "axes.facecolor": "none",
            "text.parse_math": False,  # a label is what somebody called a thing, $ and all
            "font.size": 9,
            "axes.labelsize": 9,
            "xtick.labelsize": 8.5,
            "ytick.labelsize": 8.5,
        }
    )


def _line(number: int, lines: int) -> float:
    """Where the line of this number lies around its category."""
    return 0.0 if lines == 1 else min(0.64, 0.25 * (lines - 1)) * (number / (lines - 1) - 0.5)


def _title(axes: Axes, text: str) -> None:
    axes.set_title(fill(text, _TITLE), fontsize=10, loc="left", fontweight="bold")


def _themed(figure: Figure) -> str:
    """The drawing in the page's colours, without what has no use in a page: metadata, names that nothing refers to."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # the browser has fonts for names that this one lacks
        drawn = svg(figure)
    text = re.sub("<metadata>.*?</metadata>", "", drawn, flags=re.DOTALL)
    used = set(re.findall(r"#([\w.]+)", text))
    text = re.sub(r' id="([\w.]+)"', lambda found: found.group() if found.group(1) in used else "", text)
    return re.sub("|".join(_THEME), lambda found: _THEME[found.group()], text)
