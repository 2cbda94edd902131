"""How a source is written, what a bare path is taken for, and the real sets where they are at hand."""

from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import torch

from fluoroscope.data import SOURCES, Request, load
from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.types import ImageSet, PrivateBatch

from .pictures import class_folders, pixels

SHARED = Path(__file__).parents[2].parent / "shared/data"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the real sets are not beside this checkout")


@pytest.fixture
def phantom(monkeypatch):
    """A source without a location, whatever else is registered."""

    def make(location: Path | None, request: Request) -> ImageSet:
        n = request.images or 2
        return ImageSet(
            "p", PrivateBatch(torch.zeros(n, 1, 4, 4), torch.zeros(n, dtype=torch.int64), ("a",) * n), ("x",), "CC0"
        )

    monkeypatch.setitem(SOURCES._parts, "phantom/test-card", make)


def test_every_kind_of_file_is_registered():
    assert {"folder", "medmnist", "dicom", "nifti"} <= set(SOURCES)


def test_a_name_without_location(phantom):
    assert len(load("phantom/test-card", Request(images=3))) == 3


def test_a_name_with_location(tmp_path):
    assert len(load(f"folder:{class_folders(tmp_path)}", Request())) == 6


def test_a_bare_folder_of_pictures(tmp_path):
    assert len(load(str(class_folders(tmp_path)))) == 6


def test_a_bare_npz(tmp_path):
    np.savez(tmp_path / "x.npz", train_images=pixels(1, 4, 28, 28), train_labels=np.array([[0], [1], [0], [1]]))
    assert len(load(str(tmp_path / "x.npz"))) == 4


def test_a_bare_folder_of_volumes(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        nib.save(nib.Nifti1Image(pixels(1, 8, 8, 3), np.eye(4)), tmp_path / name / "x.nii.gz")
    assert len(load(str(tmp_path))) == 2


def test_a_bare_folder_of_dicom_files_without_extension(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "IM0001").write_bytes(b"\0" * 128 + b"DICM")
    with pytest.raises(BadInput, match="holds no image"):
        load(str(tmp_path))


def test_a_folder_in_the_home_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    class_folders(tmp_path / "set")
    assert len(load("~/set")) == len(load("folder:~/set")) == 6


def test_a_mix_asks_which(tmp_path):
    class_folders(tmp_path)
    (tmp_path / "sick" / "x.dcm").write_bytes(b"x")
    with pytest.raises(BadInput, match=f"dicom:{tmp_path} or folder:{tmp_path}"):
        load(str(tmp_path))


def test_nothing_known_at_the_path(tmp_path):
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(BadInput, match="holds no pictures"):
        load(str(tmp_path))


def test_a_single_picture(tmp_path):
    class_folders(tmp_path)
    with pytest.raises(BadInput, match="is a single file"):
        load(str(tmp_path / "sick" / "0.png"))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("phantom/test-crad", "did you mean 'phantom/test-card'"),
        ("phantom/zzz", "there is no 'phantom/zzz'"),
        ("foldr:/data", "did you mean 'folder'"),
        ("nifty", "did you mean 'nifti'"),
        ("zzz", "nothing lies at 'zzz'"),
        ("", "there is no ''"),
        ("folder", "needs a location: write folder:PATH"),
        ("dicom:", "needs a location: write dicom:PATH"),
    ],
)
def test_unknown_sources(phantom, source, message):
    with pytest.raises(Misconfigured, match=message):
        load(source)


@pytest.mark.parametrize("source", ["/no/such/place", "./nowhere", "~/nowhere-at-all", "no/such", "missing.npz"])
def test_missing_paths(source):
    with pytest.raises(BadInput, match=f"there is no file or folder '{source}'"):
        load(source)


@pytest.mark.parametrize("kind", ["folder", "medmnist", "dicom", "nifti"])
def test_missing_locations(kind):
    with pytest.raises(BadInput, match="'/no/such/place'"):
        load(f"{kind}:/no/such/place")


def test_burn_in_is_for_phantoms(tmp_path):
    with pytest.raises(Misconfigured, match="phantoms only"):
        load(str(class_folders(tmp_path)), Request(burn_in=True))


@pytest.mark.parametrize("wrong", [{"size": 0}, {"images": -1}, {"channels": 2}])
def test_requests_out_of_range(wrong):
    with pytest.raises(Misconfigured, match=next(iter(wrong))):
        Request(**wrong)


@needs_shared
@pytest.mark.parametrize(
    ("name", "shape", "counts", "patients"),
    [
        ("cxr-nih-64", (1000, 1, 64, 64), [500, 500], 682),
        ("cxr-covid-224", (202, 1, 224, 224), [117, 85], 126),
        ("fundus-128", (320, 3, 128, 128), [133, 39, 69, 54, 25], 320),
        ("pneumoniamnist.npz", (5856, 1, 28, 28), [1583, 4273], 5827),
    ],
)
def test_the_real_sets(name, shape, counts, patients):
    loaded = load(str(SHARED / name))
    assert loaded.batch.images.shape == shape
    assert loaded.batch.labels.bincount().tolist() == counts
    assert len(set(loaded.batch.patients)) == patients
    assert "CC BY" in loaded.licence or "NIH" in loaded.licence
    assert not loaded.skipped
    assert not loaded.synthetic


@needs_shared
def test_the_18_duplicates_of_pneumoniamnist():
    training = load(str(SHARED / "pneumoniamnist.npz")).batch.patients[:4708]
    assert len(training) - len(set(training)) == 18
