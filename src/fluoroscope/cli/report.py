"""`fluoroscope report`: an audit as a page that can be read, sent and printed, and as files for other readers."""

from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fluoroscope.cli import console, options
from fluoroscope.cli.option_group import grouped
from fluoroscope.errors import Misconfigured

if TYPE_CHECKING:
    from fluoroscope.report.exports.brief import Brief


class FormatName(StrEnum):
    """The page, and the formats of `report/exports/formats.py`."""

    html = "html"
    sarif = "sarif"
    junit = "junit"
    md = "md"
    json = "json"
    card = "card"
    dpia = "dpia"


@dataclass(frozen=True)
class ExportOptions:
    """What is told to whom."""

    format: Annotated[
        list[FormatName] | None,
        typer.Option(
            "--format",
            help="html (the page, default); for pipelines sarif, junit, json, md; card: twelve lines for a model's "
            "README; dpia: an annex with the table of controls. Repeatable.",
        ),
    ] = None
    numbers_only: Annotated[
        bool,
        typer.Option("--numbers-only", help="No image, path or name in anything that is written: fit for an airlock."),
    ] = False
    defence: Annotated[str | None, typer.Option(help="The setting that is judged; default: as `gate` chooses it.")] = (
        None
    )
    accepted: options.Accepted = None
    mlflow: Annotated[
        str | None,
        typer.Option(help="Log scores and what is written to an MLflow server too, such as http://localhost:5000."),
    ] = None


def add_to(app: typer.Typer) -> None:
    """Enter the command."""

    @app.command(
        epilog="Examples: fluoroscope report runs/audit --pdf   |   fluoroscope report runs/audit --format sarif "
        "--format junit --accepted accepted.toml   |   fluoroscope report runs/audit --numbers-only --format html "
        "--format dpia"
    )
    @grouped
    def report(
        folder: Annotated[Path, typer.Argument(help="A folder that `audit` wrote: findings.json is in it.")],
        *,
        export: ExportOptions,
        pdf: Annotated[bool, typer.Option("--pdf", help="Print it to PDF, too, with the Chromium found here.")] = False,
        show_images: Annotated[
            bool,
            typer.Option("--show-images", help="Show images of patients; without it their pixels are blurred."),
        ] = False,
        timing: Annotated[
            bool,
            typer.Option(help="Say how long each part took; without it two runs of one seed give the same page."),
        ] = True,
        out: Annotated[
            Path | None, typer.Option("--out", help="The file to write. default: in DIR; the page is DIR/report.html")
        ] = None,
        as_json: options.Json = False,
    ) -> None:
        """Write an audit down: one HTML file for the privacy officer and the engineer, without a network, and files for
        pipelines and committees."""
        from fluoroscope.report.audit_report import write_report
        from fluoroscope.report.browser import print_pdf
        from fluoroscope.runs.manifest import renew

        asked = list(dict.fromkeys(export.format or [FormatName.html]))
        _possible(asked, export, pdf, show_images, out)
        written: dict[str, Path] = {}
        if FormatName.html in asked:
            page = out or folder / ("report-numbers.html" if export.numbers_only else "report.html")
            written["page"] = write_report(folder, show_images, page, timing, export.numbers_only)
        if pdf:
            written["pdf"] = written["page"].with_suffix(".pdf")
            print_pdf(written["page"], written["pdf"])
        more = asked != [FormatName.html] or export.mlflow or export.accepted or export.defence
        said = _written(folder, asked, export, out, written) if more else []
        if not renew(folder, written.values()):
            said.append(f"note: {folder} was signed without this, so it is not signed any more; sign it again.")
        if as_json:
            console.print_json(
                {**{name: str(path) for name, path in written.items()}, **({"said": said} if said else {})}
            )
            return
        for name, path in written.items():
            console.say(f"{name}: {path}")
        for words in said:
            console.say(words)


def _possible(asked: list[FormatName], export: ExportOptions, pdf: bool, show_images: bool, out: Path | None) -> None:
    if out is not None and out.suffix.lower() == ".pdf":
        raise Misconfigured(f"--out names the page, such as {out.with_suffix('.html')}; --pdf prints beside it.")
    if out is not None and len(asked) > 1:
        raise Misconfigured(f"--out names one file, and {len(asked)} formats are asked for: leave --out away.")
    if pdf and FormatName.html not in asked:
        raise Misconfigured("--pdf prints the page: add --format html.")
    if show_images and (export.numbers_only or export.mlflow):
        raise Misconfigured(
            "--show-images shows patients: it does not go with --numbers-only, and nothing like it is sent to a server."
        )


def _written(
    folder: Path, asked: list[FormatName], export: ExportOptions, out: Path | None, written: dict[str, Path]
) -> list[str]:
    """Write the exports, enter their paths, log them, and return what is to be said."""
    from fluoroscope.atomic_write import make_folder, write_text
    from fluoroscope.findings import read_findings
    from fluoroscope.report.accepted import read_accepted
    from fluoroscope.report.exports.brief import brief
    from fluoroscope.report.exports.formats import FORMATS

    audit = read_findings(folder)
    if export.mlflow and not audit.findings.data.synthetic and not export.numbers_only:
        raise Misconfigured("these are images of patients, and --mlflow sends to another machine: add --numbers-only.")
    acceptances = [] if export.accepted is None else read_accepted(export.accepted)
    full = brief(audit, export.defence, acceptances, date.today(), without_names=export.numbers_only)
    bare = full
    if not export.numbers_only and any(name in FORMATS and FORMATS[name].public for name in asked):
        bare = brief(audit, export.defence, acceptances, date.today(), without_names=True)
    for name in asked:
        if name not in FORMATS:
            continue
        how = FORMATS[name]
        path = out or folder / (f"numbers-{how.file}" if export.numbers_only and not how.public else how.file)
        make_folder(path.parent)
        write_text(path, how.write(bare if how.public else full))
        written[name] = path
    return [*full.review.remarks, *(_logged(export.mlflow, full, folder, written) if export.mlflow else [])]


def _logged(uri: str, brief: "Brief", folder: Path, written: dict[str, Path]) -> list[str]:
    from fluoroscope import strict_json
    from fluoroscope.report.mlflow_tracking import log_audit

    files = {path.name: path.read_bytes() for path in written.values()}
    files["findings.json"] = strict_json.dumps(brief.audit.document).encode()
    logged = log_audit(uri, brief, files)
    said = f"mlflow: run {logged.run} of experiment {logged.experiment}, {logged.metrics} scores"
    return [f"{said}, {len(logged.files)} files.", *([f"note: {logged.remark}"] if logged.remark else [])]
