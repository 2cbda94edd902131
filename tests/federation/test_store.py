"""Records on disk: whole, checksummed, and nothing that runs code."""

import json
import pickle

import pytest
import torch

from fluoroscope.errors import BadInput
from fluoroscope.federation.manifest import ClientEntry, RoundManifest, RunHeader
from fluoroscope.federation.store import RecordStore
from fluoroscope.federation.verification import verify
from fluoroscope.models import Architecture
from fluoroscope.types import NO_CLAIM, Adam, LocalTraining, Sgd

ARCHITECTURE = Architecture("small-cnn", 1, 2, 32)


def header(fingerprint: str = "a", data: str = "d", torch: str = "2") -> RunHeader:
    return RunHeader(
        {"seed": 0}, fingerprint, data, ARCHITECTURE, ["bn"], ["client-1", "client-2"], {"torch": torch}, 2
    )


def write(store: RecordStore, r: int, accuracy: float | None = None, recorded=("client-1",), server=False) -> None:
    files = {"global.safetensors": store.write_file(r, "global.safetensors", state(r))}
    if server:
        files["server.safetensors"] = store.write_file(r, "server.safetensors", {"m": torch.ones(1) * r})
    clients = {}
    if r:
        for name, optimiser in (("client-1", Sgd(0.1)), ("client-2", Adam(0.2, (0.8, 0.9)))):
            if name in recorded:
                files[f"{name}.safetensors"] = store.write_file(r, f"{name}.safetensors", state(r + 0.5))
            clients[name] = ClientEntry(LocalTraining(optimiser, 8, 4), NO_CLAIM, float("nan"), name in recorded)
    validation = {} if accuracy is None else {"client-1": {"accuracy": accuracy}}
    store.commit(RoundManifest(r, clients, validation, files), {"seconds": 1.0})


def state(value: float) -> dict[str, torch.Tensor]:
    return {"w": torch.full((3,), float(value)), "bn": torch.full((2,), value + 10.0)}


@pytest.fixture
def store(tmp_path) -> RecordStore:
    store = RecordStore(tmp_path / "run")
    store.begin(header())
    write(store, 0)
    write(store, 1, 0.5, recorded=("client-1", "client-2"))
    return store


def test_a_record_comes_back_as_it_went(store):
    record = RecordStore(store.folder).load(1, "client-2")
    assert record.training == LocalTraining(Adam(0.2, (0.8, 0.9)), 8, 4)
    assert store.load(1, "client-1").training == LocalTraining(Sgd(0.1), 8, 4)
    assert record.network == ARCHITECTURE
    assert record.cohort == ("client-2",)
    assert torch.equal(record.arrays["w"], torch.full((3,), 1.5))
    assert torch.equal(record.buffers_before["bn"], torch.full((2,), 10.0))
    assert record.buffers_after is not None
    assert torch.equal(record.buffers_after["bn"], torch.full((2,), 11.5))
    assert set(record.state_before) == set(record.state_after) == {"w"}


def test_a_damaged_record_is_named_and_refused(store):
    path = store.folder / "rounds/0001/client-1.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(BadInput, match=r"0001/client-1\.safetensors is damaged"):
        store.load(1, "client-1")
    assert store.load(1, "client-2")


@pytest.mark.parametrize("content", [b"", b"{", b'{"round": 1}', b"\xff\xfe"])
def test_a_damaged_manifest_is_named(store, content):
    path = store.folder / "rounds/0001/manifest.json"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=r"manifest\.json is damaged"):
        RecordStore(store.folder).load(1, "client-1")


def test_untrusted_files_never_run_code(store, tmp_path):
    """Even with a matching checksum a pickle is only refused."""
    ran = tmp_path / "ran"

    class Payload:
        def __reduce__(self):
            return (open, (str(ran), "w"))

    path = store.folder / "rounds/0001/client-1.safetensors"
    path.write_bytes(pickle.dumps(Payload()))
    import hashlib

    manifest = store.folder / "rounds/0001/manifest.json"
    content = json.loads(manifest.read_text())
    content["files"]["client-1.safetensors"] = hashlib.sha256(path.read_bytes()).hexdigest()
    manifest.write_text(json.dumps(content))
    with pytest.raises(BadInput, match="not a safetensors file"):
        RecordStore(store.folder).load(1, "client-1")
    assert not ran.exists()


def test_what_was_not_kept_is_said(store):
    with pytest.raises(BadInput, match=r"no record of client-3 in round 1; it has rounds 1 of client-1, client-2"):
        store.load(1, "client-3")
    with pytest.raises(BadInput, match="in round 9"):
        store.load(9, "client-1")


def test_half_a_round_is_no_round(store):
    store.write_file(2, "client-1.safetensors", state(2))
    again = RecordStore(store.folder)
    assert again.rounds() == [0, 1]
    again.begin(header())
    assert [path.name for path in sorted((store.folder / "rounds").iterdir())] == ["0000", "0001"]


def test_another_plan_is_refused(store):
    with pytest.raises(BadInput, match=r"another plan.*another --out"):
        RecordStore(store.folder).begin(header("b"))


