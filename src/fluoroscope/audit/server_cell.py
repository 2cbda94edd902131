"""What the cells of a curious server's inferences have in common: some clients of a recorded round."""

from dataclasses import dataclass
from typing import Any, ClassVar

from fluoroscope.audit.cell import AuditCell
from fluoroscope.errors import Unsupported
from fluoroscope.federation.store import RecordStore
from fluoroscope.federation.task import Task
from fluoroscope.threat_models import THREATS, observe
from fluoroscope.types import Observation, UpdateRecord


@dataclass(frozen=True)
class ServerCell(AuditCell):
    """All of the audited clients together: a client of one image gives no interval."""

    threat: ClassVar[str | None] = "curious-server"
    clients: tuple[str, ...] = ()
    round: int = 1
    attack_name: str = ""

    def took_part(self, task: Task, store: RecordStore) -> list[int]:
        """The places of those of the clients whose update of the round was recorded."""
        before = store.global_state(self.round - 1)
        if not all(value.isfinite().all() for value in before.values()):
            raise Unsupported(f"under this defence the model of round {self.round} holds numbers that are not finite.")
        recorded = set(store.recorded(self.round))
        found = [i for i, split in enumerate(task.clients) if split.name in self.clients and split.name in recorded]
        if not found:
            raise Unsupported(f"none of {', '.join(self.clients)} took part in round {self.round}.")
        return found

    @property
    def settings(self) -> dict[str, Any]:
        return {"attack": self.attack_name, "round": self.round, "clients": ", ".join(self.clients)}


def seen_by_server(task: Task, record: UpdateRecord) -> Observation:
    """A client's round as the curious server sees it, with what else it has and knows."""
    return observe(
        record,
        THREATS.get("curious-server"),
        task.public_mean,
        public_images=task.public_images,
        defence=task.defence,
    )
