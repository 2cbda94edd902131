"""Homomorphic encryption: the same model, and a server that never holds a plain update."""

import gc

import pytest
import torch
from flwr.app import ArrayRecord, ConfigRecord, MessageType

from fluoroscope.defences import chain
from fluoroscope.defences.homomorphic import HomomorphicEncryption
from fluoroscope.defences.pruning import Pruning
from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.federation import run as run_module
from fluoroscope.federation.client import client_app
from fluoroscope.federation.encrypted import EncryptedSum
from fluoroscope.federation.run import federate
from fluoroscope.federation.store import RecordStore
from fluoroscope.federation.task import load_task
from tests.defences.records import record

from .conftest import plan_of
from .hostile import Hostile, with_records

pytest.importorskip("tenseal")
SMALL = {"data": {"images": 60, "size": 32}, "rounds": 2, "model": {"name": "lenet5"}}


@pytest.fixture
def key(tmp_path):
    return str(tmp_path / "key.bin")


def opened(store, plan):
    """The last global model, as a client with the key reads it."""
    task, encryption = load_task(plan), load_task(plan).defence.encryption
    kept = store.server_state(max(store.rounds()))
    parts = [kept[name].numpy().tobytes() for name in sorted(kept) if name.startswith("sealed/")]
    return encryption.decrypt(parts, store.global_state(max(store.rounds())), task.sealed_names)


def test_a_sum_of_ciphertexts_is_the_sum(key):
    one = record("lenet5")
    defence = HomomorphicEncryption(key)
    sealed = [defence.encrypt(one, weight) for weight in (0.25, 0.75)]
    total = defence.add(defence.public_context(), sealed)
    state = {**one.state_before, **one.buffers_before}
    again = defence.decrypt(total, state, defence.sealed(one))
    for name, value in one.state_after.items():
        torch.testing.assert_close(again[name], value, atol=1e-6, rtol=0)


def test_the_public_context_decrypts_nothing(key):
    import tenseal

    defence = HomomorphicEncryption(key)
    (part, *_) = defence.encrypt(record("lenet5"), 1.0)
    context = tenseal.context_from(defence.public_context())
    assert context.is_public()
    with pytest.raises(ValueError, match="secret"):
        tenseal.ckks_vector_from(context, part).decrypt()


@pytest.mark.parametrize("model", ["lenet5", "small-cnn"])
@pytest.mark.parametrize("layers", [[], ["first"]])
def test_the_model_equals_the_plain_one(tmp_path, key, layers, model):
    setting = {**SMALL, "model": {"name": model}}
    plain = federate(plan_of(**setting), tmp_path / "plain")
    first = next(iter(load_task(plan_of(**setting)).initial_state)).rpartition(".")[0]
    layers = [first for _ in layers]
    plan = plan_of(**setting, defence=[{"name": "homomorphic-encryption", "key": key, "layers": layers}])
    sealed = federate(plan, tmp_path / "sealed")
    again = opened(sealed, plan)
    for name, value in plain.global_state(2).items():
        torch.testing.assert_close(again[name], value, atol=1e-6, rtol=0)
    seen = sealed.load(2, "client-1").state_after
    assert not [name for name in seen if not layers or name.startswith(f"{first}.")]
    # Clients validate the model that they opened.
    ours, theirs = (store.manifest(2).validation["client-1"] for store in (sealed, plain))
    assert ours["loss"] == pytest.approx(theirs["loss"], abs=1e-4)


