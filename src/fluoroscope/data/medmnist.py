"""MedMNIST files: {train,val,test}_{images,labels} in one .npz, at any of the published sizes.

The published split is joined in the order train, val, test: fluoroscope splits again. The files name no patients.
"""

import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from fluoroscope.data.channels import to_channels
from fluoroscope.data.duplicates import complete_patients
from fluoroscope.data.location import existing
from fluoroscope.data.resize import to_square
from fluoroscope.data.sampling import stratified_sample
from fluoroscope.data.sources import SOURCES, Request
from fluoroscope.errors import BadInput, FluoroscopeError, Unsupported
from fluoroscope.types import ImageSet, PrivateBatch

Array = npt.NDArray[np.generic]

MOST_CLASSES = 10_000
_UNPACKED, _PER_BYTE = 2**30, 100
"""Bytes that any file may unpack to, and those of each of its bytes beside them."""
_SPLITS = ("train", "val", "test")
_ORGANS = "bladder|femur-left|femur-right|heart|kidney-left|kidney-right|liver|lung-left|lung-right|pancreas|spleen"
_CLASSES = {
    "pathmnist": "adipose|background|debris|lymphocytes|mucus|smooth muscle|normal colon mucosa|"
    "cancer-associated stroma|colorectal adenocarcinoma epithelium",
    "dermamnist": "actinic keratoses and intraepithelial carcinoma|basal cell carcinoma|benign keratosis-like lesions|"
    "dermatofibroma|melanoma|melanocytic nevi|vascular lesions",
    "octmnist": "choroidal neovascularization|diabetic macular edema|drusen|normal",
    "pneumoniamnist": "normal|pneumonia",
    "retinamnist": "0|1|2|3|4",
    "breastmnist": "malignant|normal or benign",
    "bloodmnist": "basophil|eosinophil|erythroblast|immature granulocytes|lymphocyte|monocyte|neutrophil|platelet",
    "tissuemnist": "collecting duct, connecting tubule|distal convoluted tubule|glomerular endothelial cells|"
    "interstitial endothelial cells|leukocytes|podocytes|proximal tubule segments|thick ascending limb",
    "organamnist": _ORGANS,
    "organcmnist": _ORGANS,
    "organsmnist": _ORGANS,
}


@SOURCES.register("medmnist")
def load_medmnist(location: Path | None, request: Request) -> ImageSet:
    """One MedMNIST .npz file of 2-D images with a single label each."""
    path = existing(location, request, "medmnist")
    if not path.is_file():
        raise BadInput(f"{path} is a folder; give a MedMNIST .npz file in it.")
    try:
        _check_size(path)
        with path.open("rb") as stream:
            archive = np.load(stream, allow_pickle=False)  # a pickle could run code
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise BadInput(f"{path} is a single array, not a MedMNIST .npz file; give the .npz file.")
            return _from_archive(path, archive, request)
    except FluoroscopeError:
        raise
    except Exception as error:  # what is damaged stops zip, zlib and numpy's reader of headers anywhere
        raise BadInput(f"{path} is no readable MedMNIST .npz file ({error}); download it again.") from error


def _check_size(path: Path) -> None:
    """A small file may claim to hold any number of zeros."""
    packed = path.stat().st_size
    most = _UNPACKED + _PER_BYTE * packed
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            size = sum(part.file_size for part in archive.infolist())
        if size > most:
            raise BadInput(
                f"{path} has {packed:,} bytes and unpacks to {size:,}; at most {most:,} are read of a file of its size."
            )


def _from_archive(path: Path, archive: Mapping[str, Array], request: Request) -> ImageSet:
    splits = [split for split in _SPLITS if f"{split}_images" in archive]
    if not splits:
        raise BadInput(f"{path} has no train_images, val_images or test_images; it holds {', '.join(archive)}.")
    labels = {split: _labels(path, archive, split) for split in splits}
    joined = np.concatenate([labels[split] for split in splits])
    if not len(joined):
        raise BadInput(f"{path} holds no images; download it again.")
    kept = np.array(stratified_sample(joined.tolist(), request.images, request.seed))
    parts, names, start = [], [], 0
    for split in splits:  # one split at a time: the large files do not fit into memory twice
        chosen = kept[(kept >= start) & (kept < start + len(labels[split]))] - start
        parts.append(_images(path, archive, split, len(labels[split]), chosen, request))
        names += [f"{split}-{i}" for i in chosen]
        start += len(labels[split])
    if len({part.shape[1:] for part in parts}) > 1:
        raise BadInput(f"{path}: the splits' images differ in shape; pass a size and channels, or download it again.")
    images = torch.cat(parts)
    patients = complete_patients(images, [None] * len(images), names)
    batch = PrivateBatch(images, torch.from_numpy(joined[kept]), patients)
    known = path.stem.lower().partition("_")[0]
    return ImageSet(path.stem, batch, _classes(known, int(joined.max())), _licence(known))


def _labels(path: Path, archive: Mapping[str, Array], split: str) -> npt.NDArray[np.int64]:
    key = f"{split}_labels"
    if key not in archive:
        raise BadInput(f"{path} has {split}_images but no {key}; download it again.")
    labels = archive[key]
    if labels.ndim == 2 and labels.shape[1] > 1:
        raise Unsupported(
            f"{path} has {labels.shape[1]} labels an image (multi-label, as ChestMNIST); fluoroscope's models choose "
            "one class an image. Use a file with one label an image, such as pneumoniamnist.npz."
        )
    if labels.dtype.kind not in "ui" or labels.ndim not in (1, 2):
        raise BadInput(f"{path}: {key} must be whole numbers, one an image, not {labels.dtype} {labels.shape}.")
    flat = labels.reshape(-1).astype(np.int64)
    if flat.size and flat.max() >= MOST_CLASSES:
        raise BadInput(f"{path}: {key} holds the label {flat.max()}; labels go from 0 to at most {MOST_CLASSES - 1}.")
    if flat.size and flat.min() < 0:
        raise BadInput(f"{path}: {key} holds the negative label {flat.min()}; labels count from 0.")
    return flat


def _images(
    path: Path, archive: Mapping[str, Array], split: str, expected: int, chosen: npt.NDArray[np.int64], request: Request
) -> torch.Tensor:
    images = archive[f"{split}_images"]
    colour = images.ndim == 4 and images.shape[-1] == 3
    if images.dtype != np.uint8 or not (images.ndim == 3 or colour):
        raise Unsupported(
            f"{path}: {split}_images is {images.dtype} of shape {images.shape}; only 8 bit 2-D images are read, "
            "n x H x W or n x H x W x 3. Use one of the 2-D MedMNIST files."
        )
    if len(images) != expected:
        raise BadInput(f"{path}: {len(images)} {split}_images but {expected} {split}_labels; download it again.")
    pixels = torch.from_numpy(images[chosen])
    stored = (pixels.movedim(-1, 1) if colour else pixels[:, None]).to(torch.float32) / 255
    return to_square(to_channels(stored, request.channels or stored.shape[1]), request.size)


def _classes(known: str, highest: int) -> tuple[str, ...]:
    names = tuple(_CLASSES[known].split("|")) if known in _CLASSES else ()
    return names if highest < len(names) else tuple(str(label) for label in range(highest + 1))


def _licence(known: str) -> str:
    if known not in _CLASSES:
        return "not stated"
    return "CC BY-NC 4.0 (MedMNIST)" if known == "dermamnist" else "CC BY 4.0 (MedMNIST, Yang et al. 2023)"
