"""`fluoroscope serve`: the runs in a folder, live in a browser."""

from pathlib import Path
from typing import Annotated

import typer

from fluoroscope.cli import console
from fluoroscope.errors import BadInput, Unsupported


def add_to(app: typer.Typer) -> None:
    """Enter the command."""

    @app.command(
        epilog="Examples: fluoroscope serve runs   |   fluoroscope serve runs --ledger ledger.jsonl --port 0   |   "
        "from your desk, to a server: ssh -L 8765:127.0.0.1:8765 server fluoroscope serve runs. Ctrl-C ends it."
    )
    def serve(
        runs: Annotated[Path, typer.Argument(help="The folder that your runs are in.")] = Path("runs"),
        host: Annotated[
            str, typer.Option(help="Address to listen at. The default is reached from this machine alone.")
        ] = "127.0.0.1",
        port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 takes any that is free.")] = 8765,
        allow_host: Annotated[
            list[str] | None,
            typer.Option(help="A name that this machine is called by in the browser. Others are refused. Repeatable."),
        ] = None,
        ledger: Annotated[
            list[Path] | None, typer.Option(help="The ledger of a site's door, where it is not below RUNS. Repeatable.")
        ] = None,
        show_images: Annotated[
            bool,
            typer.Option(
                "--show-images", help="Show images of patients in comparisons; else their pixels are blurred."
            ),
        ] = False,
    ) -> None:
        """Watch audits, federations, calibrations and studies in a browser: time left, reports, two audits side by
        side, and the ledger of the door. It reads files and writes none; nothing is asked of any other machine."""
        from fluoroscope.web.guarded_files import Root

        try:
            from fluoroscope.web.app import Watched
            from fluoroscope.web.running import Address
            from fluoroscope.web.running import serve as answer
        except ModuleNotFoundError as problem:
            if problem.name not in ("fastapi", "uvicorn", "starlette"):
                raise
            raise Unsupported(
                "the live view needs FastAPI and uvicorn, which are not installed here: pip install 'fluoroscope[web]'."
            ) from problem
        root = Root.of(runs)
        if missing := next((path for path in ledger or [] if not path.is_file()), None):
            raise BadInput(f"there is no ledger {missing}; --ledger takes the file that the policy names.")
        address = Address(host, port, tuple(allow_host or ()))
        if not address.loopback:
            console.err.print(
                f"{host} can be reached from other machines, and what they read is not encrypted: `ssh -L` is safer. "
                "Whoever has the address below can read every run.",
                soft_wrap=True,
            )

        def ready(url: str) -> None:
            console.say(f"live view: {url}")
            console.say("The token in it is new at every start. Ctrl-C ends the server; runs go on without it.")

        answer(Watched(root, tuple(path.resolve() for path in ledger or []), show_images), address, ready)
