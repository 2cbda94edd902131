"""The small figures of an audit's page, made from its findings."""

from collections.abc import Sequence

from fluoroscope.findings import Cell, Curve, Kind
from fluoroscope.findings.metrics import KINDS, LEAKS, metric
from fluoroscope.report.figures import COLOURS, Panel, Point
from fluoroscope.report.page import Picture
from fluoroscope.report.small_multiples import Dot, Dots, cloud, curves, dots
from fluoroscope.report.view import Placed, View, differing, leakiest, named

_ROC, _TSNE = "roc", "tsne"
_ZERO = ("rdlv", "leak")
"""Scores of which 0 has a meaning of its own."""


def by_defence(view: View) -> list[Picture]:
    """One panel a score: what leaks under each defence, and the accuracy beside it."""
    asked: list[tuple[Kind, str]] = [(kind, name) for kind, names in LEAKS.items() for name in names]
    drawn = []
    for kind, name in [("federation", "accuracy"), *asked]:
        cells = _scored(view.done(kind), name)
        if not cells:
            continue
        keys = differing(cells, ("attack", "client"))
        if len({named(cell, keys) for _, cell in cells}) > len(COLOURS):
            keys = []
        series: dict[str, list[Dot]] = {}
        for _, cell in cells:
            series.setdefault(named(cell, keys), []).append(_dot(cell.defence, cell, name))
        present = [label for label in view.defences if any(cell.defence == label for _, cell in cells)]
        title = f"{KINDS[kind]}: {metric(name).title}"
        drawn.append(
            Picture(
                dots(Dots(title, metric(name).title, present, series, _levels(view, cells, name))),
                view.words.plain("figure.by_defence", title=title),
            )
        )
    return drawn


def beside_null(view: View) -> list[Picture]:
    """RDLV against the own patients and against others, of the leakiest reconstruction under each setting."""
    cells = [placed for placed in _scored(view.done("reconstruction"), "leak") if _scored([placed], "null")]
    own, other = (view.words.plain(f"figure.{key}") for key in ("own", "other"))
    series: dict[str, list[Dot]] = {own: [], other: []}
    for label in view.defences:
        worst = leakiest([placed for placed in cells if placed[1].defence == label], "leak")
        if worst is not None:
            cell = view.audit.findings.cells[worst[0]]
            series[own].append(_dot(label, cell, "rdlv"))
            series[other].append(_dot(label, cell, "null"))
    present = [dot.category for dot in series[own]]
    if not present:
        return []
    title, of = view.words.plain("figure.beside_null"), metric("rdlv").title
    drawn = dots(Dots(title, of, present, series, _levels(view, cells, "rdlv")))
    return [Picture(drawn, view.words.plain("figure.beside_null_alt"))]


def by_round_or_client(view: View) -> list[Picture]:
    """The leak over the rounds, a line per client; of one round, by client. RDLV where findings know no null."""
    name = "leak" if _scored(view.done("reconstruction"), "leak") else "rdlv"
    cells, title = _scored(view.done("reconstruction"), name), metric(name).title
    said, keys = view.words.plain, differing(cells)
    others = [key for key in keys if key != "round"]
    if "round" in keys:
        drawn = []
        for label in view.defences:
            series: dict[str, list[Point]] = {}
            for _, cell in cells:
                at = cell.settings.get("round")
                if cell.defence == label and isinstance(at, int | float):
                    series.setdefault(named(cell, others) or title, []).append(_point(float(at), cell, name))
            ordered = {each: sorted(points, key=lambda point: point.x) for each, points in series.items()}
            if ordered:
                panel = Panel(
                    said("figure.defence", label=label),
                    said("figure.round"),
                    title,
                    ordered,
                    _levels(view, cells, name),
                )
                drawn.append(Picture(curves(panel), said("figure.by_round", title=title, label=label)))
        return drawn
    if "client" not in keys:
        return []
    by_client: dict[str, list[Dot]] = {}
    for _, cell in cells:
        by_client.setdefault(cell.defence, []).append(_dot(str(cell.settings.get("client")), cell, name))
    clients = list(dict.fromkeys(str(cell.settings.get("client")) for _, cell in cells))
    drawn_by = dots(Dots(said("figure.by_client", title=title), title, clients, by_client, _levels(view, cells, name)))
    return [Picture(drawn_by, said("figure.by_client_alt", title=title))]


