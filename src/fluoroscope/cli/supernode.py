"""`fluoroscope supernode`: Flower's supernode behind the site's own door."""

import os
from pathlib import Path
from typing import Annotated

import typer


def add_to(app: typer.Typer) -> None:
    """Enter the command."""

    @app.command(
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
        epilog="Example: fluoroscope supernode --policy appetite.toml -- --superlink fl.example.org:9092 "
        "--root-certificates ca.pem --auth-supernode-private-key node.key --node-config 'partition-id=0'.",
    )
    def supernode(
        context: typer.Context,
        policy: Annotated[Path, typer.Option(help="The site's policy: what may come in and what may leave.")],
        ledger: Annotated[
            Path | None, typer.Option(help="Where decisions are written down; otherwise as the policy says.")
        ] = None,
    ) -> None:
        """Run flower-supernode so that the site's policy decides, outside of the app's process.

        Every model is inspected before an app sees it, every update is measured before it leaves. What follows -- are
        flower-supernode's own arguments. Telemetry and the search for updates are off unless you switch them on.
        """
        # Before Flower is imported, which reads them once.
        os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
        os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")
        from fluoroscope.integrations.flower.supernode import check_flower, run_supernode
        from fluoroscope.site.opening import open_site

        check_flower()
        run_supernode(open_site(policy, ledger), context.args)
