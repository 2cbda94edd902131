"""The manifest of a finished run: a digest of every file, and one of itself.

    DIR/run-manifest.json   {"run": "audit", "files": {"findings.json": {"sha256": ..., "bytes": ...}}, "digest": ...}

It is written last and taken away when a run goes on, so a run that has one is finished.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from fluoroscope import strict_json
from fluoroscope.atomic_write import write_text
from fluoroscope.errors import BadInput
from fluoroscope.runs.walk import MANIFEST, files_of

FORMAT = 1
MOST_BYTES = 2**28
"""Of a manifest that is read."""
Command = Literal["federate", "audit", "calibrate", "study"]


@dataclass(frozen=True)
class FileDigest:
    """What a file was when the run was finished: its SHA-256 in hexadecimal, and its size."""

    sha256: str
    bytes: int


@dataclass(frozen=True)
class Signature:
    """Whose run it is: of the digest, by a key that is not in the folder."""

    algorithm: Literal["ed25519", "hmac-sha256"]
    """A private key's, or a secret's that signer and verifier share."""
    key: str
    """Which public key confirms it, by the start of its SHA-256; empty for a shared secret."""
    value: str


@dataclass(frozen=True)
class RunManifest:
    """The files of a finished run."""

    format: int
    run: Command
    fluoroscope: str
    files: dict[str, FileDigest]
    digest: str = ""
    signature: Signature | None = None

    @property
    def expected_digest(self) -> str:
        """Of everything but itself and the signature."""
        content = {key: value for key, value in asdict(self).items() if key not in ("digest", "signature")}
        return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    def plain(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value is not None}


def write_manifest(folder: Path, run: Command, known: Mapping[str, str] | None = None) -> RunManifest:
    """The manifest of the run in `folder`, written; `known` are SHA-256 that need not be computed again.

    One that says the same stays, with its signature.
    """
    known = known or {}
    files = {}
    for name in files_of(folder).plain:
        with suppress(FileNotFoundError):  # another command at work in the same folder took it away meanwhile
            files[name] = _digest(folder / name, known.get(name))
    made = RunManifest(FORMAT, run, version("fluoroscope"), files)
    with suppress(BadInput):
        if (there := read_manifest(folder)).digest == made.expected_digest:
            return there
    return save(folder, made)


def save(folder: Path, manifest: RunManifest) -> RunManifest:
    """The manifest in its folder, with its digest."""
    whole = replace(manifest, digest=manifest.expected_digest)
    write_text(folder / MANIFEST, strict_json.dumps(whole.plain()))
    return whole


def forget_manifest(folder: Path) -> None:
    """The run goes on: nothing says that it is finished."""
    (folder / MANIFEST).unlink(missing_ok=True)


def renew(folder: Path, written: Iterable[Path]) -> bool:
    """Enter files that were written to a finished run, such as its page; whether its signature, if any, is still there.

    Who signed has not seen them, so it is taken away where they are not what was signed.
    """
    if not (folder / MANIFEST).is_file():
        return True
    manifest, root = read_manifest(folder), folder.resolve()
    inside = [path.resolve() for path in written if path.resolve().is_relative_to(root)]
    new = {path.relative_to(root).as_posix(): _digest(path) for path in inside}
    if all(manifest.files.get(name) == found for name, found in new.items()):
        return True
    save(folder, replace(manifest, files=dict(sorted({**manifest.files, **new}.items())), signature=None))
    return manifest.signature is None


def read_manifest(folder: Path) -> RunManifest:
    """The manifest of a finished run.

    Raises:
        BadInput: there is none, or it is not what was written.
    """
    path = folder / MANIFEST
    again = "Put it back as it was, or run the command that wrote the folder again."
    if path.is_symlink() or not path.is_file():
        raise BadInput(f"{path} is missing: the run is not finished, or an earlier version wrote it.")
    if path.stat().st_size > MOST_BYTES:
        raise BadInput(f"{path} has {path.stat().st_size:,} bytes; at most {MOST_BYTES:,} are read.")
    try:
        manifest = TypeAdapter(RunManifest).validate_json(path.read_bytes())
    except (ValidationError, OSError) as problem:
        raise BadInput(f"{path} is damaged. {again}") from problem
    if manifest.format != FORMAT:
        raise BadInput(f"{path}: format: this version reads format {FORMAT}, not {manifest.format}.")
    if manifest.digest != manifest.expected_digest:
        raise BadInput(f"{path} was changed since it was written: its digest is not that of what it says. {again}")
    for name in manifest.files:
        if not _inside(name):
            raise BadInput(f"{path} names {name!r}, which lies outside of the folder.")
    return manifest


def _inside(name: str) -> bool:
    path = PurePosixPath(name)
    return bool(name) and "\0" not in name and not path.is_absolute() and ".." not in path.parts


def _digest(path: Path, known: str | None = None) -> FileDigest:
    if known is None:
        with path.open("rb") as file:
            known = hashlib.file_digest(file, "sha256").hexdigest()
    return FileDigest(known, path.stat().st_size)
