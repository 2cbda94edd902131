"""The server's side: a Flower ServerApp that runs a strategy, recorded, from the first or the next round."""

from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from flwr.app import ConfigRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy
from torch import Tensor

from fluoroscope import strict_json
from fluoroscope.defences import WholeStateDefence
from fluoroscope.errors import Misconfigured
from fluoroscope.federation.buffers import AveragedBuffers
from fluoroscope.federation.client import SHARES
from fluoroscope.federation.cohort import DefendedStrategy
from fluoroscope.federation.encrypted import EncryptedSum, check_encryption
from fluoroscope.federation.evaluation import evaluate, with_statistics_of
from fluoroscope.federation.grid import partitions_of
from fluoroscope.federation.local_training import local_training
from fluoroscope.federation.manifest import RunHeader, StoredNetwork
from fluoroscope.federation.messages import to_arrays
from fluoroscope.federation.own_images import is_own, server_task
from fluoroscope.federation.plan import Plan
from fluoroscope.federation.privacy import rounds_within_budget
from fluoroscope.federation.progress import Progress
from fluoroscope.federation.recorder import Recorder
from fluoroscope.federation.store import RecordStore
from fluoroscope.federation.strategies import build_strategy, restore_server_state
from fluoroscope.federation.task import Task, load_task
from fluoroscope.federation.withheld import FillWithheld
from fluoroscope.rng import generator
from fluoroscope.runs.manifest import forget_manifest

TIMEOUT = 24 * 3600.0
"""Seconds that the server waits for one round's replies, where the plan does not say."""


def serve(grid: Grid, plan: Plan, out: Path, device: str, progress: Progress) -> None:
    """Run the rounds that are still missing, then score the best and the last model on the test images."""
    task, owners = server_task(plan, grid) if is_own(plan) else (load_task(plan), partitions_of(grid))
    store = RecordStore(out)
    # All that can be wrong with the plan is found before anything is written.
    strategy = build_strategy(plan.strategy.name, plan.strategy.settings, len(task.clients), plan.strategy.fraction)
    _check_pretraining(task)
    _check_statistics(task)
    if task.defence.training is not None:
        task.defence.training.check(task.model)
    check_encryption(task, task.defence.encryption)
    _check_least(task)
    rounds = rounds_within_budget(task)
    done = max(store.rounds(), default=None)
    if done is not None and done > plan.rounds:
        raise Misconfigured(f"{out} holds {done} rounds already, and rounds = {plan.rounds}; ask for {done} or more.")
    store.begin(_header(task), plan.model_dump(mode="json"), private=is_own(plan) or not task.images.synthetic)
    forget_manifest(out)
    store.remove("result.json")  # it comes last, so where it is, all of the header's plan is done
    with closing(Recorder(_defended(strategy, task), task, store, done or 0, progress, owners)) as recorder:
        if done is None:
            recorder.write_initial(_initial_state(task, device))
            done = 0
        restore_server_state(recorder.inner, store.server_state(done))
        progress.begin(rounds * _work(task), done * _work(task))
        if done < rounds:
            arrays = to_arrays(store.global_state(done))
            told = None if is_own(plan) else ConfigRecord({SHARES: task.shares})
            recorder.start(grid, arrays, num_rounds=rounds - done, timeout=_patience(plan), train_config=told)
    store.write_text("result.json", strict_json.dumps(_result(task, store, rounds, device)))


def _defended(strategy: Strategy, task: Task) -> Strategy:
    """From the inside: the strategy, the cohort's defence, buffers averaged apart, what stayed at home filled in."""
    cohort, seed = task.defence.cohort, task.plan.seed
    if isinstance(cohort, WholeStateDefence) and cohort.covers_buffers:
        averaged: Strategy = DefendedStrategy(AveragedBuffers(strategy, task.buffer_names), cohort, seed)
    else:
        inner = strategy if cohort is None else DefendedStrategy(strategy, cohort, seed)
        averaged = AveragedBuffers(inner, task.buffer_names)
    whole: Strategy = FillWithheld(averaged)
    return whole if task.defence.encryption is None else EncryptedSum(whole, task.defence.encryption)


