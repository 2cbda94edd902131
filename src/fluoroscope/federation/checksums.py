"""Checksums of a run's small files: the header, the manifests (which hold those of the tensors), the results."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from fluoroscope import strict_json
from fluoroscope.atomic_write import write_text
from fluoroscope.errors import BadInput

CHECKSUMS = "checksums.json"


def checksum_of(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True)
class Checksums:
    """The list in a run's folder."""

    folder: Path

    def read(self) -> dict[str, str]:
        """By name below the folder; empty where there is no list, as of an earlier version.

        Raises:
            BadInput: the list is damaged.
        """
        path = self.folder / CHECKSUMS
        try:
            held = strict_json.loads(path.read_text(encoding="utf-8"))["files"]
            return {_inside(name): str(checksum) for name, checksum in held.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
            raise BadInput(f"{path} is damaged; delete it, and what it lists is checked no more.") from problem

    def note(self, *names: str, again: tuple[str, ...] = ()) -> None:
        """Enter files that were written just now. What is in the list stays as it is, unless it is named `again`:
        a file that was changed by somebody else must not become true."""
        held = self.read()
        found = {name: checksum_of(self.folder / name) for name in names if name not in held or name in again}
        if found:
            self._write({**held, **found})

    def forget(self, name: str) -> None:
        """Take a file out of the list."""
        held = self.read()
        if held.pop(name, None) is not None:
            self._write(held)

    def _write(self, held: dict[str, str]) -> None:
        write_text(self.folder / CHECKSUMS, strict_json.dumps({"files": dict(sorted(held.items()))}))


def _inside(name: str) -> str:
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise ValueError(name)
    return name
