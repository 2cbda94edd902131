"""What happens to a file that cannot be used: the run stops and names it, or leaves it out and says so."""

from pathlib import Path

from fluoroscope.errors import BadInput
from fluoroscope.types import Skipped


class BadFiles:
    """The list of what was left out. Without `skip`, the first entry raises instead."""

    def __init__(self, skip: bool) -> None:
        self._skip = skip
        self._skipped: list[Skipped] = []

    def add(self, file: Path | str, reason: str, remedy: str = "Remove it") -> None:
        shown = str(file).encode(errors="backslashreplace").decode()  # a name may be bytes that are no text
        if not self._skip:
            raise BadInput(f"{shown}: {reason}. {remedy}, or pass --skip-bad to leave it out.")
        self._skipped.append(Skipped(shown, reason))

    @property
    def skipped(self) -> tuple[Skipped, ...]:
        return tuple(self._skipped)
