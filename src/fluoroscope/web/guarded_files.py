"""Reading files below one folder and nowhere else: symbolic links that lead out, pipes and giants are refused."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from fluoroscope.errors import BadInput, Refused

MOST_BYTES = 128 * 2**20
"""A page with many pictures has some 10 MB."""


@dataclass(frozen=True)
class Root:
    """A folder, resolved: nothing outside of it is ever opened."""

    folder: Path

    @classmethod
    def of(cls, folder: Path) -> "Root":
        """The folder, where there is one."""
        if not folder.is_dir():
            raise BadInput(f"{folder} is no folder; give the one that your runs are in, such as runs.")
        return cls(folder.resolve())

    def inside(self, path: Path) -> Path:
        """The path without symbolic links, once it is known to be below the folder.

        Raises:
            Refused: it leads out.
        """
        try:
            resolved = path.resolve()
        except (OSError, ValueError, RuntimeError) as problem:  # a circle of links, a name with a zero
            raise Refused(f"{path.name!r} cannot be followed to where it leads.") from problem
        if not resolved.is_relative_to(self.folder):
            raise Refused(f"{path.name!r} leads out of {self.folder}, and is not shown.")
        return resolved

    def has(self, path: Path) -> bool:
        """Whether a file is there that `read` would read."""
        try:
            found = self.inside(path).stat()
        except (OSError, Refused):
            return False
        return stat.S_ISREG(found.st_mode) and found.st_size <= MOST_BYTES

    def read(self, path: Path, most: int = MOST_BYTES) -> bytes:
        """All of a file below the folder.

        Raises:
            Refused: it leads out, is no plain file, or has more than `most` bytes.
            BadInput: it cannot be read.
        """
        resolved = self.inside(path)
        try:
            # Resolved, so no link is left to follow; a pipe that nobody writes to must not keep us waiting.
            handle = os.open(resolved, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as problem:
            raise BadInput(f"{path} cannot be read: {problem.strerror}.") from problem
        with os.fdopen(handle, "rb") as file:
            about = os.fstat(file.fileno())
            if not stat.S_ISREG(about.st_mode) or about.st_size > most:
                raise Refused(f"{path.name!r} is no plain file of at most {most} bytes.")
            return file.read(most)
