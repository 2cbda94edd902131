"""Hostile nodes: whatever one sends is refused with a sentence, or harmless; the others are as they were."""

import copy
import math
import os
import random
import string
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, MessageType

from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.federation import run as run_module
from fluoroscope.federation.client import client_app
from fluoroscope.federation.grid import InProcessGrid
from fluoroscope.federation.messages import to_arrays
from fluoroscope.federation.recorder import Recorder
from fluoroscope.federation.replies import MOST, ReplyCheck
from fluoroscope.federation.run import federate
from fluoroscope.federation.store import RecordStore
from fluoroscope.federation.strategies import build_strategy
from fluoroscope.federation.task import load_task

from .conftest import digests, plan_of
from .hostile import ANY, ON_THE_WIRE, TRAINING, VALIDATION, Hostile, first, metrics, sender, with_records
from .loopback import Loopback, free_port
from .test_deployment import APP, TOML

ROOT = Path(__file__).parents[2]


class Round:
    """One honest round of three clients, to be spoilt."""

    def __init__(self):
        plan = plan_of(rounds=1, data={"images": 60})
        self.task = load_task(plan)
        self.arrays = to_arrays(self.task.initial_state)
        grid = InProcessGrid(client_app(lambda context: plan), 3, lambda reply: None)
        strategy = build_strategy("fedavg", {}, 3)
        self.replies = {}
        for kind, configure in (("train", strategy.configure_train), ("evaluate", strategy.configure_evaluate)):
            asked = configure(1, self.arrays, ConfigRecord({"server-round": 1}), grid)
            self.replies[kind] = list(grid.send_and_receive(asked))

    def answers(self, kind, replies, owners=None):
        check = ReplyCheck(self.task, {2: 0, 3: 1, 4: 2} if owners is None else owners)
        if kind == "train":
            return check.trained([2, 3, 4], replies, self.arrays)
        return check.validated([2, 3, 4], replies)

    def spoilt(self, kind, behave):
        honest = copy.deepcopy(self.replies[kind])
        answer = behave(honest[0])
        return [*(answer if isinstance(answer, list) else [answer]), *honest[1:]]


@pytest.fixture(scope="module")
def honest() -> Round:
    return Round()


CASES = [
    *(pytest.param("train", behave, id=f"train: {name}") for name, behave in {**ANY, **TRAINING}.items()),
    *(pytest.param("evaluate", behave, id=f"evaluate: {name}") for name, behave in {**ANY, **VALIDATION}.items()),
]


def test_honest_replies_are_taken(honest):
    for kind in ("train", "evaluate"):
        for owners in (None, {}):
            answers = honest.answers(kind, honest.replies[kind], owners)
            assert list(answers.good) == [0, 1, 2]
            assert not answers.refused


@pytest.mark.parametrize(("kind", "behave"), CASES)
def test_a_hostile_reply_is_refused_with_its_reason(honest, kind, behave):
    answers = honest.answers(kind, honest.spoilt(kind, behave))
    assert 0 not in answers.good
    assert 2 in answers.good, "the others are as they were"
    assert "client-1" in answers.refused
    for who, why in answers.refused.items():
        assert who.startswith(("client-", "node "))
        assert 3 < len(why) < 700
        assert "Traceback" not in why
        assert why.isprintable()


@pytest.mark.parametrize(("kind", "behave"), CASES)
def test_so_it_is_where_nobody_knows_the_nodes(honest, kind, behave):
    """As on the wire in the first round: a node that says it is another is not believed, and neither is the other."""
    answers = honest.answers(kind, honest.spoilt(kind, behave), owners={})
    assert 0 not in answers.good
    assert answers.refused


def test_nodes_that_swap_their_names_are_refused(honest):
    replies = copy.deepcopy(honest.replies["train"])
    for reply, said in zip(replies, (1, 0), strict=False):
        sender(client=said)(reply)
    assert set(honest.answers("train", replies).refused) == {"client-1", "client-2"}


