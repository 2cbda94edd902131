"""Which source reads what lies at a bare path: told by file names, and by the mark inside DICOM files without one."""

import os
from collections.abc import Iterator
from pathlib import Path

from fluoroscope.errors import BadInput

PICTURES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp")
VOLUMES = (".nii", ".nii.gz")

_LITTER = {"thumbs.db", "desktop.ini", "dicomdir", "__macosx"}
_KINDS = {"folder": PICTURES, "nifti": VOLUMES, "dicom": (".dcm", ".dicom"), "medmnist": (".npz",)}
_TEXT = (".csv", ".tsv", ".txt", ".md", ".json", ".pdf", ".html", ".xml")


def is_hidden(name: str) -> bool:
    """Hidden files, and what operating systems and archives leave behind."""
    return name.startswith(".") or name.lower() in _LITTER


def visible_files(root: Path) -> Iterator[Path]:
    """Every file below `root` that is not hidden, in the same order on every machine."""
    for folder, folders, files in os.walk(root, onerror=_cannot_list):
        folders[:] = sorted(f for f in folders if not is_hidden(f))
        for name in folders:
            if Path(folder, name).is_symlink():
                raise BadInput(f"{Path(folder, name)} is a link to a folder, which is not followed; copy it there.")
        yield from (Path(folder, f) for f in sorted(files) if not is_hidden(f))


def leaves(root: Path, file: Path) -> bool:
    """Whether a file is a link, or below one, to somewhere outside of the folder."""
    return not file.resolve().is_relative_to(root.resolve())


def image_files(root: Path) -> list[Path]:
    """Those that a loader of any kind would look at: below a class folder all, beside the folders images and tables."""
    beside = (".csv", *(suffix for suffixes in _KINDS.values() for suffix in suffixes))
    return [
        file
        for file in visible_files(root)
        if file.is_file() and (file.parent != root or file.name.lower().endswith(beside) or _has_dicom_mark(file))
    ]


def _cannot_list(error: OSError) -> None:
    """os.walk passes over folders that it may not read; here nothing is left out silently."""
    raise BadInput(f"{error.filename} cannot be listed ({error.strerror}); check its permissions.") from error


def recognise(path: Path) -> str:
    """The name of the source that reads `path`."""
    if path.is_file():
        kind = _kind(path)
        if kind == "medmnist":
            return kind
        raise BadInput(
            f"{path} is a single file; give a MedMNIST .npz file, or the folder that holds a subfolder for each class."
        )
    kinds: set[str] = set()
    for file in visible_files(path):
        kind = _kind(file)
        if kind not in (None, "medmnist"):
            kinds.add(str(kind))
    if len(kinds) == 1:
        return kinds.pop()
    if kinds:
        choices = " or ".join(f"{kind}:{path}" for kind in sorted(kinds))
        raise BadInput(f"{path} holds files of several kinds; say which to read: {choices}.")
    raise BadInput(
        f"{path} holds no pictures ({', '.join(PICTURES)}), DICOM or NIfTI files; "
        "give a folder that does, or a MedMNIST .npz file."
    )


def _kind(file: Path) -> str | None:
    name = file.name.lower()
    for kind, suffixes in _KINDS.items():
        if name.endswith(suffixes):
            return kind
    return "dicom" if not name.endswith(_TEXT) and _has_dicom_mark(file) else None


def _has_dicom_mark(file: Path) -> bool:
    if not file.is_file():  # a pipe would never end
        return False
    try:
        with file.open("rb") as stream:
            return stream.read(132)[128:] == b"DICM"
    except OSError:
        return False
