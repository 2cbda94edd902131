"""Every registered source, with small files: what is loaded is within its range, named, repeatable and as was asked."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from fluoroscope.data import SOURCES, Request, load
from fluoroscope.errors import BadInput
from tests.data.pictures import class_folders, pixels
from tests.data.test_dicom import dataset
from tests.data.test_dicom import save as save_dicom
from tests.data.test_medmnist import write as write_npz
from tests.data.test_nifti import save as save_volume
from tests.data.test_nifti import volume

SIDE = 28


def pictures(root: Path) -> Path:
    return class_folders(root, count=4, size=SIDE)


def dicoms(root: Path) -> Path:
    for c, name in enumerate(("normal", "sick")):
        for i in range(4):
            save_dicom(root / name / f"{i}.dcm", dataset(pixels(10 * c + i, SIDE, SIDE), PatientID=f"{name}-{i}"))
    return root


def volumes(root: Path) -> Path:
    for c, name in enumerate(("normal", "sick")):
        for i in range(4):
            save_volume(root / name / f"{i}.nii.gz", volume(10 * c + i, (SIDE, SIDE, 3)))
    return root


def npz(root: Path) -> Path:
    root.mkdir(parents=True)
    return write_npz(root / "some.npz")


FILES: dict[str, Callable[[Path], Path]] = {"dicom": dicoms, "folder": pictures, "medmnist": npz, "nifti": volumes}
every_source = pytest.mark.parametrize("name", list(SOURCES))


@pytest.fixture
def source(name, tmp_path) -> str:
    """As a plan would write it."""
    return f"{name}:{FILES[name](tmp_path / 'files')}" if name in FILES else name


def asked(name: str, **settings) -> Request:
    """Phantoms have no number of their own."""
    return Request(**({} if name in FILES else {"images": 8, "size": SIDE}) | settings)


def test_the_table_has_every_source_of_files():
    assert {name for name in SOURCES if not name.startswith("phantom/")} == set(FILES)


@every_source
def test_images_labels_and_patients(name, source):
    loaded = load(source, asked(name))
    batch = loaded.batch
    assert len(batch) >= 8
    assert batch.images.dtype == torch.float32
    assert 0 <= batch.images.min() < batch.images.max() <= 1
    assert batch.labels.dtype == torch.int64
    assert set(batch.labels.tolist()) <= set(range(len(loaded.classes)))
    assert len(set(batch.labels.tolist())) > 1
    assert len(batch.patients) == len(batch)
    assert len(set(batch.patients)) == len(batch) or name not in FILES, "a phantom may come back"
    assert all(batch.patients)
    assert loaded.name
    assert loaded.licence
    assert loaded.synthetic is (name not in FILES)


@every_source
def test_the_same_seed_the_same_images(name, source):
    one, two, other = (load(source, asked(name, images=5, seed=seed)).batch for seed in (1, 1, 2))
    assert torch.equal(one.images, two.images)
    assert torch.equal(one.labels, two.labels)
    assert one.patients == two.patients
    assert not torch.equal(one.images, other.images)


@every_source
@pytest.mark.parametrize("images", [1, 5])
def test_as_many_images_as_were_asked_for(name, source, images):
    assert len(load(source, asked(name, images=images))) == images


@every_source
def test_no_more_images_than_there_are(name, source):
    if name in FILES:
        assert len(load(source, asked(name, images=1000))) == len(load(source))
    else:
        assert len(load(source, asked(name, images=50))) == 50


@every_source
@pytest.mark.parametrize("channels", [1, 3])
def test_size_and_channels(name, source, channels):
    loaded = load(source, asked(name, size=32, channels=channels))
    assert loaded.shape == (channels, 32, 32)
    assert loaded.batch.images.min() >= 0
    assert loaded.batch.images.max() <= 1


@pytest.mark.parametrize("name", ["dicom", "folder", "nifti"])
def test_a_damaged_file_is_named_or_skipped(name, source):
    damaged = next(path for path in sorted(Path(source.partition(":")[2]).rglob("*")) if path.is_file())
    damaged.write_bytes(damaged.read_bytes()[:40])
    with pytest.raises(BadInput, match=damaged.name.replace(".", r"\.")):
        load(source)
    loaded = load(source, asked(name, skip_bad=True))
    assert len(loaded) == 7
    (skipped,) = loaded.skipped
    assert skipped.file.endswith(damaged.name)
    assert skipped.reason


def test_a_damaged_archive_is_named(tmp_path):
    path = npz(tmp_path / "files")
    path.write_bytes(path.read_bytes()[:200])
    for skip_bad in (False, True):  # it is all that there is
        with pytest.raises(BadInput, match=r"some\.npz"):
            load(f"medmnist:{path}", Request(skip_bad=skip_bad))


@pytest.mark.parametrize("name", list(FILES))
def test_nothing_there_is_named(name, tmp_path):
    with pytest.raises(BadInput, match="nowhere"):
        load(f"{name}:{tmp_path}/nowhere")


@every_source
def test_files_are_left_as_they_were(name, source):
    def contents() -> dict[str, bytes]:
        root = Path(source.partition(":")[2])
        files = [root] if root.is_file() else sorted(root.rglob("*")) if name in FILES else []
        return {str(path): path.read_bytes() for path in files if path.is_file()}

    before = contents()
    loaded = load(source, asked(name))
    loaded.batch.images.fill_(0.0)
    assert contents() == before
    assert np.any(load(source, asked(name)).batch.images.numpy()), "and so is what is loaded next"
