"""Membership by all rounds of a client: how steeply a record's loss falls over the models that the client sends.

A hard image that was trained on ends with the loss of an easy one that was not, so the last model alone mixes them up.
Where the loss began tells them apart: a server keeps every model (rounds as evidence: Nasr, Shokri and Houmansadr, S&P
2019; the difficulty of a record: Watson et al., ICLR 2022).
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Generator, Tensor

from fluoroscope.attacks.inference.registry import INFERENCE_ATTACKS, Pool, Seen
from fluoroscope.attacks.inference.seen_model import MODEL, SeenModel, seen_models
from fluoroscope.types import Capability, LabelledImages, Observation


@dataclass(frozen=True)
class LossTrajectory:
    """Minus the least-squares slope of a record's loss, over the model that a client first received and all it sent.

    Of one round that is by how much the round has lowered the loss.
    """

    needs: ClassVar[frozenset[Capability]] = MODEL | {Capability.UPDATE}

    def run(self, observations: Seen, candidates: LabelledImages, rng: Generator, pool: Pool = None) -> Tensor:
        """A row per observation: the evidence of this round and of the same client's before it in the list.

        A client is known by the observation's cohort; rounds are given in their order.
        """
        models = seen_models("trajectory", observations, self.needs)
        so_far: dict[tuple[str, ...], list[Tensor]] = {}
        rows = []
        for seen, model in zip(observations, models, strict=True):
            losses = so_far.setdefault(seen.cohort, [_received(seen).losses(candidates)])
            losses.append(model.losses(candidates))
            rows.append(-slopes(torch.stack(losses)))
        return torch.stack(rows)


def slopes(values: Tensor) -> Tensor:
    """(n,): the least-squares slope of each column of (times, n), over equal steps of time.

    Example:
        >>> import torch
        >>> slopes(torch.tensor([[3.0, 0.0], [2.0, 0.0], [1.0, 3.0]])).tolist()
        [-1.0, 1.5]
    """
    times = torch.arange(len(values), dtype=values.dtype)
    times = times - times.mean()
    return (times[:, None] * values).sum(0) / times.square().sum()


def _received(seen: Observation) -> SeenModel:
    return SeenModel.of(replace(seen, update=None, buffers_after=None))


INFERENCE_ATTACKS.add("trajectory", LossTrajectory())
