"""What a federation's defences promise each client, and for how many rounds its budget lasts."""

import math

from fluoroscope.defences import Participation
from fluoroscope.defences.accounting import affordable
from fluoroscope.errors import Misconfigured
from fluoroscope.federation.task import Task
from fluoroscope.types import LocalTraining, PrivacyClaim

MEANS = ("fedavg", "fedprox", "fedopt")
"""Strategies whose result is a weighted mean of what the clients sent."""


def claimed(task: Task, training: LocalTraining, rounds: int) -> PrivacyClaim:
    """The claim for a client that has trained like this in so many rounds."""
    held = sorted(len(client.train) for client in task.clients)
    sampled = max(1, int(len(held) * task.plan.strategy.fraction))
    # The largest client among the smallest others: no cohort gives anyone more weight.
    largest = held[-1] / (held[-1] + sum(held[: sampled - 1]))
    name, cohort = task.plan.strategy.name, task.defence.cohort
    # Noise on the mean makes all that a strategy does with it post-processing; a median is no mean.
    bounded = name in MEANS or (cohort is not None and cohort.before_optimiser and name != "fedmedian")
    share = largest if bounded else None
    return task.defence.claim(Participation(training, rounds, sampled, share))


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
            f"{claimed(task, trainings[0], 1).statement}. Use dp-sgd, clip-and-noise or global-dp with noise."
        )
    rounds = affordable(planned, budget, spent)
    if not rounds:
        raise Misconfigured(
            f"privacy.epsilon = {budget:g} does not last for one round, which costs {spent(1):.3g}: raise the noise "
            "or the budget."
        )
    return rounds


def _training(task: Task, client: int) -> LocalTraining:
    split, settings = task.clients[client], task.plan.training
    return task.training(len(split.train), split.batch_size or settings.batch_size, settings.epochs, settings.lr)
