"""A killed attack goes on where it was: its descents in a folder, one safetensors file each. Nothing is unpickled."""

import json
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from fluoroscope import strict_json
from fluoroscope.atomic_write import make_folder, write_tensors
from fluoroscope.attacks.common.descent import S
from fluoroscope.attacks.common.engine import DescentState
from fluoroscope.errors import BadInput

FORMAT = "1"


@dataclass(frozen=True)
class Checkpoint:
    """Where an attack's descents are kept, and how often they are written. Whoever owns the folder deletes it.

    A descent that has ended stays, so an attack of many goes on after the last one that ended.
    """

    folder: Path
    every_seconds: float = 60.0

    def keeper(self, number: int, key: str) -> "FileKeeper":
        """For the descent of this number; `key` tells what it belongs to."""
        return FileKeeper(self._file(number), key, self.every_seconds)

    def part(self, name: str) -> "Checkpoint":
        """For a part of the attack that has descents of its own."""
        return replace(self, folder=self.folder / name)

    def _file(self, number: int) -> Path:
        return self.folder / f"descent-{number:04d}.safetensors"


@dataclass
class FileKeeper:
    """One descent in one file, which is written whole and renamed."""

    path: Path
    key: str
    every_seconds: float
    written: float = field(default_factory=time.monotonic)

    def keep(self, midway: DescentState[S], ended: bool) -> None:
        if not ended and time.monotonic() - self.written < self.every_seconds:
            return
        make_folder(self.path.parent)
        numbers = json.dumps({"iterations": midway.iterations, "seconds": midway.seconds})
        about = {"format": FORMAT, "key": self.key, "numbers": numbers, "ended": str(ended)}
        write_tensors(self.path, _tensors(midway), about)
        self.written = time.monotonic()

    def resume(self, fresh: DescentState[S]) -> DescentState[S]:
        """What the file holds, or `fresh` where there is none, or only another's that has ended."""
        if not self.path.exists():
            return fresh
        try:
            with safe_open(self.path, framework="pt") as file:
                about = file.metadata() or {}
                if (about.get("format"), about.get("key")) != (FORMAT, self.key):
                    if about.get("ended") == "True":
                        return fresh
                    raise BadInput(
                        f"{self.path} is the checkpoint of other observations, other settings or another seed. Choose "
                        "another folder, or delete it."
                    )
                return _midway({name: file.get_tensor(name) for name in file.keys()}, about["numbers"], fresh)  # noqa: SIM118  # it is no dict
        except (SafetensorError, OSError, KeyError, TypeError, ValueError) as problem:
            raise BadInput(f"{self.path} is damaged ({problem}): delete it, and the attack starts again.") from problem


def _tensors(midway: DescentState[S]) -> dict[str, Tensor]:
    tensors = {"start": midway.start, "x": midway.x, "since": midway.since, "traces": torch.stack(midway.traces)}
    tensors |= {f"state.{name}": value for name, value in midway.state.tensors().items()}
    tensors |= {f"snapshot.{iterations}": x for iterations, x in midway.snapshots.items()}
    return {name: value.contiguous() if name != "x" else value.clone() for name, value in tensors.items()}


def _midway(tensors: dict[str, Tensor], numbers: str, fresh: DescentState[S]) -> DescentState[S]:
    parts: dict[str, dict[str, Tensor]] = {"state": {}, "snapshot": {}}
    for name, value in tensors.items():
        kind, _, rest = name.partition(".")
        if rest:
            parts[kind][rest] = value
    read = strict_json.loads(numbers)
    return DescentState(
        start=tensors["start"],
        x=tensors["x"],
        state=type(fresh.state)(**parts["state"]),
        since=tensors["since"],
        iterations=int(read["iterations"]),
        seconds=float(read["seconds"]),
        traces=tensors["traces"].unbind(0),
        snapshots={int(iterations): x for iterations, x in sorted(parts["snapshot"].items(), key=lambda p: int(p[0]))},
    )
