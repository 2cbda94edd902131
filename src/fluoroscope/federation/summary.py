"""A finished federation as plain data."""

from typing import Any

from fluoroscope.data.partition import split_table
from fluoroscope.federation.store import RecordStore
from fluoroscope.federation.task import Task


def federation_summary(task: Task, store: RecordStore) -> dict[str, Any]:
    """Who held what, how each round went, what was recorded: what `--json` prints and the page shows."""
    result = store.result
    return {
        "clients": split_table(task.images, task.partition),
        "rounds": [_round(store, r) for r in store.rounds() if r > 0],
        "test": {"best_round": result["best_round"], "best": result["best"], "last": result["last"]},
    }


def _round(store: RecordStore, server_round: int) -> dict[str, Any]:
    manifest = store.manifest(server_round)
    return {
        "round": server_round,
        "seconds": store.seconds(server_round),
        "validation_accuracy": manifest.validation_accuracy,
        "validation": {name: scored["accuracy"] for name, scored in manifest.validation.items()},
        "clients": {
            name: {
                "loss": entry.loss,
                "recorded": entry.recorded,
                "update_norm": _update_norm(store, server_round, name) if entry.recorded else None,
            }
            for name, entry in manifest.clients.items()
        },
    }


def _update_norm(store: RecordStore, server_round: int, client: str) -> float:
    arrays = store.load(server_round, client).arrays
    return float(sum(float(value.double().square().sum()) for value in arrays.values()) ** 0.5)
