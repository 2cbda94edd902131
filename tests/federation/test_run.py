"""Whole federations: the same bytes twice, on every engine, and after a kill."""

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from PIL import Image

from fluoroscope.data import Request, load
from fluoroscope.errors import BadInput, FluoroscopeError, Misconfigured
from fluoroscope.federation import store as store_module
from fluoroscope.federation.checksums import Checksums
from fluoroscope.federation.grid import InProcessGrid
from fluoroscope.federation.local_training import local_training
from fluoroscope.federation.run import federate
from fluoroscope.federation.store import RecordStore
from fluoroscope.federation.strategies import STRATEGIES
from fluoroscope.federation.task import forget_tasks, load_task

from .conftest import digests, plan_of


class Listener:
    def __init__(self):
        self.rounds, self.images = [], 0

    def begin(self, work, done):
        self.work, self.done = work, done

    def advance(self, images, what):
        self.images += images

    def round_done(self, server_round, accuracy, loss):
        self.rounds.append((server_round, accuracy, loss))


def test_one_round_of_fedavg_by_hand(tmp_path):
    """The recorded updates are what local training gives, and the global model is their mean weighted by images."""
    plan = plan_of(rounds=1, partition={"name": "dirichlet", "clients": 3, "auxiliary": 0.0})
    store, task = federate(plan, tmp_path / "run"), load_task(plan)
    images = torch.tensor([float(len(client.train)) for client in task.clients])
    assert len(set(images.tolist())) > 1
    sent = [store.load(1, client.name) for client in task.clients]
    for i, record in enumerate(sent):
        assert record.training.images == images[i]
        config = {"server-round": 1}
        again = local_training(
            task.model, task.initial_state, task.train_batch(i), record.training, task.training_rng(i, config)
        )
        for name, value in record.state_after.items():
            assert torch.equal(value, again.state[name])
    for name, value in store.global_state(1).items():
        everything = [{**r.state_after, **r.buffers_after}[name] for r in sent]
        mean = sum(w * v.double() for w, v in zip(images / images.sum(), everything, strict=True))
        expected = mean if value.is_floating_point() else mean.round()
        torch.testing.assert_close(value.double(), expected, atol=1e-6, rtol=1e-5)


def test_the_same_seed_gives_the_same_bytes(tmp_path, plan):
    first = digests(federate(plan, tmp_path / "a").folder)
    torch.manual_seed(123)
    assert digests(federate(plan, tmp_path / "b").folder) == first
    assert digests(federate(plan_of(seed=1), tmp_path / "c").folder) != first


@pytest.mark.parametrize("strategy", list(STRATEGIES))
def test_every_strategy_goes_on_after_a_stop(tmp_path, strategy, monkeypatch):
    plan = plan_of(strategy={"name": strategy, "fraction": 0.7, "pretrain_epochs": 1}, data={"images": 100})
    whole = digests(federate(plan, tmp_path / "whole").folder)

    def stop(self, manifest, timing, commit=RecordStore.commit):
        if manifest.round == 2:
            raise RuntimeError("the power fails before round 2 is whole")
        commit(self, manifest, timing)

    monkeypatch.setattr(store_module.RecordStore, "commit", stop)
    with pytest.raises(RuntimeError, match="power fails"):
        federate(plan, tmp_path / "stopped")
    monkeypatch.undo()
    assert RecordStore(tmp_path / "stopped").rounds() == [0, 1]
    listener = Listener()
    assert digests(federate(plan, tmp_path / "stopped", progress=listener).folder) == whole
    assert [r for r, _, _ in listener.rounds] == [2, 3]


def test_more_rounds_continue_a_run(tmp_path, plan):
    whole = digests(federate(plan, tmp_path / "whole").folder)
    federate(plan.model_copy(update={"rounds": 1}), tmp_path / "grown")
    assert digests(federate(plan, tmp_path / "grown").folder) == whole
    with pytest.raises(Misconfigured, match="holds 3 rounds already"):
        federate(plan.model_copy(update={"rounds": 2}), tmp_path / "grown")


