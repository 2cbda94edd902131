"""Which simulated client an observation is given, and which observations run as one computation."""

from collections.abc import Iterable, Sequence

from torch import Tensor

from fluoroscope.attacks.common.gradients import is_exact
from fluoroscope.attacks.gradient_inversion.objective import Objective, OneStep
from fluoroscope.attacks.gradient_inversion.row_layout import Client, RowEvaluate, one_by_one
from fluoroscope.attacks.gradient_inversion.simulated_clients.global_model import GlobalModel, ModelObjective
from fluoroscope.attacks.gradient_inversion.simulated_clients.interpolated import Interpolated
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
    """Indices of observations that run side by side: those of one network and size that can be vectorised.

    Any other runs by itself: a network that fills the machine gains nothing from a neighbour.
    """
    kinds: dict[object, list[int]] = {}
    fit: dict[object, bool] = {}
    for i, observation in enumerate(observations):
        kind = (observation.network, observation.training)
        if kind not in fit:
            fit[kind] = can_vectorise(client_for(observation, objective))
        kinds.setdefault(kind if fit[kind] else i, []).append(i)
    return list(kinds.values())


def row_evaluation(first: Client, others: Iterable[Client], owner: Tensor, memory: int) -> RowEvaluate:
    """Evaluates row i by client `owner[i]` of one block; `memory` in bytes bounds what is evaluated at once."""
    if len(owner) > 1 and can_vectorise(first):
        kind = Swept if can_sweep(first) else Vectorised
        return kind(first, others, owner, memory)
    clients = [first, *others]
    return one_by_one([clients[int(i)] for i in owner])
