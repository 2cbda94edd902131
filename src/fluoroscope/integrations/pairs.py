"""Updates as pairs of checkpoints in folders of their own: what somebody has who recorded nothing.

FOLDER/CLIENT/before.pt, FOLDER/CLIENT/after.pt              of round 1
FOLDER/3/CLIENT/before.pt, FOLDER/3/CLIENT/after.pt          of round 3; also round-3/, rounds/0003/
"""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

from torch import Tensor

from fluoroscope.errors import BadInput
from fluoroscope.integrations.recorded import RecordedUpdate, RecordedUpdates
from fluoroscope.models.state_files import KINDS, read_state


class Updates(Protocol):
    """Updates of somebody's federation, by round and client."""

    def rounds(self) -> list[int]: ...

    def clients(self, round: int) -> list[str]: ...

    def about(self, round: int, client: str) -> RecordedUpdate: ...

    def load(self, round: int, client: str) -> tuple[dict[str, Tensor], dict[str, Tensor]]: ...

    def place(self, round: int, client: str) -> Path:
        """The folder of one update."""
        ...


@dataclass(frozen=True)
class PairedUpdates:
    """The pairs `before.*`, `after.*` under a folder."""

    folder: Path

    def rounds(self) -> list[int]:
        """In order."""
        return sorted({number for number, _ in self._found})

    def clients(self, round: int) -> list[str]:
        """In order."""
        return sorted(client for number, client in self._found if number == round)

    def about(self, round: int, client: str) -> RecordedUpdate:
        """Nothing but whose it is: two files say no more."""
        self.place(round, client)
        return RecordedUpdate(client, round, "", "")

    def load(self, round: int, client: str) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The model that the client was sent, and what it sent back."""
        place = self.place(round, client)
        return read_state(_file(place, "before")), read_state(_file(place, "after"))

    def place(self, round: int, client: str) -> Path:
        """The folder of one pair."""
        try:
            return self._found[round, client]
        except KeyError:
            raise BadInput(f"{self.folder} has no update of {client!r} in round {round}.") from None

    @cached_property
    def _found(self) -> dict[tuple[int, str], Path]:
        found: dict[tuple[int, str], Path] = {}
        for path in sorted({file.parent for file in self.folder.rglob("before.*") if file.suffix in KINDS}):
            if not _files(path, "after"):
                raise BadInput(f"{path} has a before.* and no after.* beside it: give both checkpoints of the round.")
            key = _round(path.parent, self.folder), path.name
            if key in found:
                raise BadInput(f"{path} and {found[key]} are both of {key[1]!r} in round {key[0]}: name one otherwise.")
            found[key] = path
        return found


def open_updates(folder: Path) -> Updates:
    """What was recorded in a folder, or the pairs of checkpoints that lie in it.

    Raises:
        BadInput: there is no such folder, or no update in it.
    """
    if not folder.is_dir():
        raise BadInput(f"there is no folder {folder}: give one that an integration recorded updates in.")
    recorded = RecordedUpdates(folder)
    if recorded.rounds():
        return recorded
    paired = PairedUpdates(folder)
    if paired.rounds():
        return paired
    raise BadInput(
        f"{folder} holds no update: it should be a folder that an integration recorded, or have a folder per client "
        "with before.pt and after.pt."
    )


def _round(place: Path, root: Path) -> int:
    """The number in the name of the folder above; without one, the first."""
    number = None if place == root else re.fullmatch(r"\D*(\d+)", place.name)
    return int(number[1]) if number else 1


def _files(place: Path, which: str) -> list[Path]:
    return sorted(file for file in place.glob(f"{which}.*") if file.suffix in KINDS)


def _file(place: Path, which: str) -> Path:
    files = _files(place, which)
    if len(files) != 1:
        raise BadInput(f"{place} has {len(files)} files {which}.*, and one is needed.")
    return files[0]
