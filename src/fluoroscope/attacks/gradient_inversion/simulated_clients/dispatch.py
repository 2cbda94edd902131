"""Which simulated client an observation is given, and which observations run as one computation."""

from collections.abc import Callable, Iterable, Sequence

from torch import Tensor

from fluoroscope.attacks.common.gradients import is_exact
from fluoroscope.attacks.gradient_inversion.objective import Objective, OneStep
from fluoroscope.attacks.gradient_inversion.row_layout import Client, RowEvaluate, one_by_one
from fluoroscope.attacks.gradient_inversion.simulated_clients.global_model import GlobalModel, ModelObjective
from fluoroscope.attacks.gradient_inversion.simulated_clients.interpolated import Interpolated
from fluoroscope.attacks.gradient_inversion.simulated_clients.one_image_each import (
    OneImageEach,
    begin_alike,
    can_share_a_batch,
)
from fluoroscope.attacks.gradient_inversion.simulated_clients.p1_public_code import P1PublicCode, P1PublicCodeClient
from fluoroscope.attacks.gradient_inversion.simulated_clients.swept import Swept, can_sweep
from fluoroscope.attacks.gradient_inversion.simulated_clients.unrolled import Unrolled
from fluoroscope.attacks.gradient_inversion.simulated_clients.vectorised import Vectorised, can_vectorise
from fluoroscope.types import Observation

AnyObjective = Objective | ModelObjective | P1PublicCode
"""What an attack may minimise."""


def client_for(observation: Observation, objective: AnyObjective) -> Client:
    """The client whose round the objective compares with what was seen."""
    if isinstance(objective, ModelObjective):
        return GlobalModel(observation, objective)
    if isinstance(objective, P1PublicCode):
        return P1PublicCodeClient(observation, objective)
    assert observation.training is not None
    if objective.steps == "merged" or is_exact(observation.training):
        return OneStep(observation, objective)
    kind = Interpolated if objective.steps in ("interpolated", "surrogate") else Unrolled
    return kind(observation, objective)


def blocks(observations: Sequence[Observation], objective: AnyObjective) -> list[list[int]]:
    """Indices of observations that run side by side: those of one network and size that can be vectorised or batched.

    Any other runs by itself: a network that fills the machine gains nothing from a neighbour.
    """
    if len(observations) == 1:
        return [[0]]
    found: list[list[int]] = []
    fit: dict[object, Callable[[Observation, Observation], bool]] = {}
    for i, observation in enumerate(observations):
        kind = _kind(observation)
        if kind not in fit:
            fit[kind] = _companions(client_for(observation, objective))
        for block in found:
            first = observations[block[0]]
            if _kind(first) == kind and fit[kind](first, observation):
                block.append(i)
                break
        else:
            found.append([i])
    return found


def _kind(observation: Observation) -> object:
    return observation.network, observation.training


def _companions(client: Client) -> Callable[[Observation, Observation], bool]:
    """Whether two observations of such a client's kind may stand side by side."""
    if can_vectorise(client):
        return lambda one, other: True
    return begin_alike if can_share_a_batch(client) else lambda one, other: False


def row_evaluation(first: Client, others: Iterable[Client], owner: Tensor, memory: int) -> RowEvaluate:
    """Evaluates row i by client `owner[i]` of one block; `memory` in bytes bounds what is evaluated at once."""
    if len(owner) > 1 and can_vectorise(first):
        kind = Swept if can_sweep(first) else Vectorised
        return kind(first, others, owner, memory)
    if len(owner) > 1 and can_share_a_batch(first):
        return OneImageEach(first, others, owner, memory)
    clients = [first, *others]
    return one_by_one([clients[int(i)] for i in owner])
