"""Shadow rounds of an attacker that knows the plan, its defences too, and starts where the real round started."""

from collections.abc import Sequence
from pathlib import Path

import torch
from filelock import FileLock
from safetensors.torch import load_file, save_file
from torch import Tensor

from fluoroscope.attacks.inference.lira import Shadows, confidences
from fluoroscope.attacks.inference.membership import sent_model
from fluoroscope.attacks.inference.shadows import client, halves, shadow_sets
from fluoroscope.federation.task import Task
from fluoroscope.rng import generator
from fluoroscope.studies.p3.candidates import ATTACKER, ROUND, VICTIM, Case
from fluoroscope.studies.p3.federation import Trained
from fluoroscope.types import State


def shadow_rounds(run: Trained, case: Case, shadows: int, others: int, folder: Path) -> dict[str, Shadows]:
    """For each seat what the shadow models make of the candidates; trained once for all cells that need them."""
    path = folder / "shadows" / f"{run.plan.fingerprint[:16]}-{shadows}-{others}-{len(case.candidates)}.safetensors"
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")):
        if not path.exists():
            part = path.with_suffix(".part")
            save_file(_trained(run, case, shadows, others), part)
            part.replace(path)
        found = load_file(path)
    return {seat: Shadows(found[seat], found["inside"]) for seat in ("server", "client")}


def _trained(run: Trained, case: Case, shadows: int, others: int) -> dict[str, Tensor]:
    """The server's seat sees the shadow victim's model; the client's the mean with its own and with strangers'."""
    task, rng = run.task, generator(run.plan.seed, "p3", "shadows")
    noise = generator(run.plan.seed, "p3", "shadows", "noise")  # its own: a defence at the server changes no client
    names = [split.name for split in task.clients]
    victim, own = (run.store.load(ROUND, names[place]) for place in (VICTIM, ATTACKER))
    train = client(task.network, run.state(ROUND - 1), victim.training, task.defence)
    strangers = [
        train(next(shadow_sets(case.candidates, case.pool, nobody, victim.training.images, rng)), rng)
        for nobody in torch.zeros(others, 1, len(case.candidates), dtype=torch.bool)
    ]
    inside = halves(len(case.candidates), shadows, rng)
    server, clients = [], []
    for records in shadow_sets(case.candidates, case.pool, inside, victim.training.images, rng):
        sent = train(records, rng)
        drawn = torch.randint(others, (len(names) - 2,), generator=rng).tolist()
        cohort = [sent, sent_model(own), *(strangers[i] for i in drawn)]
        model = joined(task, run.state(ROUND - 1), cohort, noise)
        server.append(confidences(task.network, sent, case.candidates))
        clients.append(confidences(task.network, model, case.candidates))
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
