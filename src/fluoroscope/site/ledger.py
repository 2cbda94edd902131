"""What was decided at the site's door: an append-only file of JSON lines, each with the hash of the one before.

A line is on disk when `append` returns. A process that is killed while it writes leaves half a line, which the next
append takes away; a line that was changed, taken out or moved breaks the chain, and `verify_ledger` names it.
"""

import fcntl
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from fluoroscope import strict_json
from fluoroscope.atomic_write import sync
from fluoroscope.errors import BadInput
from fluoroscope.site.entry import START, Entry

__all__ = ["Entry", "Ledger", "Verified", "read_ledger", "utc_now", "verify_ledger"]


@dataclass(frozen=True)
class Verified:
    """What a ledger's file says of itself."""

    entries: tuple[Entry, ...]
    """Up to the first line that is wrong."""
    broken: str = ""
    """What is wrong, naming the line; empty where the chain is whole."""
    interrupted: bool = False
    """Whether the last line was not written to its end: a killed process leaves that, and nobody was answered by it."""
    whole_bytes: int = 0
    """How much of the file is whole lines."""
    unended: bool = False
    """Whether the last line is whole but for its end."""

    @property
    def head(self) -> str:
        """The last line's hash. Noted elsewhere, it shows that lines were taken from the end."""
        return self.entries[-1].hash if self.entries else START

    def since(self, noted: str) -> int | None:
        """Lines since a noted head, which may be given by its first digits; None where no line has it."""
        hashes = [START, *(entry.hash for entry in self.entries)]
        places = [place for place, known in enumerate(hashes) if known.startswith(noted.strip().lower())]
        return len(hashes) - 1 - places[-1] if places else None


def utc_now() -> str:
    """The time, as lines have it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def verify_ledger(path: Path) -> Verified:
    """Read the whole chain and check every link.

    Args:
        path: the ledger's file.

    Raises:
        BadInput: the file cannot be read at all.
    """
    try:
        return _checked(path.read_bytes())
    except OSError as problem:
        raise BadInput(f"cannot read the ledger {path}: {problem.strerror}.") from problem


def read_ledger(path: Path) -> tuple[Entry, ...]:
    """All entries.

    Raises:
        BadInput: the file cannot be read, or its chain is broken.
    """
    found = verify_ledger(path)
    if found.broken:
        raise BadInput(f"the ledger {path} is broken: {found.broken}")
    return found.entries


class Ledger:
    """One site's ledger. Any number of processes may hold one at the same file."""

    def __init__(self, path: Path, clock: Callable[[], str] = utc_now) -> None:
        self.path = Path(path)
        self._clock = clock
        self._threads = threading.Lock()
        self._seen = Verified(())
        self._file: tuple[int, int] | None = None

    def __reduce__(self) -> tuple[type["Ledger"], tuple[Path, Callable[[], str]]]:
        """A copy for another process reads the file anew."""
        return Ledger, (self.path, self._clock)

    def append(self, entry: Entry) -> Entry:
        """The entry as it stands in the ledger, on disk. The same exchange stays one line: the first is returned.

        Raises:
            BadInput: the chain is broken, so that nothing can be linked to it.
            OSError: it cannot be written; the file is as it was.
        """
        return self.settle(entry.exchange, lambda _: entry)

    def settle(self, exchange: str, make: Callable[[Sequence[Entry]], Entry]) -> Entry:
        """The same, of an entry that depends on all before it: nobody else appends while `make` looks at them."""
        with self._locked() as handle:
            for known in reversed(self._seen.entries):
                if known.exchange == exchange:
                    return known
            made = make(self._seen.entries)
            entry = made.linked(len(self._seen.entries) + 1, self._clock(), self._seen.head)
            self._write(handle, entry)
            return entry

    def find(self, exchange: str) -> Entry | None:
        """What was decided about this exchange, if anything."""
        if not self.path.exists():
            return None
        with self._locked():
            return next((entry for entry in self._seen.entries if entry.exchange == exchange), None)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """The file, for this thread of this process alone, with what is in it read."""
        with self._threads:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                self._catch_up(handle)
                yield handle
            finally:
                os.close(handle)  # and with it the lock

    def _catch_up(self, handle: int) -> None:
        """Read what other processes have added; what this one has read is not read again."""
        about = os.fstat(handle)
        if self._file not in (None, (about.st_dev, about.st_ino)) or about.st_size < self._seen.whole_bytes:
            raise BadInput(
                f"the ledger {self.path} was shortened or replaced while it was in use: put it back, or start again "
                "with a new one."
            )
        found = _checked(_read_from(handle, self._seen.whole_bytes), self._seen)
        if found.broken:
            raise BadInput(f"the ledger {self.path} is broken: {found.broken}")
        self._seen, self._file = found, (about.st_dev, about.st_ino)

    def _write(self, handle: int, entry: Entry) -> None:
        """Behind the last whole line: half a line after it was never answered by."""
        start = self._seen.whole_bytes
        line = b"\n" * self._seen.unended + entry.line()
        try:
            os.ftruncate(handle, start)
            written = 0
            while written < len(line):
                written += os.pwrite(handle, line[written:], start + written)
            os.fsync(handle)
            if not self._seen.entries:
                sync(self.path.parent)  # the file's name, too
        except OSError:
            os.ftruncate(handle, start)
            raise
        self._seen = Verified((*self._seen.entries, entry), whole_bytes=start + len(line))


def _read_from(handle: int, start: int) -> bytes:
    parts = []
    while part := os.pread(handle, 1 << 20, start):
        parts.append(part)
        start += len(part)
    return b"".join(parts)


def _checked(content: bytes, before: Verified | None = None) -> Verified:
    """What the lines in `content` add to what was read before."""
    before = before or Verified(())
    entries, whole = list(before.entries), before.whole_bytes
    if before.unended and content.startswith(b"\n"):
        content, whole = content[1:], whole + 1
    elif before.unended and not content:
        return before
    *lines, rest = content.split(b"\n")
    for place, line in enumerate(lines):
        entry = _linked(line, entries)
        if isinstance(entry, str):
            # The end of a line is written last; where power failed, zeros may stand before it.
            torn = b"\0" in line and place == len(lines) - 1 and not rest
            return Verified(tuple(entries), "" if torn else entry, torn, whole)
        entries.append(entry)
        whole += len(line) + 1
    if not rest:
        return Verified(tuple(entries), whole_bytes=whole)
    entry = _linked(rest, entries)
    if isinstance(entry, Entry):  # only its end is missing
        return Verified((*entries, entry), "", True, whole + len(rest), unended=True)
    edited = rest.rstrip().endswith(b"}") and _is_json(rest)  # half a line is no JSON
    return Verified(tuple(entries), entry if edited else "", not edited, whole)


def _linked(line: bytes, entries: Sequence[Entry]) -> Entry | str:
    """The entry that follows these, or what is wrong with it."""
    number, last = len(entries) + 1, entries[-1] if entries else None
    try:
        entry = Entry.model_validate_json(line)
    except ValidationError:
        return f"line {number} cannot be read: it was edited, or something else was written into the file."
    if entry.line() != line + b"\n" or entry.hash != entry.own_hash():
        return f"line {number} was edited: its hash does not fit what it says."
    if entry.sequence != number or entry.previous != (last.hash if last else START):
        before = f"line {number - 1}" if last else "the beginning"
        return (
            f"line {number} (number {entry.sequence} when it was written) does not follow {before}: a line was removed "
            "or moved, or the one before was edited and its hash with it."
        )
    return entry


def _is_json(text: bytes) -> bool:
    try:
        strict_json.loads(text)
    except ValueError:
        return False
    return True
