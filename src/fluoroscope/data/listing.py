"""Which files make up a data set, and what class, patient and licence each has.

    root/CLASS/...file          a subfolder a class; deeper folders belong to the class above them
    root/{train,val,test}/CLASS/...file
                                a published split above the classes: joined, since fluoroscope splits by patient itself
    root/images.csv             file,label,patient,licence,site; then it decides, and the files may lie anywhere below

Hidden files are ignored. Any other file below a class folder must be an image, and in the table if there is one.
"""

from dataclasses import dataclass
from pathlib import Path

from fluoroscope.data.bad_files import BadFiles
from fluoroscope.data.recognition import is_hidden, leaves, visible_files
from fluoroscope.data.site_layout import ask_about_sites
from fluoroscope.data.sources import Folders
from fluoroscope.data.table import find_table, read_table
from fluoroscope.errors import BadInput

_SPLITS = {"train", "training", "val", "valid", "validation", "test", "testing"}


@dataclass(frozen=True)
class Entry:
    """One file of a data set. `patient`, `licence` and `site` are None where the folder does not say."""

    path: Path
    name: str
    label: str
    patient: str | None = None
    licence: str | None = None
    site: str | None = None


@dataclass(frozen=True)
class FileKind:
    """What a loader looks for."""

    source: str
    """The loader's name, as it stands before the colon."""
    noun: str
    suffixes: tuple[str, ...]
    """A file outside any class folder counts when its name ends so."""
    ignored: tuple[str, ...] = ()
    """Companion files that are no images, by suffix."""
    required_columns: tuple[str, ...] = ("file", "label")


def list_files(root: Path, kind: FileKind, bad: BadFiles, folders: Folders | None = None) -> tuple[Entry, ...]:
    """The files below `root`, sorted by name; unless `folders` is set, subfolders that look like sites are refused."""
    if not root.is_dir():
        raise BadInput(f"{root} is a file; give the folder that holds a subfolder for each class.")
    files = {file.relative_to(root).as_posix(): file for file in _candidates(root, kind)}
    for name in [name for name in files if any("\ud800" <= letter <= "\udfff" for letter in name)]:
        bad.add(files.pop(name), "has a name that is not UTF-8", "Rename it")
    for name in [name for name, file in files.items() if leaves(root, file)]:
        bad.add(files.pop(name), "is a link out of the folder", f"Copy the file to {root}")
    table = find_table(root)
    depth = _class_depth(root, labelled=table is not None)
    if table is None and folders is None:
        ask_about_sites(root, kind.source, depth, list(files))
    entries = (
        _from_table(root, table, files, depth, kind, bad) if table else _from_folders(root, files, depth, kind, bad)
    )
    if not entries:
        raise BadInput(f"{root} holds no {kind.noun}; give a folder with a subfolder of them for each class.")
    return tuple(sorted(entries, key=lambda entry: entry.name))


def _candidates(root: Path, kind: FileKind) -> list[Path]:
    return [
        file
        for file in visible_files(root)
        if not file.name.lower().endswith(kind.ignored)
        and (file.parent != root or file.name.lower().endswith(kind.suffixes))
    ]


def _folders(parent: Path) -> list[Path]:
    return sorted(child for child in parent.iterdir() if child.is_dir() and not is_hidden(child.name))


def _class_depth(root: Path, labelled: bool) -> int:
    """How many folders lie above the class folders: 1 below train/, val/ and test/, else 0."""
    folders = _folders(root)
    splits = [folder for folder in folders if folder.name.lower() in _SPLITS and _folders(folder)]
    if splits and len(splits) == len(folders):
        return 1
    if splits and not labelled:
        others = ", ".join(folder.name for folder in folders if folder not in splits)
        raise BadInput(
            f"{root} mixes a published split ({', '.join(s.name for s in splits)}) with other folders ({others}); "
            f"point at one of them, such as {splits[0]}, or move the others away."
        )
    if len(folders) == 1 and not labelled and _folders(folders[0]) and not any(_files(folders[0])):
        raise BadInput(f"{root} holds nothing but the folder {folders[0].name}; point at {folders[0]}.")
    return 0


def _files(folder: Path) -> list[Path]:
    return [child for child in folder.iterdir() if child.is_file() and not is_hidden(child.name)]


def _class_folder(name: str, depth: int) -> str | None:
    parts = name.split("/")
    return parts[depth] if len(parts) > depth + 1 else None


def _from_folders(root: Path, files: dict[str, Path], depth: int, kind: FileKind, bad: BadFiles) -> list[Entry]:
    parents = _folders(root) if depth else [root]
    expected = {folder.name for parent in parents for folder in _folders(parent)}
    if not expected:
        raise BadInput(
            f"{root} has no class folders; sort the {kind.noun} into a subfolder for each class, "
            "or add an images.csv with the columns file,label."
        )
    entries = []
    for name, path in files.items():
        label = _class_folder(name, depth)
        if label is None:
            bad.add(path, "lies in no class folder", "Move it into one")
        else:
            entries.append(Entry(path, name, label))
    empty = sorted(expected - {entry.label for entry in entries})
    if empty:
        raise BadInput(f"{root}: class folder {empty[0]!r} is empty; put {kind.noun} into it, or remove it.")
    return entries


def _from_table(
    root: Path, table: Path, files: dict[str, Path], depth: int, kind: FileKind, bad: BadFiles
) -> list[Entry]:
    rows = read_table(table, kind.required_columns)
    labels = {row.label for row in rows}
    # Folders named like labels are class folders and must agree; others (a patient's, a date's) say nothing.
    by_class = not labels.isdisjoint(_class_folder(name, depth) or "" for name in files)
    entries = []
    for row in rows:
        path = files.get(row.file) or root / row.file
        if leaves(root, path):
            continue  # it is in the list of those left out
        folder = _class_folder(row.file, depth) if by_class else None
        if not path.is_file():
            bad.add(path, f"is missing, but line {row.line} of {table.name} names it", "Restore it or delete the line")
        elif folder not in (None, row.label):
            bad.add(
                path,
                f"is mislabelled: it lies in folder {folder!r}, but line {row.line} of {table.name} says {row.label!r}",
                "Correct one of them",
            )
        else:
            entries.append(Entry(path, row.file, row.label, row.patient, row.licence, row.site))
    named = {row.file for row in rows}
    for name in sorted(files.keys() - named):
        bad.add(files[name], f"is not in {table.name}", "Add a line for it or remove it")
    return entries