def _work(task: Task) -> int:
    """Images that pass in a round, on average; a forward pass costs about a third of a training step."""
    trained = sum(len(client.train) for client in task.clients) * task.plan.training.epochs
    evaluated = sum(len(client.validation) // 3 for client in task.clients)
    return int(trained * task.plan.strategy.fraction + evaluated / task.plan.evaluate_every)


def _initial_state(task: Task, device: str) -> dict[str, Tensor]:
    """The architecture's own, or trained on the server's images first (P3: half of the held-out set)."""
    plan, state = task.plan, task.initial_state
    if not plan.strategy.pretrain_epochs:
        return state
    batch = task.images.batch.subset(task.partition.auxiliary)
    training = task.training(len(batch), plan.training.batch_size, plan.strategy.pretrain_epochs, plan.training.lr)
    on_device = {name: value.to(device) for name, value in state.items()}
    return local_training(task.model, on_device, batch, training, generator(plan.seed, "pretraining")).state


def _check_statistics(task: Task) -> None:
    if task.defence.withholds_statistics and not task.partition.auxiliary:
        raise Misconfigured(
            "this plan's defence leaves the server without BatchNorm's statistics; to test the model it estimates them "
            f"on public images, and the partition {task.plan.partition.name!r} gives it none; choose one with an "
            "auxiliary set."
        )


def _patience(plan: Plan) -> float:
    """Seconds that a round's replies are waited for."""
    minutes = plan.strategy.round_minutes
    return TIMEOUT if minutes is None else 60 * minutes


def _check_least(task: Task) -> None:
    least, asked = task.plan.strategy.min_clients, max(1, int(len(task.clients) * task.plan.strategy.fraction))
    if least is not None and least > asked:
        raise Misconfigured(f"strategy.min_clients = {least}, and {asked} clients are asked in a round; lower it.")


def _check_pretraining(task: Task) -> None:
    epochs = task.plan.strategy.pretrain_epochs
    if epochs and not task.partition.auxiliary:
        raise Misconfigured(
            f"strategy.pretrain_epochs = {epochs} needs images at the server, and the partition "
            f"{task.plan.partition.name!r} gives it none; choose one with an auxiliary set."
        )


def _header(task: Task) -> RunHeader:
    return RunHeader(
        plan=task.plan.shown(),
        fingerprint=task.plan.fingerprint,
        data=task.digest,
        architecture=StoredNetwork.of(task.network),
        buffers=sorted(task.buffer_names),
        clients=[client.name for client in task.clients],
        versions=versions(),
        threads=torch.get_num_threads(),
    )


def versions() -> dict[str, str]:
    """Of the software that decides the bytes of a run."""
    return {name: version(name) for name in ("fluoroscope", "torch", "flwr", "numpy", "safetensors")}


def _result(task: Task, store: RecordStore, last: int, device: str) -> dict[str, Any]:
    """Test metrics of the last model and of the best by validation (P1: the one that is reported)."""
    best = store.best_round()
    result: dict[str, Any] = {"rounds": last, "best_round": best, "classes": list(task.images.classes)}
    if task.defence.encryption is not None:
        result["note"] = (
            "the server cannot read the model, so it cannot test it; the clients' validation is in the records"
        )
    if last < task.plan.rounds:
        result["stopped"] = f"after {last} of {task.plan.rounds} rounds: epsilon {task.plan.privacy.epsilon} is spent"
    for key, server_round in {"last": last, "best": best}.items():
        if server_round is None or not task.partition.test or task.defence.encryption is not None:
            result[key] = None
            continue
        state = {name: value.to(torch.device(device)) for name, value in store.global_state(server_round).items()}
        if task.defence.withholds_statistics:
            public = task.images.batch.images[list(task.partition.auxiliary)]
            state = with_statistics_of(task.model, state, public, task.normalisation)
        held_out = task.images.batch.subset(task.partition.test)
        result[key] = dict(evaluate(task.model, state, held_out, task.normalisation))
    return result
