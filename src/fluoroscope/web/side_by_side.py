"""Two audits on one page: the scores that changed, what only one tried, and their pictures beside each other."""

from dataclasses import dataclass
from typing import Any

from fluoroscope.errors import FluoroscopeError
from fluoroscope.findings import Audit, Cell, Shown
from fluoroscope.findings.metrics import metric
from fluoroscope.report.comparison import Change, Side, compare, described, in_both
from fluoroscope.report.embedded import data_uri
from fluoroscope.web.guarded_files import Root

_MOST_PICTURES = 48
_WORDS = {True: "yes", False: "no", None: "–"}


@dataclass(frozen=True)
class Pair:
    """One patient in both audits: as data URIs, blurred where they must be; None where a picture is missing."""

    where: str
    caption: str
    original: str | None
    before: str | None
    after: str | None
    before_words: str
    after_words: str


@dataclass(frozen=True)
class SideBySide:
    """What the page of a comparison shows."""

    in_both: int
    rows: tuple[tuple[str, ...], ...]
    """Where, score, before, after, change, whether the intervals overlap, whether it leaks more; the telling first."""
    apart: int
    """Changes beyond their intervals."""
    statuses: tuple[str, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    pairs: tuple[Pair, ...]
    more_pictures: int
    blurred: bool


def side_by_side(root: Root, before: Audit, after: Audit, show_images: bool) -> SideBySide:
    """The two, compared; images of patients are blurred unless `show_images` is set."""
    found = compare(before, after)
    changed = sorted((change for change in found.changes if change.difference), key=_telling)
    shown = [(old, new) for old, new in in_both(before, after) if old.gallery and new.gallery]
    places = [(old, new, i) for old, new in shown for i in range(min(len(old.gallery), len(new.gallery)))]
    blur = [not show_images and not audit.findings.data.synthetic for audit in (before, after)]
    return SideBySide(
        len(found.changes),
        tuple(_row(change) for change in changed),
        sum(change.overlap is False for change in changed),
        tuple(f"{_words(each)}: {each['before']}, then {each['after']}" for each in found.statuses),
        tuple(_words(each) for each in found.only_before),
        tuple(_words(each) for each in found.only_after),
        tuple(_pair(root, before, after, *place, blur) for place in places[:_MOST_PICTURES]),
        max(len(places) - _MOST_PICTURES, 0),
        any(blur),
    )


def _telling(change: Change) -> tuple[bool, bool, float]:
    """Scores of leaks before others, changes beyond their intervals before others, large before small."""
    return change.leaks_more is None, change.overlap is not False, -abs(change.difference or 0.0)


def _row(change: Change) -> tuple[str, ...]:
    return (
        _words(change.cell),
        metric(change.metric).title,
        _written(change.before, change.metric),
        _written(change.after, change.metric),
        "–" if change.difference is None else f"{change.difference:+.3g}",
        _WORDS[change.overlap],
        _WORDS[change.leaks_more],
    )


def _written(side: Side, name: str) -> str:
    score, how = side.score, metric(name).format
    if score.value is None:
        return "–"
    ends = "" if score.low is None or score.high is None else f" [{score.low:{how}}, {score.high:{how}}]"
    return f"{score.value:{how}}{ends}"


def _words(cell: dict[str, Any]) -> str:
    named = [
        f"{key} {cell[key]}" if key == "round" else str(cell[key])
        for key in ("attack", "client", "round")
        if key in cell
    ]
    return ", ".join([cell["kind"], f"defence {cell['defence']}", *named])


def _pair(root: Root, before: Audit, after: Audit, old: Cell, new: Cell, i: int, blur: list[bool]) -> Pair:
    was, now = old.gallery[i], new.gallery[i]
    return Pair(
        _words(described(old)),
        was.caption if was.caption == now.caption else f"{was.caption} / {now.caption}",
        _picture(root, before, was.original, blur[0]),
        _picture(root, before, was.reconstruction, blur[0]),
        _picture(root, after, now.reconstruction, blur[1]),
        _scored(was),
        _scored(now),
    )


def _picture(root: Root, audit: Audit, name: str, blur: bool) -> str | None:
    try:
        return data_uri(audit.folder, name, blur) if root.has(audit.folder / name) else None
    except FluoroscopeError:
        return None


def _scored(shown: Shown) -> str:
    known = {name: value for name, value in shown.scores.items() if value is not None}
    return ", ".join(f"{metric(name).title} {value:{metric(name).format}}" for name, value in known.items())
