"""A curious server: which client an image belongs to."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from fluoroscope.attacks.inference import INFERENCE_ATTACKS
from fluoroscope.audit.cell import trained
from fluoroscope.audit.kept import result_of
from fluoroscope.audit.scored import Measured, scores_of
from fluoroscope.audit.server_cell import ServerCell, seen_by_server
from fluoroscope.cells import CellContext, Result
from fluoroscope.errors import Unsupported
from fluoroscope.federation.task import load_task
from fluoroscope.findings import Finding, Kind
from fluoroscope.rng import generator
from fluoroscope.scenarios.candidates import records
from fluoroscope.scores.intervals import wilson
from fluoroscope.scores.permutations import PERMUTATIONS, permutation_p_value

RECORDS = 32
"""Images of a client that are asked about, at most."""


@dataclass(frozen=True)
class Source(ServerCell):
    """Training images of the clients: whose model fits each best?"""

    kind: ClassVar[Kind] = "source"
    attack_name: str = "source"

    def run(self, context: CellContext) -> Result:
        plan = self.federation
        store, task = trained(plan, context.folder), load_task(plan)
        places = self.took_part(task, store)
        if len(places) < 2:
            raise Unsupported(f"source inference tells clients apart, and {len(places)} is audited in this round.")
        seen = [seen_by_server(task, store.load(self.round, task.clients[place].name)) for place in places]
        rng = generator(context.seed, "audit", "source")
        asked = [_some(task.clients[place].train, rng) for place in places]
        owners = torch.cat([torch.full((len(each),), i) for i, each in enumerate(asked)])
        candidates = records(task, [i for each in asked for i in each])
        guessed = INFERENCE_ATTACKS.get("source").run(seen, candidates, rng).argmax(0)
        right = int((guessed == owners).sum())
        # Who always names the client with most images is right this often: no attack is needed for that.
        always = int(owners.bincount().max()) / len(owners)
        dealt = torch.stack(
            [owners[torch.randperm(len(owners), generator=rng)] == guessed for _ in range(PERMUTATIONS)]
        )
        reached = int((dealt.sum(1) >= right).sum())
        scores = scores_of(
            self.kind,
            accuracy=Measured(wilson(right, len(owners)), chance=always),
            p_value=Measured(permutation_p_value(reached), len(owners)),
            records=len(owners),
        )
        return result_of(Finding(scores=scores))


def _some(images: tuple[int, ...], rng: torch.Generator) -> list[int]:
    return [images[i] for i in torch.randperm(len(images), generator=rng)[:RECORDS].tolist()]
