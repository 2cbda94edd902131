"""Figures as inline SVG: labelled, colour-blind safe, readable in print."""

import io
from collections.abc import Mapping, Sequence

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator

# Okabe and Ito's palette and three more, told apart by people with any kind of colour vision; black is for means.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D1F", "#7F7F7F", "#5E3C99")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")

Series = Mapping[str, Sequence[tuple[float, float]]]
"""Points (x, y) by the name of their line."""


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