def test_a_node_is_bound_to_whom_it_was_first(honest):
    check = ReplyCheck(honest.task)
    assert len(check.trained([2, 3, 4], copy.deepcopy(honest.replies["train"]), honest.arrays).good) == 3
    replies = copy.deepcopy(honest.replies["train"])
    for reply, said in zip(replies, (1, 0), strict=False):
        sender(client=said)(reply)
    again = check.trained([2, 3, 4], replies, honest.arrays)
    assert list(again.good) == [2]
    assert "answered as client-2, and it is client-1" in again.refused["client-1"]


def test_what_is_odd_and_harmless_is_taken(honest):
    """Another order in memory, the largest weight, an AUC that nobody can compute."""
    for kind, behave in (
        ("train", first(np.asfortranarray)),
        ("train", first(lambda array: np.full_like(array, MOST))),
        ("evaluate", metrics(auc=float("nan"))),
        ("evaluate", metrics(loss=float("nan"))),
    ):
        assert not honest.answers(kind, honest.spoilt(kind, behave)).refused


def number(draw: random.Random) -> float | int:
    whole = draw.choice([0, 1, -1, draw.randrange(-(2**63), 2**63), 2**63 - 1])
    parts = [draw.gauss(0, 1), draw.random(), math.nan, math.inf, -math.inf, 1e308, 5e-324, -0.0]
    return draw.choice([whole, draw.choice(parts)])


def anything(draw: random.Random):
    length = draw.randrange(4)
    return draw.choice([
        number(draw), draw.random() < 0.5, draw.randbytes(length), [number(draw)] * length, [],
        "".join(draw.choices(string.printable, k=length)),
    ])  # fmt: skip


def test_whatever_a_node_says_that_it_is(honest):
    draw = random.Random(0)
    for _ in range(200):
        try:
            behave, said = sender(client=(said := anything(draw))), said
            spoilt = honest.spoilt("train", behave)
        except (TypeError, ValueError):
            continue  # Flower itself does not let it be said
        answers = honest.answers("train", spoilt)
        assert (0 in answers.good) == (type(said) is int and said == 0)
        assert {1, 2} <= set(answers.good)


@pytest.mark.parametrize("kind", ["train", "evaluate"])
def test_whatever_a_node_counts(honest, kind):
    draw = random.Random(1)
    for _ in range(200):
        key = draw.choice(["num_examples", "loss", "accuracy", "f1", "auc", "images"])
        value = draw.choice([number(draw), [number(draw)] * draw.randrange(3)])
        answers = honest.answers(kind, honest.spoilt(kind, metrics(**{key: value})))
        assert {1, 2} <= set(answers.good)
        for client, reply in answers.good.items():
            found, held = reply.content["metrics"], honest.task.clients[client]
            assert found["num-examples"] == len(held.train if kind == "train" else held.validation)
            assert kind == "train" or 0 <= found["accuracy"] <= 1


def test_whatever_bytes_a_node_sends(honest):
    draw = random.Random(2)
    for _ in range(200):
        array = next(iter(honest.replies["train"][0].content["arrays"].values()))
        data = bytearray(array.data)
        for _ in range(draw.randrange(1, 9)):  # the header is in the first bytes, and numbers may be changed to others
            data[draw.randrange(64 if draw.random() < 0.7 else len(data))] = draw.randrange(256)
        del data[draw.choice([len(data), draw.randrange(len(data))]) :]

        def behave(reply, data=bytes(data), array=array):
            arrays = dict(reply.content["arrays"].items())
            arrays[next(iter(arrays))] = Array(dtype=array.dtype, shape=array.shape, stype=array.stype, data=data)
            return with_records(reply, arrays=ArrayRecord(arrays))

        answers = honest.answers("train", honest.spoilt("train", behave))
        assert {1, 2} <= set(answers.good)
        for reply in answers.good.values():
            for name, found in reply.content["arrays"].items():
                value = found.numpy()
                assert value.shape == honest.arrays[name].numpy().shape
                assert np.isfinite(value).all()
                assert abs(value).max() <= MOST


