"""What `fluoroscope records --verify` and `--sign` say of a run's files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fluoroscope.errors import BadInput
from fluoroscope.federation.checksums import Checksums
from fluoroscope.federation.store import RecordStore
from fluoroscope.federation.verification import verify
from fluoroscope.runs.kinds import kind_of
from fluoroscope.runs.manifest import RunManifest, read_manifest, save
from fluoroscope.runs.signature import confirm, read_key, signed
from fluoroscope.runs.verification import Verified, verified_runs
from fluoroscope.runs.walk import MANIFEST

_NAMED = 8
"""Files that are named; of more their number is said."""


@dataclass(frozen=True)
class CheckedRun:
    """What was read, what was not, and both in words."""

    files: int
    not_covered: tuple[str, ...]
    digest: str | None
    signature: str | None
    words: tuple[str, ...]

    def plain(self) -> dict[str, Any]:
        """As data: what `--json` prints."""
        return {
            "files": self.files,
            "not_covered": list(self.not_covered),
            "digest": self.digest,
            "signature": self.signature,
        }


def check(folder: Path, key: Path | None = None, sign: Path | None = None) -> CheckedRun:
    """Read every file of the run, and of the runs in it; then ask who signed it, or sign it.

    Raises:
        BadInput: a file is not what was written, or the signature is not of the key; the message names each.
    """
    if not (folder / MANIFEST).exists():
        kind_of(folder)  # refuses what is no run
    asked, signer = (None if path is None else read_key(path) for path in (key, sign))
    found = verified_runs(folder)
    broken = {"" if name == "." else f"in {name}, ": each.problems for name, each in found.items() if not each.holds}
    if broken:
        told = "; ".join(where + problems for where, problems in broken.items())
        raise BadInput(f"{folder} is not what was written; {told}. Put it back as it was, or run its command again.")
    run, words = found["."], [_told(name, each) for name, each in found.items() if each.manifest is not None]
    files = sum(len(each.whole) for each in found.values())
    manifest = run.manifest
    if manifest is None:
        if asked is not None or signer is not None:
            read_manifest(folder)  # which says why there is none
        kept, said = _by_checksums(folder)
        others = tuple(name for name in run.not_listed if name not in kept)
        return CheckedRun(files + len(kept), others, None, None, (*said, *words))
    if run.not_listed:
        words.append(f"not covered, as they came after the run was finished: {_brief(run.not_listed)}.")
    if asked is not None:
        confirm(manifest, asked)
        words.append("the signature is of this key.")
    if signer is not None:
        manifest = save(folder, signed(manifest, signer))
        words.append(f"signed: {folder / MANIFEST}, {_signed(manifest)}.")
    elif asked is None and manifest.signature is not None:
        words.append(f"signed: {_signed(manifest)}; --key checks whose it is.")
    return CheckedRun(files, run.not_listed, manifest.digest, _signed(manifest), tuple(words))


def _by_checksums(folder: Path) -> tuple[set[str], list[str]]:
    """What the records' own checksums cover, where a run has no manifest; and that in words."""
    stores = [RecordStore(each) for each in (folder, *sorted(folder.glob("federations/*")))]
    covered = {name for store in stores if store.exists() for name in _covered(store, folder)}
    said = f"no manifest: the run is not finished, or an earlier version wrote it. {len(covered)} files are whole, by "
    said += "the checksums of their records (header, manifests, models, updates and results). All else is not covered."
    return covered, [said]


def _covered(store: RecordStore, folder: Path) -> set[str]:
    verify(store)
    names = {*Checksums(store.folder).read(), *store.tensor_checksums()}
    return {(store.folder.relative_to(folder) / name).as_posix() for name in names}


def _told(name: str, run: Verified) -> str:
    assert run.manifest is not None
    where = "" if name == "." else f"{name}: "
    return f"{where}every file is whole: {len(run.whole)} of `{run.manifest.run}`, digest {run.manifest.digest}."


def _signed(manifest: RunManifest) -> str | None:
    if manifest.signature is None:
        return None
    by = f" by key {manifest.signature.key}" if manifest.signature.key else ""
    return f"{manifest.signature.algorithm}{by}"


def _brief(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