def test_a_finished_run_is_not_run_again(tmp_path, plan):
    federate(plan, tmp_path / "run")
    listener = Listener()
    federate(plan, tmp_path / "run", progress=listener)
    assert listener.rounds == []
    assert listener.images == 0


@pytest.mark.parametrize("content", ["[]", "null", "{}", '{"rounds": true}', '{"rounds": 1e9}', "[" * 9999, "\ufffd"])
def test_a_result_that_cannot_be_read_is_made_again(tmp_path, content):
    plan = plan_of(rounds=1, data={"images": 60})
    whole = digests(federate(plan, tmp_path / "run").folder)
    (tmp_path / "run/result.json").write_text(content)
    assert digests(federate(plan, tmp_path / "run").folder) == whole


def test_a_finished_run_is_reopened_without_its_images(tmp_path, plan, monkeypatch):
    before = digests(federate(plan, tmp_path / "run").folder)
    with monkeypatch.context() as patch:
        patch.setattr("fluoroscope.federation.run.load_task", lambda plan: pytest.fail("loaded"))
        assert federate(plan, tmp_path / "run").rounds() == [0, 1, 2, 3]
    (tmp_path / "run/result.json").unlink()
    assert digests(federate(plan, tmp_path / "run").folder) == before, "a kill came before the result"
    (tmp_path / "run/result.json").write_text("{")
    assert digests(federate(plan, tmp_path / "run").folder) == before
    monkeypatch.setattr("fluoroscope.federation.server.version", lambda name: "0")
    with pytest.raises(BadInput, match="was begun with"):
        federate(plan, tmp_path / "run")


def test_a_run_leaves_the_number_of_threads_as_it_was(tmp_path, plan):
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        federate(plan.model_copy(update={"rounds": 1}), tmp_path / "run")
        torch.set_num_threads(2)
        assert federate(plan, tmp_path / "run").header.threads == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


def test_progress_adds_up(tmp_path, plan):
    listener = Listener()
    federate(plan, tmp_path / "run", progress=listener)
    assert listener.images == listener.work
    assert [r for r, _, _ in listener.rounds] == [1, 2, 3]
    assert all(math.isfinite(loss) and 0 <= accuracy <= 1 for _, accuracy, loss in listener.rounds)


def test_only_chosen_rounds_and_clients_are_recorded(tmp_path):
    plan = plan_of(records={"rounds": [2], "clients": ["client-1"]})
    store = federate(plan, tmp_path / "run")
    assert {r: store.recorded(r) for r in store.rounds()} == {0: [], 1: [], 2: ["client-1"], 3: []}
    assert store.load(2, "client-1").round == 2
    full = federate(plan_of(), tmp_path / "full")
    ours, theirs = store.load(2, "client-1"), full.load(2, "client-1")
    assert all(torch.equal(ours.arrays[name], value) for name, value in theirs.arrays.items())


def test_learning_rate_decays_by_round(tmp_path):
    plan = plan_of(training={"lr": 0.1, "lr_decay": 0.1, "lr_decay_every": 2})
    store = federate(plan, tmp_path / "run")
    rates = [store.load(r, "client-1").training.optimiser.lr for r in (1, 2, 3)]
    assert rates == pytest.approx([0.1, 0.1, 0.01])


def test_best_model_is_the_one_with_the_best_mean_validation_accuracy(tmp_path):
    store = federate(plan_of(rounds=4), tmp_path / "run")
    result = json.loads((store.folder / "result.json").read_text())
    scores = {r: store.manifest(r).validation_accuracy for r in (1, 2, 3, 4)}
    assert result["best_round"] == max(scores, key=lambda r: (scores[r], -r))
    assert set(result["best"]) == {"accuracy", "f1", "precision", "auc", "loss", "images"}


