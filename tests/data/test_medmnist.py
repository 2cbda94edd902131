"""MedMNIST npz files, and files that only look like one."""

import zipfile

import numpy as np
import pytest
import torch

from fluoroscope.data import Request
from fluoroscope.data.medmnist import load_medmnist
from fluoroscope.errors import BadInput, Unsupported

from .pictures import pixels

REQUEST = Request()


def arrays(colour: bool = False) -> dict[str, np.ndarray]:
    shape = (28, 28, 3) if colour else (28, 28)
    made = {}
    for i, (split, n) in enumerate({"train": 6, "val": 2, "test": 4}.items()):
        made[f"{split}_images"] = pixels(i, n, *shape)
        made[f"{split}_labels"] = (np.arange(n) % 2).astype(np.uint8)[:, None]
    return made


def write(path, **changes):
    np.savez_compressed(path, **{k: v for k, v in (arrays() | changes).items() if v is not None})
    return path


def test_joined_in_order(tmp_path):
    loaded = load_medmnist(write(tmp_path / "pneumoniamnist.npz"), REQUEST)
    assert loaded.batch.images.shape == (12, 1, 28, 28)
    expected = np.concatenate([arrays()[f"{s}_images"] for s in ("train", "val", "test")])
    assert torch.equal(loaded.batch.images[:, 0], torch.from_numpy(expected) / 255)
    assert loaded.classes == ("normal", "pneumonia")
    assert loaded.licence.startswith("CC BY 4.0")
    assert loaded.batch.patients[0] == "train-0"
    assert loaded.batch.patients[-1] == "test-3"


def test_larger_sizes_are_the_same_set(tmp_path):
    assert load_medmnist(write(tmp_path / "pneumoniamnist_64.npz"), REQUEST).classes == ("normal", "pneumonia")


def test_unknown_names_get_numbers(tmp_path):
    loaded = load_medmnist(write(tmp_path / "mine.npz"), REQUEST)
    assert loaded.classes == ("0", "1")
    assert loaded.licence == "not stated"


def test_colour(tmp_path):
    np.savez(tmp_path / "x.npz", **arrays(colour=True))
    loaded = load_medmnist(tmp_path / "x.npz", REQUEST)
    assert loaded.channels == 3
    assert torch.equal(
        loaded.batch.images[0], torch.from_numpy(arrays(colour=True)["train_images"][0]).permute(2, 0, 1) / 255
    )
    assert load_medmnist(tmp_path / "x.npz", Request(channels=1)).channels == 1


def test_duplicates_share_a_patient_across_splits(tmp_path):
    made = arrays()
    made["test_images"][3] = made["train_images"][1]
    loaded = load_medmnist(write(tmp_path / "x.npz", **made), REQUEST)
    assert loaded.batch.patients.count("train-1") == 2
    assert len(set(loaded.batch.patients)) == 11


def test_size_and_sample(tmp_path):
    loaded = load_medmnist(write(tmp_path / "x.npz"), Request(size=14, images=4, channels=3))
    assert loaded.batch.images.shape == (4, 3, 14, 14)
    assert loaded.batch.labels.bincount().tolist() == [2, 2]


def test_multi_label_is_refused_with_the_reason(tmp_path):
    path = write(tmp_path / "chestmnist.npz", train_labels=np.zeros((6, 14), np.uint8))
    with pytest.raises(Unsupported, match=r"14 labels an image \(multi-label"):
        load_medmnist(path, REQUEST)


def test_volumes_are_refused(tmp_path):
    path = write(tmp_path / "organmnist3d.npz", train_images=np.zeros((6, 28, 28, 28), np.uint8))
    with pytest.raises(Unsupported, match="2-D"):
        load_medmnist(path, REQUEST)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_labels": None}, "no train_labels"),
        ({"train_labels": np.zeros((5, 1), np.uint8)}, "6 train_images but 5 train_labels"),
        ({"train_labels": np.zeros((6, 1), np.float32)}, "whole numbers"),
        ({"train_labels": np.full((6, 1), -1, np.int64)}, "negative label -1"),
        ({"train_images": None, "val_images": None, "test_images": None}, "no train_images"),
        ({"train_images": np.array([object()] * 6)}, "allow_pickle=False"),
    ],
)
def test_broken_contents(tmp_path, changes, message):
    with pytest.raises(BadInput, match=message):
        load_medmnist(write(tmp_path / "x.npz", **changes), REQUEST)


def test_truncated(tmp_path):
    path = write(tmp_path / "x.npz")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(BadInput, match=r"x.npz is no readable MedMNIST .npz file"):
        load_medmnist(path, REQUEST)


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04", b"\x80\x04N."])
def test_something_else(tmp_path, content):
    path = tmp_path / "x.npz"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=r"x.npz is no readable MedMNIST .npz file"):
        load_medmnist(path, REQUEST)


def test_a_single_array(tmp_path):
    np.save(tmp_path / "x.npy", pixels(1, 4, 4))
    with pytest.raises(BadInput, match="single array"):
        load_medmnist(tmp_path / "x.npy", REQUEST)


def test_a_pickle_runs_no_code(tmp_path):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "sprung"), "w"))

    np.save(tmp_path / "x.npy", np.array([Trap()], dtype=object), allow_pickle=True)
    with pytest.raises(BadInput):
        load_medmnist(tmp_path / "x.npy", REQUEST)
    assert not (tmp_path / "sprung").exists()


def test_labels_have_a_limit(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, train_images=np.zeros((2, 8, 8), np.uint8), train_labels=np.array([0, 200_000_000]))
    with pytest.raises(BadInput, match="the label 200000000; labels go from 0 to at most 9999"):
        load_medmnist(path, Request())


def test_a_bomb_is_refused_by_its_size(tmp_path):
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("train_images.npy", "w") as part:
        for _ in range(80):
            part.write(bytes(2**24))
    with pytest.raises(BadInput, match=r"unpacks to 1,342,177,280; at most .* are read of a file of its size"):
        load_medmnist(path, Request())


@pytest.mark.parametrize("header", [b"{'descr': '|u1', 'fortran_order': Fal", b"{'descr': (((((", b"\xff\xfe", b""])
def test_a_header_that_was_cut(tmp_path, header):
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("train_images.npy", "train_labels.npy"):
            archive.writestr(name, b"\x93NUMPY\x01\x00v\x00" + header.ljust(118) + bytes(40))
    with pytest.raises(BadInput, match="is no readable MedMNIST"):
        load_medmnist(path, Request())
