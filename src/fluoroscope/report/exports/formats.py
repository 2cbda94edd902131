"""The formats by name: the file that each is written to, and who writes it."""

from collections.abc import Callable
from dataclasses import dataclass

from fluoroscope.report.exports.brief import Brief
from fluoroscope.report.exports.dpia import dpia_annex
from fluoroscope.report.exports.junit import junit
from fluoroscope.report.exports.leak_card import leak_card
from fluoroscope.report.exports.markdown import markdown
from fluoroscope.report.exports.plain_json import plain_json
from fluoroscope.report.exports.sarif import sarif


@dataclass(frozen=True)
class Format:
    """One way to write an audit down."""

    file: str
    write: Callable[[Brief], str]
    public: bool = False
    """Whether it goes where everybody reads it, and so never has a name in it."""


FORMATS: dict[str, Format] = {
    "sarif": Format("findings.sarif", sarif),
    "junit": Format("junit.xml", junit),
    "md": Format("report.md", markdown),
    "json": Format("report.json", plain_json),
    "card": Format("leak-card.md", leak_card, public=True),
    "dpia": Format("dpia-annex.md", dpia_annex),
}
