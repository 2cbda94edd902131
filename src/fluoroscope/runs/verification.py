"""Whether the files of a finished run are those that were written."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from fluoroscope.runs.manifest import FileDigest, RunManifest, read_manifest
from fluoroscope.runs.walk import MANIFEST, files_of


@dataclass(frozen=True)
class Verified:
    """What became of the files of a run, by their names in it."""

    manifest: RunManifest | None
    """None: the run is not finished, or of an earlier version."""
    whole: tuple[str, ...]
    damaged: tuple[str, ...]
    missing: tuple[str, ...]
    not_listed: tuple[str, ...]
    """Written since the run was finished, or links; without a manifest every file."""

    @property
    def holds(self) -> bool:
        """Whether nothing that the manifest names is damaged or missing."""
        return not self.damaged and not self.missing

    @property
    def problems(self) -> str:
        """Each file that is not as it was, in words; empty where all are."""
        told = {"damaged": self.damaged, "missing": self.missing}
        return "; ".join(f"{what}: {', '.join(names)}" for what, names in told.items() if names)


def verified_runs(folder: Path) -> dict[str, Verified]:
    """The run in the folder, named ".", and those inside it that have a manifest of their own.

    Raises:
        BadInput: a manifest is not what was written.
    """
    found, waiting = {}, ["."]
    while waiting:
        name = waiting.pop(0)
        found[name] = _verified(folder / name)
        waiting += [f"{name}/{each}".removeprefix("./") for each in files_of(folder / name).runs]
    return found


def _verified(folder: Path) -> Verified:
    there = files_of(folder)
    others = (*there.plain, *there.links)
    if not (folder / MANIFEST).exists():
        return Verified(None, (), (), (), tuple(sorted(others)))
    manifest = read_manifest(folder)
    plain, listed = set(there.plain), manifest.files
    as_it_was = {name: _same(folder / name, listed[name]) for name in listed if name in plain}
    return Verified(
        manifest,
        tuple(name for name, same in as_it_was.items() if same),
        tuple(name for name, same in as_it_was.items() if not same),
        tuple(name for name in listed if name not in plain),
        tuple(sorted(name for name in others if name not in listed)),
    )


def _same(path: Path, listed: FileDigest) -> bool:
    if path.stat().st_size != listed.bytes:
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == listed.sha256
