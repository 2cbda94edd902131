"""The page of an audit: read the findings, write one HTML file."""

from pathlib import Path

from markupsafe import Markup

from fluoroscope.atomic_write import write_text
from fluoroscope.findings import Audit, read_findings
from fluoroscope.report.engineer import engineer, scores_meant
from fluoroscope.report.officer import officer
from fluoroscope.report.page import resource, template
from fluoroscope.report.traced import Traced
from fluoroscope.report.view import View


def write_report(folder: Path, show_images: bool = False, out: Path | None = None, with_timing: bool = True) -> Path:
    """Write the page of the audit in `folder`, to DIR/report.html by default, and return its path."""
    page = render_audit(read_findings(folder), show_images, with_timing)
    path = out or folder / "report.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, page)
    return path


def render_audit(audit: Audit, show_images: bool = False, with_timing: bool = True) -> str:
    """The page as HTML. Images of patients are blurred unless they are asked for."""
    findings = audit.findings
    view = View(audit, Traced(audit.document), blur=not findings.data.synthetic and not show_images)
    return template("audit.html").render(
        findings=findings,
        write=view.write,
        officer=officer(view),
        sections=engineer(view, with_timing),
        meanings=scores_meant(view),
        blur=view.blur,
        style=Markup(resource("audit.css")),
        script=Markup(resource("audit.js")),
    )
