"""Other patients in the place of a client: several victims, so that a number has an interval."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from fluoroscope.errors import Misconfigured
from fluoroscope.federation.client_round import client_round
from fluoroscope.federation.task import Task
from fluoroscope.types import PrivateBatch, State, UpdateRecord


def held_out_indices(task: Task, clients: int, each: int) -> list[list[int]]:
    """The test images of so many clients with `each` images, every one of another patient, by their place in the set.

    A client's first image is the same however many follow it.
    """
    batch = task.images.batch
    by_patient = {batch.patients[i]: i for i in reversed(task.partition.test)}
    chosen = sorted(by_patient.values())
    if len(chosen) < clients * each:
        raise Misconfigured(
            f"{clients} clients of {each} held-out images need {clients * each} patients in the test set, which "
            f"has {len(chosen)}; give a larger data set."
        )
    firsts, rest = chosen[:clients], chosen[clients:]
    others = [rest[i * (each - 1) : (i + 1) * (each - 1)] for i in range(clients)]
    return [[first, *more] for first, more in zip(firsts, others, strict=True)]


def other_patients(task: Task, victims: Sequence[PrivateBatch], most: int) -> list[Tensor]:
    """Images of patients who are none of the victims, in sets of a victim's size: what a guess is told apart from.

    Of the test set, as many sets as it holds, up to `most`; where it holds none, of all the clients' images.
    """
    images, each = task.images.batch, len(victims[0])
    known = {patient for victim in victims for patient in victim.patients}
    held_out = [i for i in task.partition.test if images.patients[i] not in known]
    held_by_clients = [i for client in task.clients for i in (*client.train, *client.validation)]
    if len(held_out) < each:
        held_out += [i for i in dict.fromkeys(held_by_clients) if images.patients[i] not in known]
    sets = min(most, len(held_out) // each)
    return [images.images[held_out[i * each : (i + 1) * each]] for i in range(sets)]


def stand_in_round(
    task: Task,
    state: State,
    server_round: int,
    victims: PrivateBatch,
    batch_size: int,
    rng: torch.Generator,
    client: str,
) -> UpdateRecord:
    """What a client with these images alone would send in that round: the plan's strategy and defences behind it."""
    usual = task.local_training(0, task.round_config(server_round))  # clients differ in their images alone
    training = replace(usual, images=len(victims), batch_size=batch_size)
    done = client_round(
        task.network, state, victims, training, rng, task.defence, server_round=server_round, client=client
    )
    return done.record
