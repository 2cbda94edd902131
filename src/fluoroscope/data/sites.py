"""Several hospitals, each with images of its own: read one by one, then joined into a set that knows who holds what."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from fluoroscope.data.bad_files import BadFiles
from fluoroscope.data.listing import FileKind
from fluoroscope.data.recognition import is_hidden
from fluoroscope.data.sources import Request, load
from fluoroscope.data.table import find_table
from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.rng import derive
from fluoroscope.types import ImageSet, PrivateBatch


@dataclass(frozen=True)
class Site:
    """One hospital, and where its images are."""

    name: str
    source: str
    """As `load` takes it."""


def load_sites(name: str, sites: Sequence[Site], request: Request) -> ImageSet:
    """The images of all sites, in their order; the request holds for each of them.

    Args:
        name: Of the joined set.
        sites: At least one, of different names.
        request: `images` is the most that one site gives; `seed` is the seed that each site's is derived from.

    Returns:
        A set whose classes are those of all sites by name, and whose patients are local to their site.
    """
    _refuse_repeats(sites)
    held = {site.name: load(site.source, _for_site(request, site)) for site in sites}
    _refuse_differences(held, "channels", lambda each: each.channels, "1 (grey) or 3 (RGB)")
    _refuse_differences(held, "size", lambda each: each.size, "the side in pixels that all are brought to")
    classes = _joined_classes(held)
    batch = PrivateBatch(
        torch.cat([each.batch.images for each in held.values()]),
        torch.cat([_renumbered(each, classes) for each in held.values()]),
        # Hospitals number their own patients: 0001 here and 0001 there are two people. Somebody who was treated in
        # both is two patients as well, as in a real federation, where no house may look into another's list.
        tuple(f"{site}/{patient}" for site, each in held.items() for patient in each.batch.patients),
    )
    return ImageSet(
        name,
        batch,
        classes,
        "; ".join(sorted({part for each in held.values() for part in each.licence.split("; ")})),
        synthetic=all(each.synthetic for each in held.values()),
        skipped=tuple(skipped for each in held.values() for skipped in each.skipped),
        sites=tuple(site for site, each in held.items() for _ in range(len(each))),
    )


def load_site_folders(root: Path, kind: FileKind, request: Request) -> ImageSet:
    """A folder with one subfolder per site: in each, a subfolder for each class or an `images.csv`."""
    if not root.is_dir():
        raise BadInput(f"{root} is a file; give the folder that holds one subfolder per site.")
    if table := find_table(root):
        raise BadInput(f"{table} says what lies below {root}: add a column 'site' to it, and leave folders out.")
    visible = sorted(child for child in root.iterdir() if not is_hidden(child.name))
    bad = BadFiles(request.skip_bad)
    for stray in visible:
        if stray.is_file() and stray.name.lower().endswith(kind.suffixes):
            bad.add(stray, "lies in no site's folder", "Move it into one")
    sites = [Site(folder.name, f"{kind.source}:{folder}") for folder in visible if folder.is_dir()]
    if not sites:
        raise BadInput(f"{root} has no subfolders; make one per site, or leave folders = 'sites' out.")
    # One level of sites was confirmed; what lies below each is classes.
    found = load_sites(root.resolve().name, sites, replace(request, folders="classes"))
    return replace(found, skipped=(*bad.skipped, *found.skipped))


def _for_site(request: Request, site: Site) -> Request:
    """With a seed of its own: two hospitals of phantoms would otherwise hold the same patients."""
    return replace(request, seed=derive(request.seed, "site", site.name))


def _refuse_repeats(sites: Sequence[Site]) -> None:
    owners: dict[str, str] = {}
    names: set[str] = set()
    for site in sites:
        if site.name in names:
            raise Misconfigured(f"two sites are called {site.name!r}; give each its own name.")
        names.add(site.name)
        other = owners.setdefault(site.source, site.name)
        if other != site.name and not site.source.startswith("phantom/"):
            raise Misconfigured(
                f"sites {other!r} and {site.name!r} have the same source {site.source!r}: the same images in two "
                "hospitals; give each its own."
            )


def _refuse_differences(held: Mapping[str, ImageSet], key: str, value: Callable[[ImageSet], int], meaning: str) -> None:
    found: dict[int, str] = {}
    for site, each in held.items():
        found.setdefault(value(each), site)
    if len(found) > 1:
        (one, a), (other, b) = list(found.items())[:2]
        raise BadInput(
            f"the sites' images differ in {key}: {one} in {a!r}, {other} in {b!r}. Set {key} in [data] "
            f"(--{key}): {meaning}."
        )


def _joined_classes(held: Mapping[str, ImageSet]) -> tuple[str, ...]:
    """The names of all sites' classes, sorted."""
    spelt: dict[str, tuple[str, str]] = {}
    for site, each in held.items():
        for name in each.classes:
            plain = "".join(c for c in name.casefold() if c.isalnum())
            known, first = spelt.setdefault(plain, (name, site))
            if known != name:
                raise BadInput(
                    f"one class is written in two ways: {known!r} in {first!r}, {name!r} in {site!r}. Rename one of "
                    "them, or they would be trained as two classes."
                )
    return tuple(sorted({name for name, _ in spelt.values()}))


def _renumbered(images: ImageSet, classes: Sequence[str]) -> torch.Tensor:
    places = torch.tensor([classes.index(name) for name in images.classes], dtype=torch.int64)
    return places[images.batch.labels]
