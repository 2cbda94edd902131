"""`fluoroscope nvflare install`: the site's filters in the site's own NVFlare workspace."""

from pathlib import Path
from typing import Annotated

import typer

from fluoroscope.cli import console
from fluoroscope.cli.exit_codes import FAILED
from fluoroscope.cli.group import group
from fluoroscope.errors import BadInput


def add_to(app: typer.Typer) -> None:
    """Enter the command."""
    nvflare = group(app, "nvflare", "The site's filters in NVIDIA FLARE.")

    @nvflare.callback()
    def every() -> None:
        """The site's filters in NVIDIA FLARE."""

    @nvflare.command(
        epilog="Examples: fluoroscope nvflare install /opt/nvflare/site-1 --policy appetite.toml   |   "
        "fluoroscope nvflare install /opt/nvflare/site-1 --check. "
        "Exit codes: 0 every job runs through the filters, 4 some could get past them, 2 not readable."
    )
    def install(
        workspace: Annotated[Path, typer.Argument(help="The site's NVFlare workspace: it holds startup/ and local/.")],
        policy: Annotated[Path | None, typer.Option(help="The site's appetite.toml.")] = None,
        ledger: Annotated[Path | None, typer.Option(help="The ledger; default: as the policy says.")] = None,
        scope: Annotated[
            str | None,
            typer.Option(help="Guard this privacy scope alone; default: all, since a job chooses among them."),
        ] = None,
        check: Annotated[bool, typer.Option("--check", help="Change nothing; say whether the filters stand.")] = False,
    ) -> None:
        """Have every job of a site inspected on its way in and measured on its way out, whoever wrote the job.

        Writes local/privacy.json, keeps the filters of others in it, and a copy of the file as it was.
        """
        from fluoroscope.integrations import nvflare_site as site

        path = site.privacy_file(workspace)
        if check:
            if policy is not None or ledger is not None:
                raise BadInput("--check reads the policy from the file: leave --policy and --ledger out.")
            content = site.read_privacy(path)
            if not site.policies(content):
                console.say(f"{path}: no filter of fluoroscope stands here.")
                raise typer.Exit(FAILED)
        else:
            if policy is None:
                raise BadInput("which policy? Add --policy appetite.toml; `fluoroscope policy init` writes one.")
            _try(policy)
            given = {"policy": policy, "ledger": ledger}
            arguments = {name: str(value.resolve()) for name, value in given.items() if value is not None}
            before = site.read_privacy(path)
            kept = site.install(path, arguments, scope)
            content = site.read_privacy(path)
            changed = content != before
            console.say(
                f"{path}: {'written; jobs that start from now on run through it' if changed else 'already so'}."
            )
            if kept is not None:
                console.say(f"as it was before: {kept}")
        for each in site.policies(content):
            if check:
                _try(Path(each))
            console.say(f"models that come in and updates that leave are judged by {each}")
        if unguarded := site.open_scopes(content):
            console.say(f"a job that asks for the scope {', '.join(map(repr, unguarded))} gets past the filters.")
            raise typer.Exit(FAILED)
        if content.get("default_scope") is None:
            console.say("there is no default_scope: NVFlare refuses every job that does not name a scope.")


def _try(policy: Path) -> None:
    """A policy that cannot be opened would block every job: better said now."""
    from fluoroscope.site.opening import open_site  # loads torch

    open_site(policy)
