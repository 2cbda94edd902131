"""The part of an audit's page for those who build the federation. A section without cells is not there."""

import json
from collections.abc import Sequence

from markupsafe import Markup

from fluoroscope.findings import Kind, Shown, Timing
from fluoroscope.findings.metrics import KINDS, LEAKS, metric
from fluoroscope.findings.pointer import pointer
from fluoroscope.report import audit_figures as figures
from fluoroscope.report.embedded import data_uri
from fluoroscope.report.grades import gained
from fluoroscope.report.officer import claim
from fluoroscope.report.page import Section, Table
from fluoroscope.report.parts import Folded, Galleries, Gallery, Multiples, Viewer
from fluoroscope.report.rehearsed import rehearsed
from fluoroscope.report.traced import NOTHING, Traced
from fluoroscope.report.view import PLACES, Placed, View, attacked_in_words, differing, leakiest

_LONG = 12
"""Rows that a reader takes in without scrolling far."""
_BOOK = 100
"""Rows that nobody reads twice: all cells stand in one table at the end."""
_SHOWN = 3
"""Patients of a cell whose pictures are shown where there are many cells."""
_STAGES = ("prior", "reconstruction", "original")


def engineer(view: View, with_timing: bool) -> list[Section]:
    """The second part of the page."""
    made = [
        _by_defence(view),
        _reconstruction(view),
        rehearsed(view),
        _galleries(view),
        _attacks(view, "crafted", "crafted-model"),
        _guard(view),
        _over_rounds(view),
        _attacks(view, "participation", "client-inference"),
        _attacks(view, "membership", "membership", "source"),
        _attacks(view, "labels", "label-counts"),
        _attacks(view, "metrics", "metrics"),
        _tsne(view),
        _every_cell(view),
        _origin(view),
        _seconds(view, view.audit.timing) if with_timing and view.audit.timing else None,
    ]  # fmt: skip
    return [section for section in made if section is not None]


def scores_meant(view: View) -> list[tuple[str, str]]:
    """The names of the scores on this page, and what they mean."""
    used = dict.fromkeys(metric(name, cell.kind) for cell in view.audit.findings.cells for name in cell.scores)
    return list(dict.fromkeys((each.title, each.meaning) for each in used if each.meaning))


def _by_defence(view: View) -> Section | None:
    asked: list[tuple[Kind, str]] = [(kind, name) for kind, names in LEAKS.items() for name in names]
    asked = [(kind, name) for kind, name in asked if leakiest(view.done(kind), name)]
    utility = leakiest(view.done("federation"), "accuracy")
    if not asked and not utility:
        return None
    words = view.words
    columns = [words.plain("column.defence"), words.plain("column.promise")]
    columns += [metric("accuracy", "federation").title] if utility else []
    columns += [f"{KINDS[kind]}: {metric(name).title}" for kind, name in asked]
    rows = []
    for number, label in enumerate(view.defences):
        row: list[object] = [label, claim(view, number)]
        if utility:
            trained = [placed for placed in view.done("federation") if placed[1].defence == label]
            row.append(_best(view, trained, "accuracy"))
        row += [_best(view, [p for p in view.done(kind) if p[1].defence == label], name) for kind, name in asked]
        rows.append(row)
    on = attacked_in_words(c for _, c in view.done("reconstruction"))
    return Section(
        words.plain("section.defences"),
        " ".join([words.plain("section.defences_words"), *(f"{KINDS['reconstruction']}: {each}" for each in on)]),
        [Table(columns, rows), Multiples(figures.by_defence(view))],
    )


def _best(view: View, cells: Sequence[Placed], name: str) -> Markup:
    found = leakiest(cells, name)
    if found is None:
        return Markup(NOTHING)
    cell = view.audit.findings.cells[found[0]]
    attacked = Markup(" <small>({})</small>").format(cell.attacked) if cell.attacked else Markup("")
    return view.write.score(found[0], name, found[1]) + attacked