# --- whole federations ---------------------------------------------------------------------------------------------


def hostile(monkeypatch, kind, behave, rounds=(1,)):
    def app(plan_of, device="cpu", threads=None):
        return Hostile(client_app(plan_of, device, threads), kind, behave, rounds)

    monkeypatch.setattr(run_module, "client_app", app)


SMALL = {"rounds": 2, "data": {"images": 60}}


def test_a_refused_reply_stops_the_run_before_anything_of_the_round_is_written(tmp_path, monkeypatch):
    whole = digests(federate(plan_of(**SMALL), tmp_path / "whole").folder)
    hostile(monkeypatch, MessageType.TRAIN, first(lambda array: array * np.nan), rounds=(2,))
    with pytest.raises(BadInput, match=r"round 2: client-1 sent values of .* not finite.* run the same command again"):
        federate(plan_of(**SMALL), tmp_path / "run")
    assert RecordStore(tmp_path / "run").rounds() == [0, 1]
    monkeypatch.undo()
    assert digests(federate(plan_of(**SMALL), tmp_path / "run").folder) == whole, "the round can be repeated"


def test_a_validation_without_accuracy_does_not_end_a_run_for_ever(tmp_path, monkeypatch):
    hostile(monkeypatch, MessageType.EVALUATE, metrics(accuracy=None))
    with pytest.raises(BadInput, match="client-1 did not send 'accuracy' among its metrics"):
        federate(plan_of(**SMALL), tmp_path / "run")
    monkeypatch.undo()
    assert federate(plan_of(**SMALL), tmp_path / "run").rounds() == [0, 1, 2]


def test_a_run_that_ends_in_an_error_writes_nothing_afterwards(tmp_path, monkeypatch):
    write = RecordStore.write_file

    def slowly(store, server_round, name, state):
        time.sleep(1 if server_round else 0)
        return write(store, server_round, name, state)

    monkeypatch.setattr(RecordStore, "write_file", slowly)
    hostile(monkeypatch, MessageType.EVALUATE, metrics(accuracy=None))
    with pytest.raises(BadInput, match="did not send 'accuracy'"):
        federate(plan_of(**SMALL), tmp_path / "run")
    left = digests(tmp_path / "run")
    time.sleep(2)
    assert digests(tmp_path / "run") == left


def test_with_min_clients_a_run_goes_on_and_the_manifest_tells(tmp_path, monkeypatch):
    plan = plan_of(**SMALL, strategy={"min_clients": 2})
    hostile(monkeypatch, MessageType.TRAIN, metrics(num_examples=10**9))
    store, task = federate(plan, tmp_path / "run"), load_task(plan)
    entry = store.manifest(1)
    assert set(entry.clients) == {"client-2", "client-3"}
    assert entry.refused["client-1"].startswith("training: says that it has 1000000000 images, and it has")
    assert set(entry.took_part) == {"client-1", "client-2", "client-3"}
    assert not store.manifest(2).refused
    assert not (store.folder / "rounds/0001/client-1.safetensors").exists()
    images = torch.tensor([float(len(client.train)) for client in task.clients[1:]])
    sent = [store.load(1, name) for name in ("client-2", "client-3")]
    for name, value in store.global_state(1).items():
        if value.is_floating_point():
            everything = [{**r.state_after, **r.buffers_after}[name].double() for r in sent]
            mean = sum(w * v for w, v in zip(images / images.sum(), everything, strict=True))
            torch.testing.assert_close(value.double(), mean, atol=1e-6, rtol=1e-5)


def test_a_run_that_was_stopped_can_go_on_without(tmp_path, monkeypatch):
    hostile(monkeypatch, MessageType.TRAIN, metrics(num_examples=10**9), rounds=(2,))
    with pytest.raises(BadInput, match=r"set strategy.min_clients to go on without"):
        federate(plan_of(**SMALL), tmp_path / "run")
    store = federate(plan_of(**SMALL, strategy={"min_clients": 2}), tmp_path / "run")
    assert [len(store.manifest(r).clients) for r in store.rounds()] == [0, 3, 2]


