"""How the attacks were chosen: for the engineer, all that there are, with what the rehearsal said of them."""

from markupsafe import Markup

from fluoroscope.findings import Cell, RehearsedAttack, Score
from fluoroscope.findings.pointer import pointer
from fluoroscope.report.page import Section, Table
from fluoroscope.report.parts import Folded
from fluoroscope.report.traced import NOTHING
from fluoroscope.report.view import PLACES, View

_COLUMNS = ("attack", "rehearsed_leak", "rehearsed_told_apart", "p_value", "played", "played_leak", "remark")


def rehearsed(view: View) -> Section | None:
    """A table for each cell whose attack was chosen by rehearsal; a cell without a result too, as it says why."""
    cells = [(i, cell) for i, cell in enumerate(view.audit.findings.cells) if cell.rehearsed]
    if not cells:
        return None
    parts = [Folded(str(view.where((i, cell), PLACES).striptags()), _table(view, i, cell)) for i, cell in cells]
    return Section(view.words.plain("section.rehearsed"), view.words.plain("section.rehearsed_words"), parts)


def _table(view: View, number: int, cell: Cell) -> Table:
    columns = [view.words.plain(f"column.{key}") for key in _COLUMNS]
    return Table(columns, [_row(view, number, row, each) for row, each in enumerate(cell.rehearsed)])


def _row(view: View, cell: int, row: int, each: RehearsedAttack) -> list[object]:
    def score(name: str, found: Score | None) -> Markup:
        if found is None:
            return Markup(NOTHING)
        at = pointer("cells", cell, "rehearsed", row, name)
        value = view.write.number(f"{at}/value", ".3f")
        if found.low is None or found.high is None:
            return value
        ends = (view.write.number(f"{at}/{end}", ".3f") for end in ("low", "high"))
        return value + Markup(' <small class="interval">[{}, {}]</small>').format(*ends)

    p_value = pointer("cells", cell, "rehearsed", row, "p_value")
    return [
        each.attack,
        score("leak", each.leak),
        score("told_apart", each.told_apart),
        Markup(NOTHING) if each.p_value is None else view.write.number(p_value, ".3f"),
        each.role or NOTHING,
        score("played", each.played),
        each.reason or "",
    ]