def _table(view: View, cells: Sequence[Placed], with_kind: bool = False) -> Table:
    """The cells with the settings that tell them apart, and all of their scores."""
    places = [key for key in PLACES if any(key in cell.settings for _, cell in cells)]
    keys = [*places, *(key for key in differing(cells) if key not in places)]
    names = list(dict.fromkeys(name for _, cell in cells for name in cell.scores))
    chance = any(score.chance is not None for _, cell in cells for score in cell.scores.values())
    attacked = any(cell.attacked for _, cell in cells)
    said = view.words.plain
    columns = [*([said("column.kind")] if with_kind else []), said("column.defence")]
    columns += [*(key.capitalize() for key in keys), *([said("column.attacked")] if attacked else [])]
    columns += [metric(name).title for name in names] + ([said("column.guessing")] if chance else [])
    rows = []
    for i, cell in cells:
        row: list[object] = [KINDS[cell.kind]] if with_kind else []
        row += [cell.defence, *(view.setting((i, cell), key) for key in keys)]
        row += [cell.attacked or NOTHING] if attacked else []
        row += [view.write.score(i, name, cell.scores.get(name)) for name in names]
        rows.append(row + ([_chance(view, (i, cell))] if chance else []))
    return Table(columns, rows)


def _unless_long(view: View, cells: Sequence[Placed], with_kind: bool = False) -> list[object]:
    """The table; folded where it is long, and left to the one of every cell where it would be a second book."""
    if len(cells) > _BOOK:
        return []
    table = _table(view, cells, with_kind)
    return [table if len(cells) <= _LONG else Folded(view.words.plain("section.every_attack"), table)]


def _chance(view: View, placed: Placed) -> Markup:
    i, cell = placed
    names = [name for name, score in cell.scores.items() if score.chance is not None]
    written = [view.write.number(pointer("cells", i, "scores", name, "chance"), ".3g") for name in names]
    return Markup(", ").join(
        Markup("{} {}").format(metric(name).title, number) if len(names) > 1 else number
        for name, number in zip(names, written, strict=True)
    )


def _reconstruction(view: View) -> Section | None:
    cells = view.done("reconstruction")
    if not cells:
        return None
    said = view.words.plain
    text = " ".join([said("section.reconstruction_words"), *attacked_in_words(c for _, c in cells)])
    drawn = [*figures.beside_null(view), *figures.by_round_or_client(view)]
    parts = [*([Multiples(drawn)] if drawn else []), *_unless_long(view, cells)]
    return Section(said("section.reconstruction"), text, parts)


def _galleries(view: View) -> Section | None:
    cells = [placed for placed in view.done(*KINDS) if placed[1].gallery]
    if not cells:
        return None
    if not view.has_images:
        return Section(view.words.plain("section.galleries"), view.words.say("section.galleries_gone"), [Galleries([])])
    text = view.words.say("section.galleries_words")
    if view.blur:
        text += Markup(" ") + view.words.say("section.galleries_blurred")
    keys = differing(cells) or ["client"]
    shown = cells if len(cells) <= _LONG else _leakiest_shown(view, cells)
    if shown != cells:
        text += Markup(" ") + view.words.say("section.galleries_chosen", all=len(cells))
    most = None if shown == cells else _SHOWN
    galleries = [
        Gallery(
            view.where(placed, keys),
            [_viewer(view, placed[0], number, each) for number, each in enumerate(placed[1].gallery[:most])],
        )
        for placed in shown
    ]
    return Section(view.words.plain("section.galleries"), text, [Galleries(galleries)])


def _leakiest_shown(view: View, cells: Sequence[Placed]) -> list[Placed]:
    """Of each kind under each setting the cell that got most: a page must stay small enough to be sent."""
    best: dict[tuple[str, str], Placed] = {}
    for placed in cells:
        key = (placed[1].kind, placed[1].defence)
        if key not in best or (gained(placed[1]) or 0.0) > (gained(best[key][1]) or 0.0):
            best[key] = placed
    return list(best.values())


def _viewer(view: View, cell: int, number: int, shown: Shown) -> Viewer:
    paths = dict(zip(_STAGES, (shown.prior, shown.reconstruction, shown.original), strict=True))
    shown_as = {name: data_uri(view.audit.folder, path, view.blur) for name, path in paths.items() if path}
    stages = {view.words.plain(f"viewer.{name}"): image for name, image in shown_as.items()}
    at = pointer("cells", cell, "gallery", number, "scores")
    scores = [(metric(name).title, view.write.number(at + pointer(name), metric(name).format)) for name in shown.scores]
    return Viewer(shown.caption, stages, len(stages) - 2, scores)


