"""Subfolders that are hospitals and not classes: asked about, since a classifier of hospitals trains without complaint.

Two signs count. By name: every subfolder is called like a site (hospital-a, site1, clinic_north). By layout: every
subfolder holds the same two or more folders of images and no image itself, or has its own `images.csv`.
Both are narrow on purpose: a class must never be taken for a hospital because of what its disease is called.
"""

import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from fluoroscope.data.site_names import plain_name
from fluoroscope.data.table import NAMES
from fluoroscope.errors import BadInput

_HOUSES = frozenset(
    [
        "hospital",
        "hospitals",
        "hosp",
        "clinic",
        "clinique",
        "clinica",
        "klinik",
        "klinikum",
        "uniklinik",
        "krankenhaus",
        "spital",
        "hopital",
        "ospedale",
        "institution",
        "institute",
        "institut",
    ]
)
"""Words that name a house of medicine, wherever they stand in a name."""
_PLACES = frozenset(["site", "sites", "node", "center", "centre", "zentrum", "client", "silo"])
"""Words that are also of anatomy and findings (lymph node, center-involved): only bare or with a number or letter."""
_FINDINGS = frozenset(
    ["in", "out", "non", "no", "not", "pre", "post", "acquired", "associated", "related", "onset", "stay", "death"]
)
"""Beside a house they make a finding: hospital-acquired, in-hospital."""
_NUMBER = re.compile(r"\d+|[a-z]|[ivx]+|north|south|east|west|nord|sud|ost|est|ouest")
_NOT_CLASSES = re.compile(
    r"(train(ing)?|val(id(ation)?)?|test(ing)?|(patient|pat|subject|subj|sub|case|study|series|scan|visit)[\W_]*\d+)",
    re.IGNORECASE,
)
"""Published splits, and numbered patients and studies: below a class they are usual, and no classes themselves."""
_SHOWN = 3


class LooksLikeSites(BadInput):
    """Subfolders that look like hospitals were given for classes; `sites` has a name and a source for each."""

    def __init__(self, message: str, sites: tuple[tuple[str, str], ...]) -> None:
        super().__init__(message, sites)
        self.sites = sites

    def __str__(self) -> str:
        """The sentence alone."""
        return str(self.args[0])


def looks_like_a_site(name: str) -> bool:
    """Whether a folder is called as hospitals are: `Hospital A`, `site1`, `clinic_north`, `center-2`.

    >>> [looks_like_a_site(name) for name in ("St-Mary-Hospital", "node-3", "lymph-node", "pneumonia")]
    [True, True, False, False]
    """
    plain = unicodedata.normalize("NFKD", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name))
    words = re.findall(r"[a-z]+|\d+", "".join(c for c in plain.lower() if not unicodedata.combining(c)))
    if not words or _FINDINGS & set(words):
        return False
    if words[0] in _PLACES | _HOUSES and all(_NUMBER.fullmatch(word) for word in words[1:]):
        return True
    return words[0] in _HOUSES or words[-1] in _HOUSES


def ask_about_sites(root: Path, source: str, depth: int, files: Sequence[str]) -> None:
    """Refuses class folders that look like sites, with both ways on.

    Args:
        root: The folder that the user named.
        source: What stands before the colon in a plan, such as `folder`.
        depth: How many folders lie above the class folders.
        files: The files below `root`, relative to it, with forward slashes.
    """
    parts = [file.split("/")[depth:] for file in files]
    folders = sorted({part[0] for part in parts if len(part) > 1})
    named = bool(folders) and all(looks_like_a_site(folder) for folder in folders)
    # Below train/ and test/ a site's images lie in several folders: the layout says too little there.
    if not named and not (depth == 0 and _laid_out_as_sites(folders, parts)):
        return
    shown = ", ".join(folders[:_SHOWN]) + (", ..." if len(folders) > _SHOWN else "")
    tables = "\n".join(_table(root, source, folder) for folder in folders[:_SHOWN])
    more = f"\n    (and so on: {len(folders)} sites)" if len(folders) > _SHOWN else ""
    sites = tuple((plain_name(folder), f"{source}:{root / folder}") for folder in folders)
    raise LooksLikeSites(
        f"{root}: the folders {shown} look like sites, not like classes, and a model would learn to tell hospitals "
        "apart. If each is a site whose own subfolders are classes (or which has its images.csv), say so with "
        "folders = 'sites' in [data] (data show: --folders sites), or write one table per site in place of source:"
        f"\n{tables}{more}\n"
        "If they are classes, set folders = 'classes' in [data] (data show: --folders classes).",
        sites if depth == 0 else (),
    )


def _laid_out_as_sites(folders: Sequence[str], parts: Sequence[Sequence[str]]) -> bool:
    if len(folders) < 2:
        return False
    tables = {part[0] for part in parts if len(part) == 2 and part[1] in NAMES}
    if tables == set(folders):
        return True
    if any(len(part) == 2 for part in parts):  # an image beside the deeper folders: those only sort a class
        return False
    inside = [frozenset(part[1] for part in parts if part[0] == folder and len(part) > 2) for folder in folders]
    same = len(set(inside)) == 1 and len(inside[0]) >= 2
    # normal/hospital-a and sick/hospital-a: the sites lie below the classes.
    return same and not all(_NOT_CLASSES.fullmatch(name) or looks_like_a_site(name) for name in inside[0])


def _table(root: Path, source: str, folder: str) -> str:
    return f'    [[data.site]]\n    name = "{plain_name(folder)}"\n    source = "{source}:{(root / folder).as_posix()}"'