def test_fedprox_trains_with_its_term(tmp_path):
    """The same federation drifts less with a strong proximal term, and the record says which."""
    long = {"rounds": 1, "training": {"epochs": 8}}
    free = federate(plan_of(**long, strategy={"name": "fedavg"}), tmp_path / "free").load(1, "client-1")
    held = federate(plan_of(**long, strategy={"name": "fedprox", "proximal_mu": 5.0}), tmp_path / "held")
    record = held.load(1, "client-1")
    assert (free.training.proximal_mu, record.training.proximal_mu) == (0.0, 5.0)
    norms = [sum(float(v.square().sum()) for v in r.arrays.values()) for r in (free, record)]
    assert norms[1] < 0.5 * norms[0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": {"name": "resnet-18"}}, "did you mean 'resnet18'"),
        ({"partition": {"name": "p1", "clients": [1, 2], "auxiliary": 0}}, "140 of class 'normal'"),
        ({"partition": {"name": "p4", "auxiliary": 0}}, "'p4' among the partitions"),
        ({"partition": {"sites": 3}}, r"partition iid has no setting 'sites'"),
        ({"partition": {"clients": "three"}}, r"partition iid: clients"),
        ({"strategy": {"name": "fedavgm", "beta": 1}}, "no setting 'beta'"),
        ({"strategy": {"name": "fedavgm", "min_train_nodes": 1}}, "no setting 'min_train_nodes'"),
        ({"strategy": {"name": "fedavgm", "server_momentum": "high"}}, "must be a number, not 'high'"),
        ({"records": {"clients": ["client-7"]}}, "client-7"),
        ({"strategy": {"pretrain_epochs": 1}, "partition": {"auxiliary": 0}}, "pretrain_epochs = 1 needs images"),
        ({"data": {"source": "folder:nowhere"}}, "nowhere"),
    ],
)
def test_what_cannot_work_is_named_before_anything_is_written(tmp_path, changes, message):
    with pytest.raises(FluoroscopeError, match=message):
        federate(plan_of(**changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_failing_client_stops_the_run_by_name(tmp_path, plan, monkeypatch):
    monkeypatch.setattr("fluoroscope.federation.client_round.local_training", lambda *a: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        federate(plan, tmp_path / "run")
    monkeypatch.undo()
    assert federate(plan, tmp_path / "run").rounds() == [0, 1, 2, 3]


def test_a_client_without_validation_images_does_not_silence_the_others(tmp_path):
    partition = {"name": "dirichlet", "clients": 8, "alpha": 0.1, "auxiliary": 0.0}
    plan = plan_of(rounds=1, partition=partition, data={"images": 60})
    task = load_task(plan)
    with_some = {client.name for client in task.clients if client.validation}
    assert 0 < len(with_some) < 8, "the example shows nothing"
    assert set(federate(plan, tmp_path / "run").manifest(1).validation) == with_some


@pytest.mark.parametrize(
    ("lost", "message"), [(True, "2 of 3 clients answered"), (False, "client-1 answered more than once")]
)
def test_missing_and_doubled_clients_stop_the_round(tmp_path, plan, monkeypatch, lost, message):
    def pull(self, message_ids, pull=InProcessGrid.pull_messages):
        replies = pull(self, message_ids)
        return replies[1:] if lost else [replies[0], *replies[:-1]]

    monkeypatch.setattr(InProcessGrid, "pull_messages", pull)
    with pytest.raises(BadInput, match=message):
        federate(plan, tmp_path / "run")


def test_other_images_under_the_same_plan_are_refused(tmp_path):
    images = load("phantom/chest", Request(size=28, images=60)).batch
    for i, (image, label) in enumerate(zip(images.images, images.labels, strict=True)):
        path = tmp_path / f"images/class-{int(label)}/{i:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((image[0].numpy() * 255).astype("uint8")).save(path)
    source = {"source": f"folder:{tmp_path / 'images'}", "size": 28}
    federate(plan_of(rounds=1, data=source, partition={"auxiliary": 0.0}), tmp_path / "run")
    path.unlink()
    forget_tasks()
    for rounds in (1, 2):
        with pytest.raises(BadInput, match="another set of images"):
            federate(plan_of(rounds=rounds, data=source, partition={"auxiliary": 0.0}), tmp_path / "run")


def test_another_plan_does_not_touch_the_records(tmp_path, plan):
    before = digests(federate(plan, tmp_path / "run").folder)
    with pytest.raises(BadInput, match="another plan"):
        federate(plan_of(training={"lr": 0.06}), tmp_path / "run")
    assert digests(tmp_path / "run") == before


PROGRAM = """
import sys
from pathlib import Path
from fluoroscope.federation.plan import Plan
from fluoroscope.federation.run import federate
federate(Plan.model_validate_json(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
"""


def start(plan, out: Path, engine: str = "in-process") -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", PROGRAM, plan.model_dump_json(), str(out), engine])


@pytest.mark.slow
def test_kill_dash_nine_in_the_middle_of_a_run(tmp_path):
    plan = plan_of(rounds=8, strategy={"name": "fedadam"})
    out = tmp_path / "killed"
    running = start(plan, out)
    deadline = time.monotonic() + 120
    while not (out / "rounds/0002").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    done = RecordStore(out).rounds()
    assert 2 <= done[-1] < 8, "killed too early or too late to show anything"
    assert digests(federate(plan, out).folder) == digests(federate(plan, tmp_path / "whole").folder)


def test_two_callers_train_a_run_once(tmp_path, monkeypatch):
    """Each with a lock of its own on the same file: to the system they are as two processes."""
    plan, trained, together = plan_of(rounds=2), [], threading.Barrier(2)

    def counted(*given, real=local_training):
        trained.append(given)
        return real(*given)

    def call() -> RecordStore:
        together.wait(30)
        return federate(plan, tmp_path / "run")

    with monkeypatch.context() as patch, ThreadPoolExecutor(2) as pool:
        patch.setattr("fluoroscope.federation.client_round.local_training", counted)
        one, two = (future.result(timeout=100) for future in [pool.submit(call) for _ in range(2)])
    assert one.rounds() == two.rounds() == [0, 1, 2]
    assert len(trained) == 2 * 3, "every client once a round"
    assert digests(tmp_path / "run") == digests(federate(plan, tmp_path / "alone").folder)


@pytest.mark.slow
def test_two_processes_train_a_run_once(tmp_path):
    plan = plan_of(rounds=3)
    both = [start(plan, tmp_path / "run") for _ in range(2)]
    assert [process.wait(timeout=200) for process in both] == [0, 0]
    assert digests(tmp_path / "run") == digests(federate(plan, tmp_path / "alone").folder)


@pytest.mark.slow
def test_ray_gives_the_same_losses(tmp_path):
    plan = plan_of(rounds=2)
    ours, theirs = federate(plan, tmp_path / "in-process"), RecordStore(tmp_path / "ray")
    # In a process of its own: Ray warns freely, and warnings are errors here.
    running = start(plan, theirs.folder, "ray")
    try:
        assert running.wait(timeout=200) == 0
    finally:
        running.kill()  # what fails here leaves no process behind
        running.wait()
    for r in (1, 2):
        for name, entry in ours.manifest(r).clients.items():
            assert theirs.manifest(r).clients[name].loss == pytest.approx(entry.loss, rel=1e-5)
    assert digests(ours.folder) == digests(theirs.folder)


def test_a_kill_before_the_last_checksum_leaves_no_file_without_one(tmp_path):
    store = federate(plan_of(rounds=1, data={"images": 60}), tmp_path / "run")
    listed = Checksums(store.folder).read()
    assert "result.json" in listed
    Checksums(store.folder).forget("result.json")
    (store.folder / ".checksums.json.part").write_text("{")
    federate(plan_of(rounds=1, data={"images": 60}), tmp_path / "run")
    assert Checksums(store.folder).read() == listed
    assert not (store.folder / ".checksums.json.part").exists()