def _attacks(view: View, key: str, *kinds: Kind) -> Section | None:
    cells = view.done(*kinds)
    if not cells:
        return None
    drawn = figures.roc(view, *kinds)
    parts = [*([Multiples(drawn)] if drawn else []), *_unless_long(view, cells, len(kinds) > 1)]
    return Section(view.words.plain(f"section.{key}"), view.words.plain(f"section.{key}_words"), parts)


def _guard(view: View) -> Section | None:
    cells = view.done("guard")
    if not cells:
        return None
    said = view.words.plain
    rows = [
        [
            cell.defence,
            cell.settings.get("attack", cell.settings.get("model", NOTHING)),
            verdict.client,
            said("guarded.refused" if verdict.refused else "guarded.accepted"),
            "; ".join(verdict.reasons) or NOTHING,
        ]
        for _, cell in cells
        for verdict in cell.verdicts
    ]
    columns = [said(f"column.{key}") for key in ("defence", "sent_by", "client", "verdict", "reasons")]
    verdicts = [Table(columns, rows)] if rows else []
    return Section(said("section.guard"), said("section.guard_words"), [_table(view, cells), *verdicts])


def _over_rounds(view: View) -> Section | None:
    drawn = figures.over_rounds(view)
    return Section(view.words.plain("section.rounds"), "", [Multiples(drawn)]) if drawn else None


def _tsne(view: View) -> Section | None:
    drawn = figures.tsne(view)
    said = view.words.plain
    return Section(said("section.tsne"), said("section.tsne_words"), [Multiples(drawn)]) if drawn else None


def _every_cell(view: View) -> Section:
    said = view.words.plain
    rows: list[list[object]] = []
    for i, cell in enumerate(view.audit.findings.cells):
        scores = [Markup("{} {}").format(metric(n).title, view.write.score(i, n, s)) for n, s in cell.scores.items()]
        settings = [Markup("{} = {}").format(key, view.setting((i, cell), key)) for key in cell.settings]
        settings += [Markup("{} = {}").format(said("column.attacked").lower(), cell.attacked)] if cell.attacked else []
        rows.append(
            [cell.id, KINDS[cell.kind], cell.defence, Markup("; ").join(settings), cell.status,
             Markup("; ").join(scores) or cell.reason]
        )  # fmt: skip
    columns = [said(f"column.{key}") for key in ("cell", "kind", "defence", "settings", "status", "scores_or_reason")]
    return Section(said("section.cells"), "", [Folded(said("section.every_cell"), Table(columns, rows))])


def _origin(view: View) -> Section:
    findings = view.audit.findings
    clients = [
        [client.name, *(view.write.count("data", "clients", i, key) for key in ("train", "validation", "batch_size"))]
        for i, client in enumerate(findings.data.clients)
    ]
    said, data = view.words.plain, findings.data
    held = [said(f"column.{key}") for key in ("client", "train", "validation", "batch_size")]
    versions = Table(
        [said("column.package"), said("column.version")], [list(each) for each in findings.versions.items()]
    )
    return Section(
        said("section.origin"),
        said("section.origin_words", name=data.name, licence=data.licence, classes=", ".join(data.classes)),
        [
            Table(held, clients),
            Folded(said("section.plan"), verbatim=_pretty(findings.plan)),
            Folded(said("section.parts"), verbatim=_pretty(view.audit.document["defences"])),
            Folded(said("section.versions"), versions),
        ],
    )


def _seconds(view: View, timing: Timing) -> Section:
    said = view.words.plain
    write = Traced(timing.model_dump(), "data-timing")
    rows: list[list[object]] = [[name, write.number(pointer("seconds", name), ".1f")] for name in timing.seconds]
    total: list[list[object]] = [[said("section.seconds"), write.number("/total", ".1f")]]
    if timing.budget_minutes is not None:
        total.append([said("section.budget"), write.number("/budget_minutes", "g")])
    cells = Folded(said("section.seconds_by_cell"), Table([said("column.cell"), said("column.seconds")], rows))
    text = said("section.timing_words", machine=timing.machine)
    return Section(said("section.timing"), text, [Table([said("column.time"), said("column.value")], total), cells])


def _pretty(content: object) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False)
