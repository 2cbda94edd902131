"""State dicts as trainers leave them in files."""

import zipfile

import numpy as np
import pytest
import torch

from fluoroscope.errors import BadInput
from fluoroscope.models.state_files import plain_state, read_state

STATE = {"body.weight": torch.arange(6.0).view(2, 3), "body.bias": torch.ones(2), "count": torch.tensor(7)}


def same(read):
    return read.keys() == STATE.keys() and all(torch.equal(read[name], value) for name, value in STATE.items())


@pytest.mark.parametrize(
    "content",
    [
        STATE,
        {"model": STATE, "epoch": 3},
        {"state_dict": STATE, "optimizer": {"state": {0: {"exp_avg": torch.ones(3)}}, "param_groups": []}},
        {"epoch": 1, "model_state_dict": STATE, "loss": 0.5},
        {"checkpoint": {"net": STATE}},
        {"model": {name: value.numpy() for name, value in STATE.items()}},
    ],
)
def test_a_checkpoint_holds_its_weights_somewhere(tmp_path, content):
    torch.save(content, tmp_path / "checkpoint.pt")
    assert same(read_state(tmp_path / "checkpoint.pt"))


def test_numpy_archives_are_read(tmp_path):
    np.savez(tmp_path / "plain.npz", **{name: value.numpy() for name, value in STATE.items()})
    np.savez_compressed(tmp_path / "small.npz", **{name: value.numpy() for name, value in STATE.items()})
    assert same(read_state(tmp_path / "plain.npz"))
    assert same(read_state(tmp_path / "small.npz"))


def test_an_archive_of_objects_is_not_unpickled(tmp_path):
    np.savez(tmp_path / "objects.npz", weights=np.array([{"code": 1}], dtype=object))
    with pytest.raises(BadInput, match=r"objects\.npz was not read: .* never unpickled"):
        read_state(tmp_path / "objects.npz")
    np.savez(tmp_path / "texts.npz", weights=np.array(["a", "b"]))
    with pytest.raises(BadInput, match=r"texts\.npz holds no state dict"):
        read_state(tmp_path / "texts.npz")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 half a zip", b"no archive"])
def test_a_damaged_archive_is_named(tmp_path, content):
    (tmp_path / "cut.npz").write_bytes(content)
    with pytest.raises(BadInput, match=r"cut\.npz was not read"):
        read_state(tmp_path / "cut.npz")


def test_an_archive_that_claims_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("fluoroscope.models.state_files._MOST_BYTES", 1000)
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros.npy", bytes(10**6))
    with pytest.raises(BadInput, match=r"bomb\.npz unpacks to"):
        read_state(tmp_path / "bomb.npz")


def test_two_state_dicts_are_a_question(tmp_path):
    torch.save({"generator": STATE, "discriminator": STATE}, tmp_path / "two.pt")
    with pytest.raises(BadInput, match=r"two\.pt holds several state dicts \(generator, discriminator\)"):
        read_state(tmp_path / "two.pt")
    assert plain_state({}) is None
    assert plain_state({"a": {"b": {"c": {"d": {"e": STATE}}}}}) is None


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        (torch.zeros(0, 3), r"the shape \[0, 3\], and holds no number"),
        (torch.zeros(3).to(torch.float8_e4m3fn), "is of the type float8_e4m3fn"),
        (torch.zeros(3, dtype=torch.complex64), "is of the type complex64"),
        (torch.eye(3).to_sparse(), "is sparse"),
        (torch.zeros(3, device="meta"), "without numbers"),
        (torch.zeros(1, 1).expand(1_000_000, 512), "repeats a few numbers to 512,000,000"),
    ],
)
def test_tensors_that_are_no_plain_arrays_are_named(tmp_path, odd, message):
    torch.save({**STATE, "odd": odd}, tmp_path / "x.pt")
    with pytest.raises(BadInput, match=f"odd .*{message}|odd {message}|was not read"):
        read_state(tmp_path / "x.pt")


def test_a_single_number_is_a_tensor(tmp_path):
    torch.save({**STATE, "odd": torch.tensor(1.5)}, tmp_path / "x.pt")
    assert read_state(tmp_path / "x.pt")["odd"] == 1.5


@pytest.mark.parametrize("name", [pytest.param("x.pt", marks=pytest.mark.slow), "x.npz"])
def test_a_small_file_of_many_zeros_is_refused(tmp_path, monkeypatch, name):
    monkeypatch.setattr("fluoroscope.models.state_files._MOST_BYTES", 2**30)
    with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("a/data/0", "w") as part:
        for _ in range(65):
            part.write(bytes(2**24))
    with pytest.raises(BadInput, match="unpacks to 1 GB; the most that is read is 1 GB"):
        read_state(tmp_path / name)


@pytest.mark.parametrize("name", ["half a \ud800 letter", "a" * 1001])
def test_names_are_names(tmp_path, name):
    torch.save({name: torch.ones(2)}, tmp_path / "x.pt")
    with pytest.raises(BadInput, match="is no name of a tensor"):
        read_state(tmp_path / "x.pt")
