"""Run a planned federation on one of the engines; the apps and the result are the same on each."""

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from flwr.app import Context, Message, MessageType
from flwr.serverapp import Grid, ServerApp

from fluoroscope import process_tuning, strict_json
from fluoroscope.federation.client import client_app
from fluoroscope.federation.grid import InProcessGrid
from fluoroscope.federation.plan import Plan
from fluoroscope.federation.progress import Progress, Silent
from fluoroscope.federation.server import serve, versions
from fluoroscope.federation.store import RecordStore
from fluoroscope.federation.task import load_task
from fluoroscope.registry import Registry
from fluoroscope.runs.lock import run_lock

Serve = Callable[[Grid], None]
Engine = Callable[[Plan, str, Progress, Serve], None]
ENGINES: Registry[Engine] = Registry("engines")


def federate(
    plan: Plan, out: Path, engine: str = "in-process", device: str = "cpu", progress: Progress | None = None
) -> RecordStore:
    """Train the federation of `plan` and record it in `out`; a run that was stopped goes on where it was.

    While another process trains it there this one waits, and then finds it finished.
    """
    logging.getLogger("flwr").setLevel(logging.WARNING)
    listener, store, threads = progress or Silent(), RecordStore(out), torch.get_num_threads()
    with run_lock(out):
        if _finished(plan, store):
            store.settle()
            return store
        if store.exists():
            torch.set_num_threads(store.header.threads)
        try:
            ENGINES.get(engine)(plan, device, listener, lambda grid: serve(grid, plan, out, device, listener))
        finally:
            torch.set_num_threads(threads)
    return store


def _finished(plan: Plan, store: RecordStore) -> bool:
    """Whether all of it is there, made of the same images by the same software.

    Phantoms follow from the plan and the version. Other images, and weights from a file, are loaded and compared.
    """
    result = store.folder / "result.json"
    if not (store.exists() and result.exists()):
        return False
    header = store.header
    if header.plan != plan.model_dump(mode="json") or header.versions != versions():
        return False
    try:
        done = strict_json.loads(result.read_text())["rounds"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):  # damaged: it is made again
        return False
    if isinstance(done, bool) or not isinstance(done, int) or not 0 <= done <= plan.rounds:
        return False
    if store.rounds() != list(range(done + 1)):
        return False
    made = all(source.startswith("phantom/") for source in plan.data.sources) and plan.model.weights is None
    return made or load_task(plan).digest == header.data


@ENGINES.register("in-process")
def _in_process(plan: Plan, device: str, progress: Progress, run: Serve) -> None:
    task = load_task(plan)

    def on_reply(reply: Message) -> None:  # by its node: what it says is not believed yet
        number = grid.partitions.get(reply.metadata.src_node_id)
        if number is None:  # it says that it is a node that nobody knows: refused when replies are checked
            return
        client = task.clients[number]
        if reply.metadata.message_type == MessageType.TRAIN:
            progress.advance(len(client.train) * plan.training.epochs, f"{client.name} trained")
        else:
            progress.advance(len(client.validation) // 3, f"{client.name} validated")

    grid = InProcessGrid(client_app(lambda context: plan, device), len(task.clients), on_reply)
    run(grid)


@ENGINES.register("ray")
def _ray(plan: Plan, device: str, progress: Progress, run: Serve) -> None:
    from flwr.simulation import run_simulation  # a second and a half, which the other engines need not wait

    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # or Ray warns of it at every start
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        run(grid)

    def planned(context: Context) -> Plan:
        process_tuning.apply()  # a client of Ray has a process of its own
        return plan

    threads = torch.get_num_threads()
    resources: dict[str, Any] = {"num_cpus": threads, "num_gpus": 0 if device == "cpu" else 1}
    run_simulation(
        server_app=app,
        client_app=client_app(planned, device, threads),
        num_supernodes=len(load_task(plan).clients),
        backend_config={"client_resources": resources, "init_args": {"log_to_driver": False}},
    )
