"""`fluoroscope report`: an audit as a page that can be read, sent and printed."""

from pathlib import Path
from typing import Annotated

import typer

from fluoroscope.cli import console, options
from fluoroscope.errors import Misconfigured


def add_to(app: typer.Typer) -> None:
    """Enter the command."""

    @app.command(epilog="Examples: fluoroscope report runs/audit   |   fluoroscope report runs/audit --pdf --json")
    def report(
        folder: Annotated[Path, typer.Argument(help="A folder that `audit` wrote: findings.json is in it.")],
        pdf: Annotated[bool, typer.Option("--pdf", help="Print it to PDF, too, with the Chromium found here.")] = False,
        show_images: Annotated[
            bool,
            typer.Option("--show-images", help="Show images of patients; without it their pixels are blurred."),
        ] = False,
        timing: Annotated[
            bool,
            typer.Option(help="Say how long each part took; without it two runs of one seed give the same page."),
        ] = True,
        out: Annotated[Path | None, typer.Option("--out", help="The file to write. default: DIR/report.html")] = None,
        as_json: options.Json = False,
    ) -> None:
        """Write the page of an audit: one HTML file for the privacy officer and the engineer, without a network."""
        from fluoroscope.report.audit_report import write_report
        from fluoroscope.report.browser import print_pdf

        if out is not None and out.suffix.lower() == ".pdf":
            raise Misconfigured(f"--out names the page, such as {out.with_suffix('.html')}; --pdf prints beside it.")
        written = {"page": write_report(folder, show_images, out, timing)}
        if pdf:
            written["pdf"] = written["page"].with_suffix(".pdf")
            print_pdf(written["page"], written["pdf"])
        if as_json:
            console.print_json({name: str(path) for name, path in written.items()})
            return
        for name, path in written.items():
            console.say(f"{name}: {path}")
