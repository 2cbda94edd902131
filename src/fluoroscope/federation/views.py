"""What a participant sees of the federation's rounds."""

from fluoroscope.federation.store import RecordStore
from fluoroscope.federation.task import Task
from fluoroscope.types import RoundView


def round_view(task: Task, store: RecordStore, server_round: int) -> RoundView:
    """The global model after the round, and the metrics that the server tells of it."""
    manifest = store.manifest(server_round)
    metrics = {name: manifest.aggregated(name) for name in ("loss", "accuracy")}
    return RoundView(server_round, task.network, store.global_state(server_round), metrics)
