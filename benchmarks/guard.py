"""The guard on crafted and on honest models: misses, false alarms, milliseconds, `python -m benchmarks guard`.

Each model is judged as a network, as a file (a state dict, whose architecture has to be recognised), both without
anything agreed; one in four also as arrays against the agreed network. Half of the honest models are enough.
"""

import statistics
from collections import Counter
from collections.abc import Iterator
from itertools import islice

import torch
from torch import Tensor

from benchmarks._crafted import Case
from benchmarks._crafted_inside import crafted
from benchmarks._honest import honest
from fluoroscope.data import Request, load
from fluoroscope.defences.guard import Verdict, inspect
from fluoroscope.models import Architecture
from fluoroscope.models.recognition import recognised

SOURCES = {(1, 28): "phantom/chest", (3, 32): "phantom/fundus", (1, 32): "phantom/brain"}
SEED = 777
"""The guard's thresholds were set on models of other seeds."""
WAYS = ("network", "file", "agreed")


def auxiliary() -> dict[tuple[int, int], Tensor]:
    """What the attacker sets its bins by, and what honest models are trained on."""
    return {
        (c, size): load(source, Request(size=size, channels=c, images=160)).batch.images
        for (c, size), source in SOURCES.items()
    }


def judged(case: Case, way: str) -> Verdict:
    if way == "network":
        return inspect(case.model)
    if way == "agreed":
        return inspect(case.model.state_dict(), case.agreed)
    known = recognised(case.model.state_dict())
    return inspect(known.network or known.state)


def measured(cases: Iterator[Case], refuse: bool) -> None:
    wrong: dict[str, Counter[str]] = {way: Counter() for way in WAYS}
    kinds, reasons, counts, seconds = Counter(), Counter(), Counter(), []
    for i, case in enumerate(cases):
        kinds[case.kind.split("/")[0]] += 1
        for way in WAYS if i % 4 == 0 else WAYS[:2]:
            counts[way] += 1
            verdict = judged(case, way)
            seconds.append(verdict.seconds)
            if verdict.refused != refuse:
                wrong[way][case.kind] += 1
            if way == "network":
                reasons.update({reason.check for reason in verdict.reasons if reason.severity == "refuse"})
    name, fault = ("crafted", "misses") if refuse else ("honest", "false alarms")
    print(f"{sum(kinds.values())} {name} models: {', '.join(f'{k} {n}' for k, n in kinds.most_common())}")
    for way in WAYS:
        print(f"  {way}: {fault} {wrong[way].total()} of {counts[way]} {dict(wrong[way]) or ''}")
    if reasons:
        print(f"  reasons: {', '.join(f'{k} {n}' for k, n in reasons.most_common())}")
    print(
        f"  milliseconds: median {1e3 * statistics.median(seconds):.0f}, largest {1e3 * max(seconds):.0f}", flush=True
    )


def main() -> None:
    torch.set_num_threads(1)
    aux = auxiliary()
    resnet = {size: Architecture("resnet18", 3, 10, size).build() for size in (32, 224)}
    for size, model in resnet.items():
        inspect(model)
        for what, images in (("stand-ins", None), ("64 images of the client's", torch.rand(64, 3, size, size))):
            taken = [inspect(model, images=images).seconds for _ in range(3)]
            print(f"ResNet-18, {size} px, {what}: {min(taken):.2f} s (bar 1)", flush=True)
    torch.manual_seed(SEED)  # of layers that are left as torch makes them
    measured(crafted(aux, SEED), refuse=True)
    measured(islice(honest(aux, SEED), 0, None, 2), refuse=False)


if __name__ == "__main__":
    main()
