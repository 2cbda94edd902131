"""Attacks that do what no attack should: look for the truth, die, raise. A process can import them."""

import gc
import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor, nn

from fluoroscope.errors import Unsupported
from fluoroscope.types import PrivateBatch, Reconstruction

MOST = 1000
"""Files that the thief reads; it begins near what it was told."""


def nothing_found(observation, images=None, **more) -> Reconstruction:
    shape = (observation.training.images, *observation.network.input_shape)
    return Reconstruction(torch.zeros(shape) if images is None else images, None, 0.0, **more)


def fingerprint(image: Tensor) -> str:
    """Of one image, to look for it without carrying it about."""
    return hashlib.sha256(image.detach().cpu().float().contiguous().numpy().tobytes()).hexdigest()


def walked(folder: Path) -> Iterator[Path]:
    """The files below a folder."""
    for where, _, names in os.walk(folder):
        yield from (Path(where) / name for name in names)


@dataclass(frozen=True)
class Thief:
    """Looks for images wherever a plug-in can look, and tells all that it has found."""

    name: str = "thief"
    needs = frozenset()

    def run(self, observations, rng, on_iteration=None, checkpoint=None):
        tensors, batches = self._in_memory()
        paths = self._paths(observations, checkpoint)
        read = {path: self._read(path) for path in islice(self._files(paths), MOST)}
        shape = observations[0].network.input_shape
        images = [
            fingerprint(image)
            for tensor in tensors
            if tensor.numel() and tensor.shape[-3:] == shape
            for image in tensor.reshape(-1, *shape)
        ]
        told = {
            "cwd": os.getcwd(),
            "mode": oct(os.stat(".").st_mode & 0o777),
            "own files": sorted(str(path.relative_to(Path.cwd())) for path in walked(Path.cwd())),
            "batches": batches,
            "images": images,
            "paths": sorted(map(str, paths)),
            "read": sorted(map(str, read)),
            "digests": sorted(set(read.values())),
            "argv": sys.argv,
            "environment": dict(os.environ),
            "threads": torch.get_num_threads(),
        }
        return [nothing_found(each, nothing=json.dumps(told)) for each in observations]

    def _in_memory(self) -> tuple[list[Tensor], int]:
        """Tensors that Python can reach: the collector's objects, what they refer to, and every frame."""
        found = gc.get_objects()
        found += gc.get_referents(*found)
        frame = sys._getframe()
        while frame is not None:
            found += frame.f_locals.values()
            frame = frame.f_back
        unique = {id(each): each for each in found}.values()
        batches = [each for each in unique if type(each) is PrivateBatch]
        tensors = [each for each in unique if type(each) in (Tensor, nn.Parameter) and each.device.type == "cpu"]
        return [*tensors, *(batch.images for batch in batches)], len(batches)

    def _paths(self, observations, checkpoint) -> list[Path]:
        """Every path that it was told, in whatever way."""
        words = ["" if checkpoint is None else str(checkpoint.folder.absolute()), os.getcwd(), *sys.argv]
        words += [text for each in observations for text in texts(each)]
        words += [part for value in os.environ.values() for part in value.split(os.pathsep)]
        return [Path(word) for word in dict.fromkeys(words) if word.startswith("/")]

    def _files(self, paths: list[Path]) -> Iterator[Path]:
        """From each path up, and down again, but for the root and its folders: that is to search the disk."""
        code = {Path(entry) for name in ("PATH", "PYTHONPATH") for entry in os.environ.get(name, "").split(os.pathsep)}
        for path in paths:
            for above in (path, *path.parents) if path not in code else ():
                yield from walked(above) if len(above.parts) > 2 else ()

    def _read(self, path: Path) -> str:
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() and os.access(path, os.R_OK) else ""


def texts(value: object, depth: int = 4) -> Iterator[str]:
    """Text in the fields of an object."""
    if isinstance(value, str | Path):
        yield str(value)
    elif depth and is_dataclass(value):
        for field in fields(value):
            yield from texts(getattr(value, field.name), depth - 1)
    elif depth and hasattr(value, "__dict__"):
        for each in vars(value).values():
            yield from texts(each, depth - 1)


@dataclass(frozen=True)
class Ends:
    """Ends in some way that is not a guess."""

    how: str
    needs = frozenset()
    name = "ends"

    def run(self, observations, rng, on_iteration=None, checkpoint=None):
        print("what an attack prints is not a message")
        on_iteration(0, 9)
        match self.how:
            case "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            case "exit":
                os._exit(7)
            case "unsupported":
                raise Unsupported("two steps are too many.")
            case "waits":
                (checkpoint.folder / "deep").mkdir(parents=True)
                (checkpoint.folder / "deep/descent-0000.safetensors").write_text(str(os.getpid()))
                on_iteration(1, 9)
                time.sleep(60)
        raise AssertionError(self.how)


class OwnProblem(Unsupported):
    """Of a class that only the plug-in has."""


class OwnNetwork(nn.Module):
    """A network of somebody's own."""

    def __init__(self, width: int = 3) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, width, 3, 2), nn.Sigmoid(), nn.Flatten(), nn.Linear(width * 225, 2))

    def forward(self, images):
        return self.body(images)
