"""What a reading of label counts misses, and why: the order of the batches, or which images a hospital has.

    python examples/frontier/counts.py --data folder:cxr-nih-64 --seed 2

Hospitals of 500 images, drawn from all that is not public, train round 1 of `fluoroscope study run frontier/hospital`,
each several times, with its batches in another order; `learned-counts` reads every one of these rounds.
"""

import argparse
import time
from dataclasses import replace

import torch
from torch import Tensor

from fluoroscope import process_tuning
from fluoroscope.attacks.inference.learned_counts import LearnedCounts, dealt
from fluoroscope.federation.client_round import client_round
from fluoroscope.federation.task import Task, load_task
from fluoroscope.rng import generator
from fluoroscope.studies.frontier.hospital import hospital_plan
from fluoroscope.threat_models import THREATS, observe
from fluoroscope.types import LabelledImages, Observation

IMAGES = 500
SHARES = (0.4, 0.3, 0.5, 0.4, 0.35, 0.45, 0.2, 0.6, 0.4, 0.3, 0.5, 0.7)
"""Of the last class: the normal hospital has .4."""


def main() -> None:
    """Play the hospitals, read them, and tell the parts of the error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="phantom/chest", help="a source of images, as in `fluoroscope data show`")
    parser.add_argument(
        "--scale", choices=("small", "paper"), default="small", help="paper: sets of 3000 images and more"
    )
    parser.add_argument("--size", type=int, default=64, help="pixels; of 32 a round takes a third of the time")
    parser.add_argument("--public", type=int, default=150, help="public images, as many of each class")
    parser.add_argument("--simulations", type=int, default=72)
    parser.add_argument("--orders", type=int, default=3, help="rounds of each hospital")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    process_tuning.apply()
    begun = time.process_time()
    plan = hospital_plan(asked.scale, asked.data, asked.seed)
    task = load_task(plan.model_copy(update={"data": plan.data.model_copy(update={"size": asked.size})}))
    seen = hospitals(task, public_images(task, asked.public), asked.orders, asked.seed)
    read = LearnedCounts(asked.simulations).shares(seen, generator(asked.seed, "counts", "attack"))
    last = [row[-1] for row in read]
    truth = torch.tensor(SHARES).repeat_interleave(asked.orders)
    covered = sum(s.low <= t <= s.high for s, t in zip(last, truth.tolist(), strict=True)) / len(last)
    missed = torch.tensor([share.value for share in last]) - truth
    tell(missed.view(len(SHARES), -1), torch.tensor(SHARES))
    print(f"intervals that hold: {covered:.2f}; {time.process_time() - begun:.0f} s of a processor")


def public_images(task: Task, count: int) -> LabelledImages:
    """So many of the plan's public images, the classes alike."""
    known = task.public_images
    assert known is not None  # the plan has some
    places = [(known.labels == c).nonzero()[: count // 2, 0] for c in range(2)]
    chosen = torch.cat(places)
    return LabelledImages(known.images[chosen], known.labels[chosen], ("",) * len(chosen))


def hospitals(task: Task, public: LabelledImages, orders: int, seed: int) -> list[Observation]:
    """What a curious server sees of them, one hospital's rounds after another's."""
    labels, known = task.images.batch.labels, set(task.partition.auxiliary)
    pool = torch.tensor([i for i in range(len(labels)) if i not in known])
    classes = [pool[labels[pool] == c] for c in range(2)]
    training = replace(task.local_training(0, task.round_config(1)), images=IMAGES)
    seen = []
    for number, share in enumerate(SHARES):
        ill = round(share * IMAGES)
        batch = task.images.batch.subset(dealt(classes, (IMAGES - ill, ill), generator(seed, "counts", number)))
        for order in range(orders):
            rng = generator(seed, "counts", number, order)
            record = client_round(task.network, task.initial_state, batch, training, rng, task.defence).record
            known_to = THREATS.get("curious-server")
            seen.append(observe(record, known_to, task.public_mean, public_images=public, defence=task.defence))
    return seen


def tell(missed: Tensor, shares: Tensor) -> None:
    """Of (hospitals, orders): by orders within a hospital, by hospitals beside that, and along a straight line."""
    order = missed.var(1).mean()
    line = torch.stack([torch.ones_like(shares), shares - 0.4], 1)
    fitted = torch.linalg.lstsq(line, missed.mean(1, keepdim=True)).solution[:, 0]
    left = missed.mean(1) - line @ fitted
    images = (left.square().sum() / (len(shares) - 2) - order / missed.shape[1]).clamp_min(0)
    within = missed.abs() <= 0.1 * torch.minimum(shares, 1 - shares)[:, None] + 1e-9
    normal = (shares - 0.4).abs() < 1e-6
    whole, own = (each.square().mean().sqrt() for each in (missed, missed[normal]))
    print(f"root mean square error of a share {whole:.3f}, of .4 {own:.3f}")
    print(f"by the order of the batches {order.sqrt():.3f}, by which images {images.sqrt():.3f}")
    print(f"at .4 off by {fitted[0]:+.3f} on average, and by {fitted[1]:+.2f} times what a share is above it")
    print(f"both counts within 10 %: {within.double().mean():.2f}, of .4 {within[normal].double().mean():.2f}")


if __name__ == "__main__":
    main()