def test_the_server_holds_no_plain_update(tmp_path, key, monkeypatch):
    """While the server adds, nothing that it was sent, holds or wrote has a sealed layer as the client trained it."""
    plan = plan_of(**SMALL, defence=[{"name": "homomorphic-encryption", "key": key}])
    plain = federate(plan_of(**{**SMALL, "rounds": 1}), tmp_path / "plain")
    secrets = [plain.load(1, client.name).state_after for client in load_task(plan).clients]
    looked = []
    inside = EncryptedSum.aggregate_train

    def look(self, server_round, replies):
        replies = list(replies)
        looked.extend(set(record) for reply in replies for record in reply.content.array_records.values())
        for thing in gc.get_objects():
            if type(thing) is ArrayRecord:
                for name, array in thing.items():
                    held = torch.from_numpy(array.numpy().copy())
                    for secret in secrets:
                        if server_round == 1 and name in secret and held.shape == secret[name].shape:
                            assert not torch.allclose(held, secret[name], atol=1e-7) or torch.equal(
                                held, load_task(plan).initial_state[name]
                            )
        return inside(self, server_round, replies)

    monkeypatch.setattr(EncryptedSum, "aggregate_train", look)
    store = federate(plan, tmp_path / "sealed")
    assert looked
    assert not any(looked), "no reply has a plain array"
    first = load_task(plan).initial_state
    for name, value in store.global_state(2).items():
        torch.testing.assert_close(value, first[name])
    for path in (tmp_path / "sealed").rglob("*"):
        assert path.name != "key.bin"


def test_a_stopped_run_goes_on(tmp_path, key):
    defence = [{"name": "homomorphic-encryption", "key": key}]
    whole = federate(plan_of(**SMALL, defence=defence), tmp_path / "whole")
    federate(plan_of(**{**SMALL, "rounds": 1}, defence=defence), tmp_path / "parts")
    parts = federate(plan_of(**SMALL, defence=defence), tmp_path / "parts")
    a, b = (opened(store, plan_of(**SMALL, defence=defence)) for store in (whole, parts))
    for name, value in a.items():
        torch.testing.assert_close(b[name], value, atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"strategy": {"name": "fedmedian"}}, "needs a mean over all clients"),
        ({"strategy": {"fraction": 0.5}}, "needs a mean over all clients"),
    ],
)
def test_what_a_blind_server_cannot_do_is_refused(tmp_path, key, changes, message):
    with pytest.raises(Misconfigured, match=message):
        federate(plan_of(**SMALL, **changes, defence=[{"name": "homomorphic-encryption", "key": key}]), tmp_path / "x")


def test_nothing_comes_after_it(key):
    with pytest.raises(Misconfigured, match="last to touch"):
        chain(HomomorphicEncryption(key), Pruning(0.5))


def test_a_file_that_is_no_key_is_named(tmp_path):
    path = tmp_path / "bad.bin"
    path.write_bytes(b"nothing")
    with pytest.raises(BadInput, match="is no secret key"):
        HomomorphicEncryption(str(path)).encrypt(record("lenet5"), 1.0)


def test_different_layers_cannot_be_added(key):
    one = record("lenet5")
    defence = HomomorphicEncryption(key)
    many = defence.encrypt(one, 1.0)
    with pytest.raises(BadInput, match="different numbers of ciphertexts"):
        defence.add(defence.public_context(), [many, many[:1]])


@pytest.mark.parametrize(
    "sealed",
    [
        None,
        {"ciphertexts": [], "context": b""},
        {"ciphertexts": [b""], "context": b"x"},
        {"ciphertexts": [b"x" * 300], "context": b"y" * 300},
        {"ciphertexts": "text", "context": 3},
        {"ciphertexts": [1.5], "context": b"x"},
        {"ciphertexts": [b"x"], "context": b"x", "more": 1},
    ],
)
def test_hostile_ciphertexts_are_refused_by_name(tmp_path, key, monkeypatch, sealed):
    def behave(reply):
        return with_records(reply, sealed=None if sealed is None else ConfigRecord(sealed))

    def app(plan_of, device="cpu", threads=None):
        return Hostile(client_app(plan_of, device, threads), MessageType.TRAIN, behave)

    monkeypatch.setattr(run_module, "client_app", app)
    plan = plan_of(**SMALL, defence=[{"name": "homomorphic-encryption", "key": key}])
    with pytest.raises(BadInput, match=r"round 1: client-1 (sent|did not send)"):
        federate(plan, tmp_path / "run")
    assert RecordStore(tmp_path / "run").rounds() == [0]