def test_too_few_are_too_few(tmp_path, monkeypatch):
    hostile(monkeypatch, MessageType.TRAIN, metrics(num_examples=10**9))
    with pytest.raises(BadInput, match=r"2 of 3 clients answered as agreed in training, and strategy.min_clients = 3"):
        federate(plan_of(**SMALL, strategy={"min_clients": 3}), tmp_path / "run")
    with pytest.raises(Misconfigured, match="min_clients = 4, and 3 clients are asked"):
        federate(plan_of(**SMALL, strategy={"min_clients": 4}), tmp_path / "other")


@pytest.mark.parametrize(("said", "seconds"), [({}, 86_400.0), ({"round_minutes": 0.5}, 30.0)])
def test_how_long_a_silent_node_is_waited_for(tmp_path, monkeypatch, said, seconds):
    waited = []

    def start(self, grid, arrays, start=Recorder.start, **told):
        waited.append(told["timeout"])
        return start(self, grid, arrays, **told)

    monkeypatch.setattr(Recorder, "start", start)
    federate(plan_of(**SMALL, strategy=said), tmp_path / "run")
    assert waited == [seconds]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "behave"), CASES)
def test_a_whole_federation_meets_each(tmp_path, monkeypatch, kind, behave):
    """Refused in a sentence, and then repeated: a run can always go on."""
    hostile(monkeypatch, MessageType.TRAIN if kind == "train" else MessageType.EVALUATE, behave)
    with suppress(BadInput):
        federate(plan_of(**SMALL), tmp_path / "run")
    monkeypatch.undo()
    assert federate(plan_of(**SMALL), tmp_path / "run").rounds() == [0, 1, 2]


NODES = """
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fluoroscope.federation import app
from tests.federation.hostile import ON_THE_WIRE


class Hostile(ClientApp):
    def __call__(self, message: Message, context: Context) -> Message:
        honest = app.client(message, context)
        if context.node_config["partition-id"] or not honest.has_content() or "arrays" not in honest.content:
            return honest
        return list(ON_THE_WIRE.values())[message.content["config"]["server-round"] - 1](honest)


client = Hostile()
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_over_the_wire_a_run_goes_on_without_a_hostile_node(tmp_path):
    """One run, in each round of which one of three nodes does something else."""
    rounds = len(ON_THE_WIRE)
    plan = TOML.replace("rounds = 1", f"rounds = {rounds}\nevaluate_every = {rounds}").replace("160", "60")
    plan = plan.replace("clients = 2", "clients = 3") + '[strategy]\nmin_clients = 2\n[records]\nrounds = "none"\n'
    (tmp_path / "plan.toml").write_text(plan)
    (tmp_path / "app").mkdir()
    about = (APP / "pyproject.toml").read_text().replace("fluoroscope.federation.app:client", "hostile_nodes:client")
    (tmp_path / "app/pyproject.toml").write_text(about)
    (tmp_path / "app/hostile_nodes.py").write_text(NODES)
    with ExitStack() as stack:
        here = Loopback(tmp_path, stack)
        here.environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        here.superlink("--insecure")
        for i in range(3):
            node = ["flower-supernode", "--insecure", "--superlink", f"127.0.0.1:{here.port}"]
            config = f"partition-id={i} num-partitions=3"
            here.start(*node, "--port", str(free_port()), "--node-config", config, name=f"node-{i}")
        settings = f'plan="{tmp_path / "plan.toml"}" out="{tmp_path / "records"}"'
        said = here.flwr("run", str(tmp_path / "app"), "here", "--run-config", settings, "--stream", seconds=800)
        assert (tmp_path / "records/result.json").exists(), said[-3000:]
    assert "Traceback" not in said
    store = RecordStore(tmp_path / "records")
    for number, name in enumerate(ON_THE_WIRE, start=1):
        manifest = store.manifest(number)
        assert set(manifest.clients) == {"client-2", "client-3"}, name
        ((_, why),) = manifest.refused.items()
        assert why.startswith("training: "), name
