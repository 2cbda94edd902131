"""A page is one self-contained HTML file: no network, light and dark, readable on a phone and in print."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup


@dataclass(frozen=True)
class Table:
    """Rows of plain values under their headings."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]


@dataclass(frozen=True)
class Picture:
    """An inline SVG or a data URI, with words for those who do not see it."""

    content: str
    alt: str

    @property
    def is_svg(self) -> bool:
        return self.content.startswith("<svg")


@dataclass(frozen=True)
class Section:
    """A heading, a sentence or two in plain words, then pictures and tables."""

    title: str
    text: str = ""
    parts: Sequence[object] = ()
    """Tables, pictures, and what else the page's template knows."""


def render(title: str, lead: str, sections: Sequence[Section], facts: Mapping[str, Any]) -> str:
    """The page as HTML; `facts` stand at its foot (seed, versions, command)."""
    return template("page.html").render(title=title, lead=lead, sections=sections, facts=facts)


def template(name: str) -> Template:
    """A template of this folder; what it is given cannot become markup unless it is Markup."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["value"] = _value
    return environment.from_string(resource(name))


def resource(name: str) -> str:
    """The text of a file of this folder."""
    return files("fluoroscope.report").joinpath(name).read_text(encoding="utf-8")


def _value(value: object) -> str:
    """Numbers short enough to read, with digits enough to tell two runs apart."""
    if value is None:
        return "–"
    if isinstance(value, Markup):
        return value
    return f"{value:.3f}" if isinstance(value, float) else str(value)