def test_other_data_or_versions_are_refused_and_the_header_stays(store):
    before = (store.folder / "run.json").read_text()
    with pytest.raises(BadInput, match="another set of images"):
        RecordStore(store.folder).begin(header(data="e"))
    with pytest.raises(BadInput, match="begun with torch 2"):
        RecordStore(store.folder).begin(header(torch="3"))
    assert (store.folder / "run.json").read_text() == before


def test_a_run_without_a_whole_round_starts_anew(tmp_path):
    """A wrong plan that was corrected, or a kill before the first round."""
    store = RecordStore(tmp_path / "run")
    store.begin(header("wrong"))
    store.begin(header("right"))
    assert store.header.fingerprint == "right"
    (tmp_path / "bare/rounds").mkdir(parents=True)
    RecordStore(tmp_path / "bare").begin(header())
    assert RecordStore(tmp_path / "bare").exists()


def test_the_remedy_names_the_round_to_go_back_to(store):
    write(store, 2, 0.9, recorded=(), server=True)
    write(store, 3, 0.7, recorded=(), server=True)
    path = store.folder / "rounds/0003/global.safetensors"
    path.write_bytes(b"damaged")
    with pytest.raises(BadInput, match=r"Delete the folders after rounds/0000 and run"):
        store.global_state(3)  # of round 2 the strategy's memory is gone, of round 1 the state
    (store.folder / "rounds/0000/global.safetensors").unlink()
    with pytest.raises(BadInput, match=r"from the start"):
        store.global_state(3)


def test_lost_seconds_are_no_harm(store):
    (store.folder / "rounds/0001/timing.json").write_text("")
    assert store.seconds(1) is None
    assert store.seconds(0) == 1.0


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("")
    with pytest.raises(BadInput, match="not empty"):
        RecordStore(tmp_path).begin(header())
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_only_needed_states_stay_on_disk(store):
    """Round 2 is not recorded, round 3 is, round 2 is the best."""
    write(store, 2, 0.9, recorded=(), server=True)
    write(store, 3, 0.7, server=True)
    write(store, 4, 0.8, recorded=(), server=True)
    write(store, 5, 0.8, recorded=(), server=True)
    kept = [r for r in store.rounds() if (store.folder / f"rounds/{r:04d}/global.safetensors").exists()]
    assert kept == [0, 2, 5]  # before record 1; before record 3 and best; to go on
    assert [r for r in store.rounds() if (store.folder / f"rounds/{r:04d}/server.safetensors").exists()] == [5]
    assert store.best_round() == 2
    assert torch.equal(store.server_state(5)["m"], torch.tensor([5.0]))
    assert store.load(3, "client-1")


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(BadInput, match=r"run\.json is missing"):
        _ = RecordStore(tmp_path / "nowhere").header


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def test_verify_covers_every_file(store):
    store.write_text("result.json", "{}")
    checked = verify(store)
    assert not checked.uncovered
    names = [path for path in store.folder.rglob("*") if path.is_file() and path.name != "timing.json"]
    names.remove(store.folder / "checksums.json")
    assert checked.files == len(names)
    for path in names:
        before = path.read_bytes()
        flip(path)
        with pytest.raises(BadInput, match=path.name):
            verify(RecordStore(store.folder))
        path.unlink()
        with pytest.raises(BadInput, match=path.name):
            verify(RecordStore(store.folder))
        path.write_bytes(before)
    assert verify(RecordStore(store.folder)) == checked
    (store.folder / "checksums.json").write_text('{"files": {"../x": 1}}')
    with pytest.raises(BadInput, match=r"checksums.json is damaged"):
        verify(RecordStore(store.folder))


def test_a_run_that_goes_on_does_not_make_a_changed_file_true(store):
    manifest = store.folder / "rounds/0001/manifest.json"
    manifest.write_text(manifest.read_text().replace('"round": 1', '"round": 1 '))
    again = RecordStore(store.folder)
    again.begin(header())
    write(again, 2)
    with pytest.raises(BadInput, match=r"manifest.json was changed since it was written"):
        verify(RecordStore(store.folder))


def test_verify_says_what_an_earlier_version_left_uncovered(store):
    (store.folder / "checksums.json").unlink()
    checked = verify(RecordStore(store.folder))
    assert checked.uncovered == ("run.json", "rounds/0000/manifest.json", "rounds/0001/manifest.json")


@pytest.mark.parametrize("name", ["0001.bak", "1", "00001", "0001 (copy)", "9" * 5000])
def test_a_copy_of_a_round_is_no_round(store, name):
    try:
        (store.folder / "rounds" / name).mkdir()
    except OSError:
        return  # no such name can be
    assert RecordStore(store.folder).rounds() == [0, 1]


def test_paths_have_a_private_file_and_the_updates_of_patients_a_private_folder(tmp_path):
    store = RecordStore(tmp_path / "run")
    store.begin(header(), {"seed": 0, "data": "/home/anna/chests"}, private=True)
    assert "anna" not in (tmp_path / "run/run.json").read_text()
    assert store.header.plan["data"] == "/home/anna/chests"
    modes = {name: (tmp_path / "run" / name).stat().st_mode & 0o777 for name in ("", "rounds", "plan.private.json")}
    assert modes == {"": 0o700, "rounds": 0o700, "plan.private.json": 0o600}
    (tmp_path / "run/plan.private.json").unlink()
    assert RecordStore(tmp_path / "run").header.plan == {"seed": 0}
