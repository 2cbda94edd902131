"""The part of an audit's page for those who build the federation. A section without cells is not there."""

import json
from collections.abc import Sequence

from markupsafe import Markup

from fluoroscope.findings import Kind, Shown, Timing
from fluoroscope.findings.metrics import KINDS, LEAKS, metric
from fluoroscope.findings.pointer import pointer
from fluoroscope.report import audit_figures as figures
from fluoroscope.report.embedded import data_uri
from fluoroscope.report.officer import claim
from fluoroscope.report.page import Section, Table
from fluoroscope.report.parts import Folded, Galleries, Gallery, Multiples, Viewer
from fluoroscope.report.rehearsed import rehearsed
from fluoroscope.report.traced import NOTHING, Traced
from fluoroscope.report.view import PLACES, Placed, View, attacked_in_words, differing, leakiest

_LONG = 12
"""Rows that a reader takes in without scrolling far."""
_GALLERIES = "What reconstructions look like"
_GONE = "The images are not here: <code>fluoroscope clean</code> removed them, or the findings came without them."
_STAGES = {"prior": "Prior", "reconstruction": "Reconstruction", "original": "Original"}


def engineer(view: View, with_timing: bool) -> list[Section]:
    """The second part of the page."""
    made = [
        _by_defence(view),
        _reconstruction(view),
        rehearsed(view),
        _galleries(view),
        _attacks(view, "Crafted models", "What a server that changes the model reads out of one update.",
                 "crafted-model"),
        _guard(view),
        _over_rounds(view),
        _attacks(view, "Client inference", "Whether a hospital can tell that another takes part.", "client-inference"),
        _attacks(view, "Membership and source", "Whether the model tells that an image was trained on, and by whom.",
                 "membership", "source"),
        _attacks(view, "Label counts", "How well the server tells from an update how many of a client's images have "
                 "which label.", "label-counts"),
        _attacks(view, "What clients tell", "Numbers that every client sends in the clear beside its update.",
                 "metrics"),
        _tsne(view),
        _every_cell(view),
        _origin(view),
        _seconds(view.audit.timing) if with_timing and view.audit.timing else None,
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
    columns = ["Defence", "Promise", *(["Accuracy"] if utility else [])]
    columns += [f"{KINDS[kind]}: {metric(name).title}" for kind, name in asked]
    rows = []
    for number, label in enumerate(view.defences):
        row: list[object] = [label, claim(view, number)]
        if utility:
            trained = [placed for placed in view.done("federation") if placed[1].defence == label]
            row.append(_best(view, trained, "accuracy"))
        row += [_best(view, [p for p in view.done(kind) if p[1].defence == label], name) for kind, name in asked]
        rows.append(row)
    return Section(
        "Leakage and accuracy by defence",
        " ".join(
            ["Of several clients, rounds and attacks the table shows the leakiest. Brackets hold the 95 % interval."]
            + [f"Reconstruction: {words}" for words in attacked_in_words(c for _, c in view.done("reconstruction"))]
        ),
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
    columns = [*(["Kind"] if with_kind else []), "Defence", *(key.capitalize() for key in keys)]
    columns += ["Measured on"] if attacked else []
    columns += [metric(name).title for name in names] + (["Guessing"] if chance else [])
    rows = []
    for i, cell in cells:
        row: list[object] = [KINDS[cell.kind]] if with_kind else []
        row += [cell.defence, *(view.setting((i, cell), key) for key in keys)]
        row += [cell.attacked or NOTHING] if attacked else []
        row += [view.write.score(i, name, cell.scores.get(name)) for name in names]
        rows.append(row + ([_chance(view, (i, cell))] if chance else []))
    return Table(columns, rows)


def _folded_if_long(table: Table) -> Table | Folded:
    return table if len(table.rows) <= _LONG else Folded("Every attack with its scores", table)


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
    text = "Leak: what a reconstruction gains on its own patients over what it gains on others, both as RDLV, the gain "
    text += "over a public image. A leak of 0 is chance, whatever the RDLV. Told apart: the share of reconstructions "
    text += " ".join(["that are nearest to their own patient.", *attacked_in_words(c for _, c in cells)])
    drawn = [*figures.beside_null(view), *figures.by_round_or_client(view)]
    parts = [*([Multiples(drawn)] if drawn else []), _folded_if_long(_table(view, cells))]
    return Section("Reconstruction by client and round", text, parts)


def _galleries(view: View) -> Section | None:
    cells = [placed for placed in view.done(*KINDS) if placed[1].gallery]
    if not cells:
        return None
    if not (view.audit.folder / "gallery").exists():
        return Section(_GALLERIES, Markup(_GONE), [Galleries([])])
    text = Markup(
        "Move a slider from what the attacker had before (the prior) over the reconstruction to the original image."
    )
    if view.blur:
        text += Markup(
            " These are images of patients: they are blurred in the file itself. Who may see them can write the page "
            "again with <code>--show-images</code>."
        )
    keys = differing(cells) or ["client"]
    galleries = [
        Gallery(
            view.where(placed, keys),
            [_viewer(view, placed[0], number, shown) for number, shown in enumerate(placed[1].gallery)],
        )
        for placed in cells
    ]
    return Section(_GALLERIES, text, [Galleries(galleries)])


def _viewer(view: View, cell: int, number: int, shown: Shown) -> Viewer:
    paths = {"prior": shown.prior, "reconstruction": shown.reconstruction, "original": shown.original}
    stages = {_STAGES[name]: data_uri(view.audit.folder, path, view.blur) for name, path in paths.items() if path}
    at = pointer("cells", cell, "gallery", number, "scores")
    scores = [(metric(name).title, view.write.number(at + pointer(name), metric(name).format)) for name in shown.scores]
    return Viewer(shown.caption, stages, len(stages) - 2, scores)


def _attacks(view: View, title: str, text: str, *kinds: Kind) -> Section | None:
    cells = view.done(*kinds)
    if not cells:
        return None
    drawn = figures.roc(view, *kinds)
    parts = [*([Multiples(drawn)] if drawn else []), _folded_if_long(_table(view, cells, len(kinds) > 1))]
    return Section(title, text, parts)


def _guard(view: View) -> Section | None:
    cells = view.done("guard")
    if not cells:
        return None
    rows = [
        [
            cell.defence,
            cell.settings.get("attack", cell.settings.get("model", NOTHING)),
            verdict.client,
            "refused" if verdict.refused else "accepted",
            "; ".join(verdict.reasons) or NOTHING,
        ]
        for _, cell in cells
        for verdict in cell.verdicts
    ]
    verdicts = [Table(["Defence", "Sent by", "Client", "Verdict", "Reasons"], rows)] if rows else []
    text = "What each client's guard said of the model that it was sent, before training it."
    return Section("The guard's verdicts", text, [_table(view, cells), *verdicts])


def _over_rounds(view: View) -> Section | None:
    drawn = figures.over_rounds(view)
    return Section("Round by round", "", [Multiples(drawn)]) if drawn else None


def _tsne(view: View) -> Section | None:
    drawn = figures.tsne(view)
    text = "Images that an embedder finds alike lie together. Distances between far groups mean little."
    return Section("Where reconstructions lie among the images", text, [Multiples(drawn)]) if drawn else None


def _every_cell(view: View) -> Section:
    rows: list[list[object]] = []
    for i, cell in enumerate(view.audit.findings.cells):
        scores = [Markup("{} {}").format(metric(n).title, view.write.score(i, n, s)) for n, s in cell.scores.items()]
        settings = [Markup("{} = {}").format(key, view.setting((i, cell), key)) for key in cell.settings]
        settings += [Markup("measured on = {}").format(cell.attacked)] if cell.attacked else []
        rows.append(
            [cell.id, KINDS[cell.kind], cell.defence, Markup("; ").join(settings), cell.status,
             Markup("; ").join(scores) or cell.reason]
        )  # fmt: skip
    table = Table(["Cell", "Kind", "Defence", "Settings", "Status", "Scores or reason"], rows)
    return Section("Everything that was tried", "", [Folded("Every cell with its settings and scores", table)])


def _origin(view: View) -> Section:
    findings = view.audit.findings
    clients = [
        [client.name, *(view.write.count("data", "clients", i, key) for key in ("train", "validation", "batch_size"))]
        for i, client in enumerate(findings.data.clients)
    ]
    return Section(
        "Where this comes from",
        f"Data: {findings.data.name}. Licence: {findings.data.licence}. Classes: {', '.join(findings.data.classes)}.",
        [
            Table(["Client", "Training images", "Validation images", "Batch size"], clients),
            Folded("The plan", verbatim=_pretty(findings.plan)),
            Folded("The defences", verbatim=_pretty(view.audit.document["defences"])),
            Folded("Versions", Table(["Package", "Version"], [list(item) for item in findings.versions.items()])),
        ],
    )


def _seconds(timing: Timing) -> Section:
    write = Traced(timing.model_dump(), "data-timing")
    rows: list[list[object]] = [[name, write.number(pointer("seconds", name), ".1f")] for name in timing.seconds]
    total: list[list[object]] = [["Seconds in all", write.number("/total", ".1f")]]
    if timing.budget_minutes is not None:
        total.append(["Budget in minutes", write.number("/budget_minutes", "g")])
    cells = Folded("Seconds by cell", Table(["Cell", "Seconds"], rows))
    return Section("How long it took", f"Measured on {timing.machine}.", [Table(["Time", ""], total), cells])


def _pretty(content: object) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False)
