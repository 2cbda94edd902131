"""A curious server: what the clients tell of their own images beside their updates (OWASP AISVS 12.6.2)."""

from dataclasses import dataclass
from typing import Any, ClassVar

from fluoroscope.audit.cell import AuditCell, trained
from fluoroscope.audit.kept import result_of
from fluoroscope.audit.scored import Measured, curve, scores_of
from fluoroscope.cells import CellContext, Result
from fluoroscope.federation.manifest import RoundManifest
from fluoroscope.findings import Finding, Kind


@dataclass(frozen=True)
class ClientMetrics(AuditCell):
    """No attack: the numbers are read where they were recorded, as the server got them."""

    kind: ClassVar[Kind] = "metrics"
    threat: ClassVar[str | None] = "curious-server"

    @property
    def settings(self) -> dict[str, Any]:
        return {}

    def run(self, context: CellContext) -> Result:
        store = trained(self.federation, context.folder)
        rounds = {r: store.manifest(r) for r in store.rounds() if r}
        clients = {name: entry.training.images for each in rounds.values() for name, entry in each.clients.items()}
        smallest = min(clients, key=lambda name: (clients[name], name))
        losses = {r: each.clients[smallest].loss for r, each in rounds.items() if smallest in each.clients}
        scores = scores_of(
            self.kind,
            visible=Measured(max(visible(each, name) for each in rounds.values() for name in each.clients), 1),
            counted=Measured(len(clients), len(clients)),
            single=Measured(sum(images == 1 for images in clients.values()), len(clients)),
        )
        told = curve(list(losses), list(losses.values()), "round", f"training loss that {smallest} tells")
        return result_of(Finding(scores=scores, curves={"told": told}))


TRAINING = ("num-examples", "loss")
"""What every client sends with its update: Flower weighs the mean by the one, and reports the other."""


def visible(manifest: RoundManifest, client: str) -> int:
    """Numbers of its own that the client told in this round: of its training, and of its validation images."""
    validated = manifest.validation.get(client, {})
    return len(TRAINING) + sum(value is not None for value in validated.values())