def over_rounds(view: View) -> list[Picture]:
    """Accuracy, epsilon, distance and whatever else was followed, a line a defence."""
    drawn = []
    kinds: Sequence[Kind] = tuple(KINDS)
    for kind in kinds:
        cells = view.done(kind)
        names = dict.fromkeys(name for _, cell in cells for name in cell.curves)
        for name in (name for name in names if not name.startswith((_ROC, _TSNE))):
            drawn += _lines(view, [placed for placed in cells if name in placed[1].curves], name, kind)
    return drawn


def roc(view: View, *kinds: Kind) -> list[Picture]:
    """Receiver operating characteristics with the line of guessing."""
    drawn = []
    for kind in kinds:
        cells = view.done(kind)
        for name in dict.fromkeys(name for _, cell in cells for name in cell.curves if name.startswith(_ROC)):
            drawn += _lines(view, [placed for placed in cells if name in placed[1].curves], name, kind)
    return drawn


def tsne(view: View) -> list[Picture]:
    """Where reconstructions lie among the images, for each cell that has it."""
    drawn = []
    for _, cell in view.done(*KINDS):
        groups = {
            name.removeprefix(_TSNE).strip() or view.words.plain("figure.points"): [
                (x, y) for x, y in zip(curve.x, curve.y, strict=True) if x is not None and y is not None
            ]
            for name, curve in cell.curves.items()
            if name.startswith(_TSNE)
        }
        if groups:
            title = ", ".join(filter(None, [cell.defence, named(cell, ("attack", "client", "round"))]))
            drawn.append(
                Picture(cloud(title, groups), view.words.plain("figure.tsne", title=title, groups=", ".join(groups)))
            )
    return drawn


def _lines(view: View, cells: Sequence[Placed], name: str, kind: Kind) -> list[Picture]:
    """One panel for all cells if they differ by their defence alone; else one a defence."""
    keys = differing(cells)
    groups: dict[str, list[Placed]] = {}
    for placed in cells:
        groups.setdefault(placed[1].defence if keys else "", []).append(placed)
    drawn = []
    for label, group in groups.items():
        series: dict[str, list[Point]] = {}
        for _, cell in group:
            called = named(cell, keys) if label else cell.defence
            series[called if called and called not in series else cell.id] = _points(cell.curves[name])
        first = group[0][1].curves[name]
        of = "ROC" if name == _ROC else metric(name).title
        panel = Panel(f"{KINDS[kind]}: {label or of}", first.x_label, first.y_label, series)
        guessing = view.words.plain("figure.guessing") if name.startswith(_ROC) else None
        picture = curves(panel, guessing, () if label else view.defences)
        alt = view.words.plain("figure.lines", title=panel.title, of=of, series=", ".join(series))
        drawn.append(Picture(picture, alt))
    return drawn


def _scored(cells: Sequence[Placed], name: str) -> list[Placed]:
    return [placed for placed in cells if name in placed[1].scores and placed[1].scores[name].value is not None]


def _dot(category: str, cell: Cell, name: str) -> Dot:
    score = cell.scores[name]
    return Dot(category, score.value or 0.0, score.low, score.high)


def _point(x: float, cell: Cell, name: str) -> Point:
    score = cell.scores[name]
    return Point(x, *(float("nan") if end is None else end for end in (score.value, score.low, score.high)))


def _points(curve: Curve) -> list[Point]:
    nothing = float("nan")
    lows, highs = (ends or (None,) * len(curve.x) for ends in (curve.low, curve.high))
    return [
        Point(x, *(nothing if value is None else value for value in (y, low, high)))
        for x, y, low, high in zip(curve.x, curve.y, lows, highs, strict=True)
        if x is not None
    ]


def _levels(view: View, cells: Sequence[Placed], name: str) -> dict[str, float]:
    if name in _ZERO:
        return {view.words.plain(f"figure.zero.{name}"): 0.0}
    chances = {cell.scores[name].chance for _, cell in cells}
    chance = chances.pop()
    return {} if chances or chance is None else {view.words.plain("figure.guessing"): chance}
