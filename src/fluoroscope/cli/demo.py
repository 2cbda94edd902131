"""`fluoroscope demo`: the main job on the embedded data."""

from importlib.resources import as_file, files
from pathlib import Path

import typer

from fluoroscope.cli import options
from fluoroscope.cli.federate import report, run


def add_to(app: typer.Typer) -> None:
    """Enter the command."""

    @app.command(epilog="Example: fluoroscope demo --out /tmp/demo --seed 1")
    def demo(
        out: options.Out = Path("runs/demo"),
        seed: options.Seed = None,
        device: options.Device = "cpu",
        threads: options.Threads = None,
        as_json: options.Json = False,
    ) -> None:
        """Train P1's nine hospitals on chest phantoms, record their updates and write a page of results.

        Needs no data and no network; a minute or two on two cores.
        """
        from fluoroscope.federation.plan import read_plan

        with as_file(files("fluoroscope").joinpath("plans/demo.toml")) as path:
            plan = read_plan(path)
        if seed is not None:
            plan = plan.model_copy(update={"seed": seed})
        report(*run(plan, out, "in-process", device, threads), as_json)
