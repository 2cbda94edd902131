"""What the page of one run says, by its kind: facts, tables, a curve, pictures, and files to open."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from fluoroscope import strict_json
from fluoroscope.errors import FluoroscopeError
from fluoroscope.report.traced import plain
from fluoroscope.web.federation_files import read_federation
from fluoroscope.web.guarded_files import Root
from fluoroscope.web.runs import Run
from fluoroscope.web.standing import Standing, read_audit

_MOST_ROWS = 300
_MOST_SMALL = 8 * 2**20
"""Bytes of a file that a page shows parts of."""

FILES: dict[str, dict[str, str]] = {
    "audit": {
        "report.html": "The report",
        "report.pdf": "The report as PDF",
        "findings.json": "Findings as data",
        "timing.json": "Times as data",
    },
    "federation": {"index.html": "The page of the federation", "summary.json": "Its summary as data"},
    "calibration": {"calibration.png": "The figure", "calibration.json": "All settings as data"},
    "study": {
        "figure.png": "The figure",
        "figure.svg": "The figure as SVG",
        "table.md": "The table",
        "findings.json": "Rows as data",
    },
}
"""By kind, the files that can be opened: no other name leads anywhere."""


class Verdict(NamedTuple):
    """A sentence of an audit, with its level."""

    title: str
    level: str
    text: str


@dataclass(frozen=True)
class Table:
    """Rows under their headings."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Detail:
    """The parts of a run's page."""

    verdicts: tuple[Verdict, ...] = ()
    advice: str = ""
    tables: tuple[Table, ...] = ()
    curve: str = ""
    """Points of a polyline in a box of 600 x 120."""
    curve_words: str = ""
    pictures: tuple[str, ...] = ()
    text: str = ""


def detail(root: Root, run: Run, standing: Standing) -> Detail:
    """What there is to say of the run beside how it stands; nothing of what is broken."""
    if standing.state == "broken":
        return Detail()
    try:
        return _KINDS[run.kind](root, run)
    except (FluoroscopeError, OSError, ValueError, KeyError, TypeError, AttributeError):
        return Detail()  # files may come and go while a run works on them


def files_of(root: Root, run: Run) -> dict[str, str]:
    """The files that are there to be opened, with what each is."""
    return {name: words for name, words in FILES[run.kind].items() if root.has(run.folder / name)}


def _audit(root: Root, run: Run) -> Detail:
    found = read_audit(root, run)
    cells = _finished_cells(root, run.folder)
    if found is None:
        return Detail(tables=(Table("Finished so far", ("what", "seconds"), cells),) if cells else ())
    document, findings = found.document, found.findings
    titles = {threat.name: threat.title for threat in findings.threats}
    verdicts = tuple(
        Verdict(titles.get(each.threat, each.threat), each.level, plain(document, each.text))
        for each in findings.verdicts
    )
    seconds = found.timing.seconds if found.timing else {}
    rows = tuple(
        (cell.id, cell.status, f"{seconds[cell.id]:.1f}" if cell.id in seconds else "–", cell.reason or "")
        for cell in findings.cells[:_MOST_ROWS]
    )
    table = Table("What was tried", ("cell", "status", "seconds", "why not"), rows)
    return Detail(verdicts, plain(document, findings.recommendation.text), (table,))


_CELLS: dict[tuple[Path, int], tuple[str, str]] = {}
"""A finished cell never changes, so its file is read once."""


def _finished_cells(root: Root, folder: Path) -> tuple[tuple[str, ...], ...]:
    """What a run has finished, the latest first."""
    paths = [(path.stat().st_mtime_ns, path) for path in folder.glob("cells/*.json") if root.has(path)]
    rows = []
    for changed, path in sorted(paths, reverse=True)[:_MOST_ROWS]:
        if (path, changed) not in _CELLS:
            if len(_CELLS) > 50_000:
                _CELLS.clear()
            read = strict_json.loads(root.read(path, _MOST_SMALL))
            words = ", ".join(f"{key} {value}" for key, value in read["settings"].items() if value is not None)
            _CELLS[path, changed] = (str(read.get("title") or words or "a cell")[:200], f"{float(read['seconds']):.1f}")
        rows.append(_CELLS[path, changed])
    return tuple(rows)


def _federation(root: Root, run: Run) -> Detail:
    found = read_federation(root, run.folder)
    rows = tuple(
        (str(each.number), str(each.clients), _number(each.loss), _number(each.accuracy), _number(each.seconds, 1))
        for each in reversed(found.rounds[-_MOST_ROWS:])
        if each.number
    )
    table = Table(
        "Rounds, the last first", ("round", "clients", "training loss", "validation accuracy", "seconds"), rows
    )
    scored = [(each.number, each.accuracy) for each in found.rounds if each.accuracy is not None]
    if len(scored) < 2:
        return Detail(tables=(table,))
    last = max(found.planned, scored[-1][0])
    points = " ".join(f"{600 * number / last:.1f},{120 * (1 - accuracy):.1f}" for number, accuracy in scored)
    words = (
        f"Validation accuracy from round {scored[0][0]} ({scored[0][1]:.2f}) to {scored[-1][0]} ({scored[-1][1]:.2f})"
    )
    return Detail(tables=(table,), curve=points, curve_words=words)


def _calibration(root: Root, run: Run) -> Detail:
    path = run.folder / "calibration.json"
    if not root.has(path):
        tried = len(list(run.folder.glob("tried/*.json")))
        return Detail(advice=f"{tried} settings were tried so far." if tried else "")
    read = strict_json.loads(root.read(path, _MOST_SMALL))
    tables = []
    for each in read.get("defences", []):
        points = [_flat(point) for point in each.get("tried", [])]
        columns = tuple(dict.fromkeys(key for point in points for key in point))
        rows = tuple(tuple(_cell(point.get(key)) for key in columns) for point in points[:_MOST_ROWS])
        tables.append(Table(f"{each.get('defence', 'settings')}: what was tried", columns, rows))
    leaks = (
        "Without the defence something leaks." if read.get("leaks_without") else "Nothing leaks without the defence."
    )
    pictures = ("calibration.png",) if root.has(run.folder / "calibration.png") else ()
    return Detail(advice=f"Target: {read.get('target')}. {leaks}", tables=tuple(tables), pictures=pictures)


def _study(root: Root, run: Run) -> Detail:
    pictures = ("figure.png",) if root.has(run.folder / "figure.png") else ()
    table = run.folder / "table.md"
    text = root.read(table, _MOST_SMALL).decode("utf-8", "replace") if root.has(table) else ""
    return Detail(pictures=pictures, text=text)


def _flat(point: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in point.items() if not isinstance(value, dict | list)}


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "–" if value is None else str(value)[:200]


def _number(value: float | None, digits: int = 3) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


_KINDS: dict[str, Callable[[Root, Run], Detail]] = {
    "audit": _audit,
    "federation": _federation,
    "calibration": _calibration,
    "study": _study,
}
