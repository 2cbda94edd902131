"""Reads the listed files side by side and makes one ImageSet of them."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from fluoroscope.data.bad_files import BadFiles
from fluoroscope.data.channels import to_channels
from fluoroscope.data.duplicates import complete_patients
from fluoroscope.data.listing import Entry
from fluoroscope.data.resize import to_square
from fluoroscope.data.sampling import stratified_sample
from fluoroscope.data.sources import Request
from fluoroscope.decoders import decode_apart
from fluoroscope.errors import BadInput
from fluoroscope.types import ImageSet, PrivateBatch


@dataclass(frozen=True, eq=False)
class Decoded:
    """What one file holds: images (1 or 3, height, width) in [0, 1], and its patient and site if the file says so."""

    images: tuple[Tensor, ...]
    patient: str | None = None
    site: str | None = None


Reader = Callable[[Path], Decoded]
"""Raises BadInput with the reason, or whatever the library raises, when the file cannot be used."""


def read_apart(kind: str, path: Path, **options: int) -> Decoded:
    """What a file of this kind holds, decoded in a process that may die of it (decoders/apart.py)."""
    found = decode_apart(kind, path, **options)
    return Decoded(tuple(map(torch.from_numpy, found.images)), found.patient, found.site)


def read_set(
    name: str, entries: Sequence[Entry], read: Reader, request: Request, bad: BadFiles, images_per_file: int = 1
) -> ImageSet:
    """All entries, or a sample of them as the request asks."""
    files = None if request.images is None else -(-request.images // images_per_file)
    sampled = [entries[i] for i in stratified_sample([e.label for e in entries], files, request.seed)]
    owners: list[Entry] = []
    images: list[Tensor] = []
    patients: list[str | None] = []
    sites: list[str | None] = []
    for entry, decoded in _read_all(sampled, read, request, bad):
        owners += [entry] * len(decoded.images)
        images += decoded.images
        patients += [entry.patient or decoded.patient] * len(decoded.images)
        sites += [entry.site or decoded.site] * len(decoded.images)
    kept = stratified_sample([e.label for e in owners], request.images, request.seed)
    owners = [owners[i] for i in kept]
    classes = tuple(sorted({entry.label for entry in entries}))
    _refuse_empty_classes(classes, sampled, owners)
    stacked = _stack([images[i] for i in kept], owners, request)
    batch = PrivateBatch(
        stacked,
        torch.tensor([classes.index(entry.label) for entry in owners], dtype=torch.int64),
        complete_patients(stacked, [patients[i] for i in kept], [entry.name for entry in owners]),
    )
    licences = sorted({entry.licence or "not stated" for entry in owners})
    held_by = tuple(site for site in (sites[i] for i in kept) if site is not None)
    known = held_by if len(held_by) == len(kept) else ()  # a client of unknown origin would be a made-up hospital
    return ImageSet(name, batch, classes, "; ".join(licences), skipped=bad.skipped, sites=known)


def _read_all(
    entries: Sequence[Entry], read: Reader, request: Request, bad: BadFiles
) -> Iterator[tuple[Entry, Decoded]]:
    def attempt(entry: Entry) -> Decoded | str:
        try:
            if entry.path.stat().st_size == 0:
                return "is empty"
            decoded = read(entry.path)
            if not all(bool(torch.isfinite(image).all()) for image in decoded.images):
                return "holds values that are not numbers (NaN or infinite)"
            return Decoded(tuple(_fit(image, request) for image in decoded.images), decoded.patient, decoded.site)
        except BadInput as error:
            return str(error)
        except Exception as error:  # decoders raise nearly anything on damaged files
            return f"cannot be read ({_first_line(error)})"

    pool = ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1))
    try:
        for entry, outcome in zip(entries, pool.map(attempt, entries), strict=True):
            if isinstance(outcome, str):
                bad.add(entry.path, outcome)
            else:
                yield entry, outcome
    finally:
        pool.shutdown(cancel_futures=True)


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return text[0].rstrip(".") if text else type(error).__name__


def _fit(image: Tensor, request: Request) -> Tensor:
    image = image if request.channels is None else to_channels(image, request.channels)
    return to_square(image, request.size)


def _refuse_empty_classes(classes: Sequence[str], sampled: Sequence[Entry], owners: Sequence[Entry]) -> None:
    left = {entry.label for entry in owners}
    for label in classes:
        if label not in left and any(entry.label == label for entry in sampled):
            raise BadInput(f"no readable image is left in class {label!r}; replace the files that were skipped.")


class DifferentSizes(BadInput):
    """Images of several sizes were to be stacked as they are; `sides` has all of them."""

    def __init__(self, message: str, sides: tuple[int, ...]) -> None:
        super().__init__(message, sides)
        self.sides = sides

    def __str__(self) -> str:
        """The sentence alone."""
        return str(self.args[0])


def _stack(images: Sequence[Tensor], owners: Sequence[Entry], request: Request) -> Tensor:
    first = {image.shape[-1]: owner for image, owner in zip(reversed(images), reversed(owners), strict=True)}
    if len(first) > 1:
        (one, a), (other, b) = list(first.items())[:2]
        raise DifferentSizes(
            f"images differ in size: {a.name} is {one} px, {b.name} {other} px. Pass a size to bring all to, such as "
            f"--size {min(first)}.",
            tuple(sorted(first)),
        )
    channels = max(image.shape[0] for image in images)  # one colour image makes the set a colour set
    return torch.stack([to_channels(image, channels) for image in images])
