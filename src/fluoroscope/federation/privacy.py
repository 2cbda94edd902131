"""What a federation's defences promise each client, and for how many rounds its budget lasts."""

import math

from flwr.serverapp.strategy import FedAvg, FedAvgM, Strategy
from flwr.serverapp.strategy.fedopt import FedOpt

from fluoroscope.defences import Participation
from fluoroscope.defences.accounting import affordable
from fluoroscope.errors import Misconfigured
from fluoroscope.federation.client_round import has_scalars
from fluoroscope.federation.strategies import build_strategy
from fluoroscope.federation.task import Task
from fluoroscope.federation.wrapper import innermost
from fluoroscope.types import LocalTraining, PrivacyClaim


def forms_mean(task: Task) -> bool:
    """Whether the strategy's result is the mean of what the clients sent, weighted by their images."""
    return _is_mean(_strategy(task))


def participation(task: Task, training: LocalTraining, rounds: int) -> Participation:
    """How a client that trains like this takes part in so many rounds, in the company that weighs it most."""
    strategy, cohort = _strategy(task), task.defence.cohort
    # Noise on the mean makes all that an optimiser at the server does with it post-processing; a median is no mean.
    early = cohort is not None and cohort.before_optimiser and isinstance(strategy, FedAvgM | FedOpt)
    images = heaviest_cohort(task)
    share = images[0] / sum(images) if early or _is_mean(strategy) else None
    open_buffers = bool(task.moving_buffers) and not task.defence.withholds_statistics
    state = task.initial_state
    values = sum(value.numel() for value in state.values())
    return Participation(training, rounds, len(images), share, open_buffers, values, has_scalars(state))


def heaviest_cohort(task: Task) -> list[int]:
    """The images of each client of a round: the largest among the smallest others. No cohort gives anyone more
    weight."""
    held = sorted(len(client.train) for client in task.clients)
    sampled = max(1, int(len(held) * task.plan.strategy.fraction))
    return [held[-1], *held[: sampled - 1]]


def claimed(task: Task, training: LocalTraining, rounds: int) -> PrivacyClaim:
    """The claim for a client that has trained like this in so many rounds."""
    return task.defence.claim(participation(task, training, rounds))


def rounds_within_budget(task: Task) -> int:
    """As many of the planned rounds as no client's epsilon exceeds the plan's."""
    budget, planned = task.plan.privacy.epsilon, task.plan.rounds
    if budget is None:
        return planned
    trainings = [_training(task, client) for client in range(len(task.clients))]

    def spent(rounds: int) -> float:
        found = [claimed(task, training, rounds).epsilon for training in trainings]
        return max(math.inf if value is None else value for value in found)

    if math.isinf(spent(1)):
        raise Misconfigured(
            f"privacy.epsilon = {budget:g} needs a defence that counts it, and this plan's claims: "
            f"{claimed(task, trainings[0], 1).statement}. Use dp-sgd, clip-and-noise or central-dp with noise."
        )
    rounds = affordable(planned, budget, spent)
    if not rounds:
        raise Misconfigured(
            f"privacy.epsilon = {budget:g} does not last for one round, which costs {spent(1):.3g}: raise the noise "
            "or the budget."
        )
    return rounds


def _strategy(task: Task) -> Strategy:
    said = task.plan.strategy
    return innermost(build_strategy(said.name, said.settings, len(task.clients), said.fraction))


def _is_mean(strategy: Strategy) -> bool:
    inherited = isinstance(strategy, FedAvg) and type(strategy).aggregate_train is FedAvg.aggregate_train
    return inherited and strategy.weighted_by_key == "num-examples"  # type: ignore[attr-defined]  # FedAvg has it


def _training(task: Task, client: int) -> LocalTraining:
    split, settings = task.clients[client], task.plan.training
    return task.training(len(split.train), split.batch_size or settings.batch_size, settings.epochs, settings.lr)
