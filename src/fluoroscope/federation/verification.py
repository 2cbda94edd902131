"""Whether every file of a run is what was written."""

from dataclasses import dataclass

from fluoroscope.errors import BadInput
from fluoroscope.federation.checksums import CHECKSUMS, Checksums, checksum_of
from fluoroscope.federation.store import RecordStore


@dataclass(frozen=True)
class Verified:
    """What was checked."""

    files: int
    uncovered: tuple[str, ...]
    """Files of an earlier version, or of a run that was killed, of which no checksum is known."""


def verify(store: RecordStore) -> Verified:
    """Read every file of the run and compare it with its checksum.

    Raises:
        BadInput: a file is damaged, or one that is needed is missing; the message names it.
    """
    held = Checksums(store.folder).read()
    again = f"Put it back as it was, or delete {store.folder} and run the same command again."
    for name, expected in held.items():
        path = store.folder / name
        if not path.is_file():
            raise BadInput(f"{path} is missing, and {CHECKSUMS} names it. {again}")
        if checksum_of(path) != expected:
            raise BadInput(f"{path} was changed since it was written. {again}")
    files, rounds, best = len(held), store.rounds(), store.best_round()
    for r in rounds:
        there = {path.name for path in store.files(r)}
        for name in store.manifest(r).files:
            if name in there or r == rounds[-1] or store.needs(r, name, best):
                store.tensors(r, name)
                files += 1
    named = ["run.json", *(f"rounds/{r:04d}/manifest.json" for r in rounds)]
    named += [name for name in ("result.json", "summary.json", "index.html") if (store.folder / name).exists()]
    return Verified(files, tuple(name for name in named if name not in held))
