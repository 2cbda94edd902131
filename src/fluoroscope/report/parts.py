"""What the sections of an audit's page are made of, beside the tables and pictures of every page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from fluoroscope.report.page import Picture, Table


@dataclass(frozen=True)
class Viewer:
    """A slider from what the attacker had before, over the reconstruction, to the original."""

    caption: str
    stages: Mapping[str, str]
    """The images between which it fades: data URIs by name."""
    start: int
    """The stage that is seen first: the reconstruction."""
    scores: Sequence[tuple[str, Markup]]


@dataclass(frozen=True)
class Gallery:
    """The viewers of one cell."""

    heading: Markup
    viewers: Sequence[Viewer]


@dataclass(frozen=True)
class Galleries:
    """Those of several cells beside one another."""

    galleries: Sequence[Gallery]


@dataclass(frozen=True)
class Folded:
    """Details for those who want them: a table, or text as it is."""

    summary: str
    table: Table | None = None
    verbatim: str = ""


@dataclass(frozen=True)
class Multiples:
    """Small figures in a grid."""

    pictures: Sequence[Picture]
