"""Options of how an audit is run and told, whatever it audits."""

from dataclasses import dataclass
from typing import Annotated

import typer

from fluoroscope.cli import options


@dataclass(frozen=True)
class AuditOptions:
    """Where an audit's cells run, and what is shown of it."""

    engine: options.CellEngine = None
    workers: options.Workers = None
    show_images: Annotated[
        bool, typer.Option("--show-images", help="Show patients' images on the page as they are.")
    ] = False
    pdf: Annotated[bool, typer.Option("--pdf", help="Print the page as PDF too.")] = False
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would run, and about how long.")] = False
    as_json: options.Json = False
