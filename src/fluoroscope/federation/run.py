"""Run a planned federation on one of the engines; the apps and the result are the same on each."""

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from flwr.app import Context, Message
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

from fluoroscope.federation.client import client_app
from fluoroscope.federation.grid import InProcessGrid
from fluoroscope.federation.plan import Plan
from fluoroscope.federation.progress import Progress, Silent
from fluoroscope.federation.server import serve
from fluoroscope.federation.store import RecordStore
from fluoroscope.federation.task import load_task
from fluoroscope.registry import Registry

Serve = Callable[[Grid], None]
Engine = Callable[[Plan, str, Progress, Serve], None]
ENGINES: Registry[Engine] = Registry("engines")


def federate(
    plan: Plan, out: Path, engine: str = "in-process", device: str = "cpu", progress: Progress | None = None
) -> RecordStore:
    """Train the federation of `plan` and record it in `out`; a run that was stopped goes on where it was."""
    logging.getLogger("flwr").setLevel(logging.WARNING)
    listener, store = progress or Silent(), RecordStore(out)
    if store.exists():
        torch.set_num_threads(store.header.threads)
    ENGINES.get(engine)(plan, device, listener, lambda grid: serve(grid, plan, out, device, listener))
    return store


@ENGINES.register("in-process")
def _in_process(plan: Plan, device: str, progress: Progress, run: Serve) -> None:
    task = load_task(plan)

    def on_reply(reply: Message) -> None:
        client = task.clients[int(reply.content.config_records["sender"]["client"])]  # type: ignore[arg-type]
        if reply.content.array_records:
            progress.advance(len(client.train) * plan.training.epochs, f"{client.name} trained")
        else:
            progress.advance(len(client.validation) // 3, f"{client.name} validated")

    run(InProcessGrid(client_app(lambda context: plan, device), len(task.clients), on_reply))


@ENGINES.register("ray")
def _ray(plan: Plan, device: str, progress: Progress, run: Serve) -> None:
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # or Ray warns of it at every start
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        run(grid)

    threads = torch.get_num_threads()
    resources: dict[str, Any] = {"num_cpus": threads, "num_gpus": 0 if device == "cpu" else 1}
    run_simulation(
        server_app=app,
        client_app=client_app(lambda context: plan, device, threads),
        num_supernodes=len(load_task(plan).clients),
        backend_config={"client_resources": resources, "init_args": {"log_to_driver": False}},
    )
