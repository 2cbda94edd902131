"""Shadow rounds of an attacker that knows the plan, its defences too, and starts where the real round started."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

import torch
from filelock import FileLock
from safetensors.torch import load_file
from torch import Tensor

from fluoroscope.atomic_write import make_folder, write_tensors
from fluoroscope.attacks.inference.likelihood_ratio import Shadows, confidences
from fluoroscope.attacks.inference.seen_model import SeenModel
from fluoroscope.attacks.inference.shadows import client, halves, shadow_sets
from fluoroscope.federation.task import Task
from fluoroscope.rng import generator
from fluoroscope.studies.p3.candidates import ATTACKER, ROUND, VICTIM
from fluoroscope.studies.p3.federation import Trained
from fluoroscope.threat_models import THREATS, observe
from fluoroscope.types import Capability, LabelledImages, Observation, State

Seat = Literal["server", "client"]
CURIOUS = THREATS.get("curious-client")
OWN = CURIOUS.granted(Capability.UPDATE, Capability.BUFFERS)
"""Of its own record a client knows what it sent."""


@dataclass(frozen=True)
class FederationShadows:
    """LiRA's game from either seat. Both play the same shadow rounds, which are kept in the folder."""

    needs: ClassVar[frozenset[Capability]] = frozenset({Capability.TRAINING})

    run: Trained
    seat: Seat
    shadows: int
    others: int
    """Trainings that stand in for the clients of whom the attacker knows nothing."""
    folder: Path

    def play(
        self, observation: Observation, candidates: LabelledImages, pool: LabelledImages, rng: torch.Generator
    ) -> Shadows:
        """The plan's seed draws them, not `rng`: the same for all cells of this federation."""
        found = shadow_rounds(self.run, candidates, pool, self.shadows, self.others, self.folder)
        return found[self.seat]


def shadow_rounds(
    run: Trained, candidates: LabelledImages, pool: LabelledImages, shadows: int, others: int, folder: Path
) -> dict[Seat, Shadows]:
    """For each seat what the shadow models make of the candidates; trained once for all cells that need them."""
    path = folder / "shadows" / f"{run.plan.fingerprint[:16]}-{shadows}-{others}-{len(candidates)}.safetensors"
    make_folder(path.parent)
    with FileLock(path.with_suffix(".lock")):
        if not path.exists():
            write_tensors(path, _trained(run, candidates, pool, shadows, others))
        found = load_file(path)
    return {"server": Shadows(found["server"], found["inside"]), "client": Shadows(found["client"], found["inside"])}


def _trained(
    run: Trained, candidates: LabelledImages, pool: LabelledImages, shadows: int, others: int
) -> dict[str, Tensor]:
    """The server's seat sees the shadow victim's model; the client's the mean with its own and with strangers'."""
    task, rng = run.task, generator(run.plan.seed, "p3", "shadows")
    noise = generator(run.plan.seed, "p3", "shadows", "noise")  # its own: a defence at the server changes no client
    names = [split.name for split in task.clients]
    victim, own = (
        observe(run.store.load(ROUND, names[place]), knowledge)
        for place, knowledge in ((VICTIM, CURIOUS), (ATTACKER, OWN))
    )
    before, training = SeenModel.of(victim), victim.training
    assert training is not None  # granted to both seats
    train = client(before.network, before.state, training, task.defence)
    strangers = [
        train(next(shadow_sets(candidates, pool, nobody, training.images, rng)), rng)
        for nobody in torch.zeros(others, 1, len(candidates), dtype=torch.bool)
    ]
    inside = halves(len(candidates), shadows, rng)
    server, clients = [], []
    for records in shadow_sets(candidates, pool, inside, training.images, rng):
        sent = train(records, rng)
        drawn = torch.randint(others, (len(names) - 2,), generator=rng).tolist()
        cohort = [sent, SeenModel.of(own).state, *(strangers[i] for i in drawn)]
        model = joined(task, before.state, cohort, noise)
        server.append(confidences(replace(before, state=sent), candidates))
        clients.append(confidences(replace(before, state=model), candidates))
    return {"server": torch.stack(server), "client": torch.stack(clients), "inside": inside}


def joined(task: Task, before: State, sent: Sequence[State], rng: torch.Generator) -> State:
    """The global model that FedAvg makes of clients of one size under the plan's defence at the server."""
    updates = [{name: value - before[name] for name, value in each.items()} for each in sent]
    defence = task.defence.cohort
    if defence is not None:
        updates = [defence.clip_update(update) for update in updates]
    mean = {name: torch.stack([update[name] for update in updates]).mean(0) for name in before}
    if defence is not None:
        mean = defence.noise_aggregate(mean, updates, rng).update
    return {name: value + mean[name] for name, value in before.items()}
