"""Pages and the parts of them that change, as HTML; nothing that is put in can become markup."""

from functools import cache
from importlib.resources import files
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from fluoroscope.report.page import resource
from fluoroscope.web.details import detail, files_of
from fluoroscope.web.door import read_door
from fluoroscope.web.guarded_files import Root
from fluoroscope.web.runs import Found, LedgerFile, Run
from fluoroscope.web.side_by_side import SideBySide
from fluoroscope.web.standing import Standing, standing
from fluoroscope.web.words import duration, moment

_ORDER = {
    "running": "In progress",
    "broken": "Broken",
    "failed": "Failed",
    "stopped": "Stopped",
    "finished": "Finished",
}
STATIC = {
    "live.css": "text/css; charset=utf-8",
    "live.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}


class Group(NamedTuple):
    """Runs that stand alike."""

    state: str
    title: str
    runs: tuple[Standing, ...]


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("fluoroscope.web"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    made.filters |= {"duration": duration, "moment": moment}
    return made


def page(name: str, **parts: object) -> str:
    """A template of this room, filled."""
    return _environment().get_template(name).render(**parts)


@cache
def static(name: str) -> bytes:
    """A style, script or picture of this room; the style begins with the report's, so that both look alike."""
    own = files("fluoroscope.web").joinpath("static", name).read_text(encoding="utf-8")
    return (resource("audit.css") + own if name == "live.css" else own).encode()


def runs_now(root: Root, found: Found) -> str:
    """The list of runs as it stands."""
    stand = [standing(root, run) for run in found.runs]
    groups = [Group(s, t, tuple(each for each in stand if each.state == s)) for s, t in _ORDER.items()]
    return page("runs_now.html", groups=[group for group in groups if group.runs], found=found)


def run_now(root: Root, run: Run) -> str:
    """One run as it stands."""
    stands = standing(root, run)
    return page("run_now.html", it=stands, detail=detail(root, run, stands), files=files_of(root, run))


def ledger_now(ledger: LedgerFile) -> str:
    """A ledger as it stands."""
    return page("ledger_now.html", door=read_door(ledger.path))


def compared(audits: list[Run], before: Run | None, after: Run | None, found: SideBySide | None, problem: str) -> str:
    """The page that puts two audits side by side, or asks which."""
    return page("compare.html", audits=audits, before=before, after=after, found=found, problem=problem)
