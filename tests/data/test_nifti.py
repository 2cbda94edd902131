"""NIfTI volumes: axes, scaling, and bad files."""

from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

from fluoroscope.data import Request
from fluoroscope.data.nifti import load_nifti, read_volume
from fluoroscope.errors import BadInput

from .pictures import write_table

REQUEST = Request()


def volume(seed: int = 0, shape: tuple[int, ...] = (8, 8, 5)) -> np.ndarray:
    return np.random.default_rng(seed).normal(100, 20, shape).astype(np.float32)


def save(path: Path, array: np.ndarray, affine: np.ndarray | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    nib.save(nib.Nifti1Image(array, np.eye(4) if affine is None else affine), path)
    return path


def class_folders(root: Path) -> Path:
    for c, name in enumerate(("normal", "sick")):
        for i in range(2):
            save(root / name / f"{i}.nii.gz", volume(10 * c + i))
    return root


def only_slice(path: Path) -> np.ndarray:
    (image,) = read_volume(path).images
    return image[0].numpy()


def test_the_middle_slice_of_each_volume(tmp_path):
    loaded = load_nifti(class_folders(tmp_path), REQUEST)
    assert loaded.batch.images.shape == (4, 1, 8, 8)
    assert loaded.classes == ("normal", "sick")
    assert loaded.batch.patients == ("normal/0.nii.gz", "normal/1.nii.gz", "sick/0.nii.gz", "sick/1.nii.gz")


def test_more_slices_of_one_patient(tmp_path):
    loaded = load_nifti(class_folders(tmp_path), REQUEST, slices=3)
    assert loaded.batch.images.shape == (12, 1, 8, 8)
    assert loaded.batch.patients.count("sick/1.nii.gz") == 3
    assert len(load_nifti(tmp_path, Request(images=5), slices=3)) == 5
    with pytest.raises(BadInput, match="5 axial slices, but 6"):
        load_nifti(tmp_path, REQUEST, slices=6)


def test_values_are_robust_percentiles_of_the_volume(tmp_path):
    array = volume(1, (16, 16, 5))
    array[0, 0, 2] = 1e6
    image = only_slice(save(tmp_path / "x.nii", array))
    low, high = np.percentile(array, (0.5, 99.5))
    assert np.allclose(image, np.clip((array[::-1, ::-1, 2].T - low) / (high - low), 0, 1), atol=1e-5)
    assert image.std() > 0.1, "one bright voxel does not darken the rest"


def marked(front: tuple[int, int, int], right: tuple[int, int, int]) -> np.ndarray:
    array = np.zeros((8, 8, 3), np.float32)
    array[front] = 1
    array[right] = 2
    return array


@pytest.mark.parametrize("flips", [(1, 1, 1), (-1, -1, 1), (-1, 1, -1)])
def test_front_is_up_and_the_patients_right_is_left_however_it_is_stored(tmp_path, flips):
    canonical = marked((4, 7, 1), (7, 4, 1))  # in RAS, y = 7 is in front, x = 7 is right
    stored = canonical[:: flips[0], :: flips[1], :: flips[2]]
    image = only_slice(save(tmp_path / "x.nii", stored, np.diag([*flips, 1.0])))
    bright = image > 0
    assert bright[0, 3], "front: top row"
    assert bright[3, 0], "right: left column"


def test_permuted_axes(tmp_path):
    canonical = marked((4, 7, 1), (7, 4, 1))
    affine = np.array([[0, 0, 1, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 1.0]])  # stored as (y, z, x)
    image = only_slice(save(tmp_path / "x.nii", canonical.transpose(1, 2, 0), affine))
    assert np.array_equal(image, only_slice(save(tmp_path / "y.nii", canonical)))


def test_of_a_series_the_first_volume(tmp_path):
    series = volume(1, (8, 8, 5, 3))
    assert np.array_equal(
        only_slice(save(tmp_path / "x.nii", series)), only_slice(save(tmp_path / "y.nii", series[..., 0]))
    )


def test_a_flat_image_is_one_slice(tmp_path):
    assert only_slice(save(tmp_path / "x.nii", volume(1, (8, 8)))).shape == (8, 8)


def test_scaled_integers(tmp_path):
    image = only_slice(save(tmp_path / "x.nii", np.arange(320, dtype=np.int16).reshape(8, 8, 5)))
    assert image.min() >= 0
    assert image.max() <= 1


def test_nearly_empty_volume_keeps_its_finding(tmp_path):
    array = np.zeros((16, 16, 5), np.float32)
    array[8, 8, 2] = 0.25
    assert only_slice(save(tmp_path / "x.nii", array)).max() == 1


def test_sidecars_are_ignored_and_a_table_names_patients(tmp_path):
    class_folders(tmp_path)
    (tmp_path / "normal" / "0.json").write_text("{}")
    write_table(
        tmp_path,
        ["normal/0.nii.gz,normal,anna", "normal/1.nii.gz,normal,anna", "sick/0.nii.gz,sick,ben", "sick/1.nii.gz,sick,"],
        "file,label,patient",
    )
    assert load_nifti(tmp_path, REQUEST).batch.patients == ("anna", "anna", "ben", "sick/1.nii.gz")


def nan() -> np.ndarray:
    array = volume()
    array[0, 0, 0] = np.nan
    return array


@pytest.mark.parametrize(
    ("name", "make", "reason"),
    [
        ("void.nii", lambda path: path.write_bytes(b""), "is empty"),
        ("text.nii", lambda path: path.write_text("hello" * 100), "cannot be read"),
        ("text.nii.gz", lambda path: path.write_text("hello" * 100), "cannot be read"),
        ("scan.img", lambda path: path.write_text("hello"), "not a NIfTI volume"),
        ("cut.nii", lambda path: path.write_bytes(save(path, volume()).read_bytes()[:-100]), "cannot be read"),
        ("cut.nii.gz", lambda path: path.write_bytes(save(path, volume()).read_bytes()[:-100]), "cannot be read"),
        ("nan.nii", lambda path: save(path, nan()), "not numbers"),
        ("complex.nii", lambda path: save(path, volume().astype(np.complex64)), "only real numbers"),
        ("line.nii", lambda path: save(path, volume(0, (8,))), "no volume"),
    ],
)
def test_bad_files(tmp_path, name, make, reason):
    make(class_folders(tmp_path) / "sick" / name)
    with pytest.raises(BadInput, match=f"{name}: .*{reason}.* Remove it, or pass --skip-bad"):
        load_nifti(tmp_path, REQUEST)
    loaded = load_nifti(tmp_path, Request(skip_bad=True))
    assert len(loaded) == 4
    assert [Path(s.file).name for s in loaded.skipped] == [name]
