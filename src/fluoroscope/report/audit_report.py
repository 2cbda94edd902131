"""The page of an audit: read the findings, write one HTML file."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from markupsafe import Markup

from fluoroscope.atomic_write import make_folder, write_text
from fluoroscope.findings import Audit, read_findings
from fluoroscope.report.catalogue import Catalogue, catalogue
from fluoroscope.report.engineer import engineer, scores_meant
from fluoroscope.report.first_screen import first_screen
from fluoroscope.report.frontier_figure import frontier_question, frontier_section
from fluoroscope.report.numbers_only import numbers_only
from fluoroscope.report.officer import grades_meant, officer
from fluoroscope.report.page import Section, Table, resource, template
from fluoroscope.report.parts import Folded
from fluoroscope.report.questions import Question, questions
from fluoroscope.report.traced import Traced
from fluoroscope.report.view import View, clients_in_words


def write_report(
    folder: Path,
    show_images: bool = False,
    out: Path | None = None,
    with_timing: bool = True,
    without_names: bool = False,
) -> Path:
    """Write the page of the audit in `folder`, to DIR/report.html by default, and return its path."""
    audit = read_findings(folder)
    page = render_numbers(audit) if without_names else render_audit(audit, show_images, with_timing)
    path = out or folder / "report.html"
    make_folder(path.parent)
    write_text(path, page, private=not audit.findings.data.synthetic and not without_names)
    return path


def render_audit(
    audit: Audit, show_images: bool = False, with_timing: bool = True, words: Catalogue | None = None
) -> str:
    """The page as HTML, in English or in the language of `words`. Images of patients are blurred unless asked for."""
    blur = not audit.findings.data.synthetic and not show_images
    view = View(audit, Traced(audit.document), blur, words or catalogue())
    return _rendered(view, _questions(view), _sections(view, with_timing), resource("audit.js"))


def render_numbers(audit: Audit) -> str:
    """The page for an airlock: numbers and tables; no image, figure, script, path or name."""
    bare = numbers_only(audit)
    view = View(bare, Traced(bare.document), blur=False)
    asked = [replace(each, pictures=()) for each in _questions(view) if each.table]
    return _rendered(view, asked, [_tables(section) for section in _sections(view, with_timing=False)], "")


def _questions(view: View) -> list[Question]:
    """The map first: where the hospitals stand among all that was ever measured."""
    first = frontier_question(view)
    return [*([first] if first else []), *questions(view)]


def _sections(view: View, with_timing: bool) -> list[Section]:
    first = frontier_section(view)
    return [*([first] if first else []), *engineer(view, with_timing)]


def _tables(section: Section) -> Section:
    return replace(section, parts=[part for part in section.parts if isinstance(part, Table | Folded)])


def _rendered(view: View, asked: Sequence[Question], sections: Sequence[Section], script: str) -> str:
    return template("audit.html").render(
        findings=view.audit.findings,
        write=view.write,
        t=view.words.say,
        language=view.words.language,
        clients=clients_in_words(view),
        first=first_screen(view),
        questions=asked,
        officer=officer(view),
        grades=grades_meant(view),
        glossary=list(view.words.glossary()),
        sections=[section for section in sections if section.parts],
        meanings=scores_meant(view),
        blur=view.blur,
        style=Markup(resource("audit.css")),
        script=Markup(script),
    )
