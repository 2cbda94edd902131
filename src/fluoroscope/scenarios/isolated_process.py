"""What runs in the process of an isolated attack, and what is said between it and ours.

We send it a pickle, since we trust what we send. What it sends back is text and plain arrays: an attack that could have
a pickle of its own read here would be out.
"""

import builtins
import json
import os
import pickle
import shutil
import signal
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import safetensors.torch
import torch
from torch import Tensor, nn

from fluoroscope import errors, process_tuning
from fluoroscope.attacks import Attack
from fluoroscope.attacks.common.checkpoint import Checkpoint
from fluoroscope.errors import Misconfigured, Unsupported
from fluoroscope.types import Observation, Reconstruction

TASK = "observations.pickle"
CHECKPOINT = "checkpoint"


@dataclass(frozen=True, eq=False)
class Task:
    """All that the process is given."""

    attack: Attack
    observations: list[Observation]
    rng: Tensor
    threads: int
    every_seconds: float | None
    """Between two checkpoints; None keeps none."""


def serve() -> None:
    """The life of the process: read the task from its folder, run it, tell."""
    process_tuning.apply()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this process
    folder = Path.cwd()
    pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what an attack prints is no message of ours
    threading.Thread(target=_end_with_parent, args=(folder,), daemon=True).start()
    try:
        guesses = _run(_read(folder / TASK), folder, lambda i, n: _tell(pipe, iteration=[i, n]))
        told, arrays = [_text(guess) for guess in guesses], safetensors.torch.save(_arrays(guesses))
    except Exception as problem:
        _tell(pipe, raised=_raised(problem))
        return
    _tell(pipe, guesses=told, bytes=len(arrays))
    pipe.write(arrays)
    pipe.flush()


def _end_with_parent(folder: Path) -> None:
    """However it dies: a killed parent can neither end this process nor clean up behind it."""
    with suppress(OSError):
        while os.read(0, 1):
            pass
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


class _Pickler(pickle.Pickler):
    """Sends of a tensor what it shows: a part of a larger one would bring the whole along."""

    def reducer_override(self, found: Any) -> Any:  # noqa: ANN401  # as pickle has it
        if not isinstance(found, Tensor) or found.layout is not torch.strided or found.device.type == "meta":
            return NotImplemented
        if found.untyped_storage().nbytes() <= found.nbytes:
            return NotImplemented
        alone = found.detach().clone()
        alone = nn.Parameter(alone) if isinstance(found, nn.Parameter) else alone
        return alone.requires_grad_(found.requires_grad).__reduce_ex__(pickle.HIGHEST_PROTOCOL)  # type: ignore[no-untyped-call]


def write_task(task: Task, path: Path) -> None:
    """As the process will read it."""
    try:
        with path.open("wb") as file:
            _Pickler(file, pickle.HIGHEST_PROTOCOL).dump(task)
    except OSError:
        raise
    except Exception as problem:  # a class may refuse in any way
        raise Unsupported(
            f"the attack runs in a process of its own, and what it needs cannot be sent there ({problem}): define the "
            "classes and functions of your network, loss and attack at the top of a module that can be imported."
        ) from problem


def _read(path: Path) -> Task:
    try:
        task = pickle.loads(path.read_bytes())
    except (ImportError, AttributeError) as problem:
        raise Misconfigured(
            f"the process of the attack cannot import what it was sent ({problem}): put the classes of your network, "
            "loss and attack in a module, not in the script itself, and its folder on PYTHONPATH."
        ) from problem
    assert isinstance(task, Task)
    return task


def _run(task: Task, folder: Path, on_iteration: Callable[[int, int], None]) -> list[Reconstruction]:
    torch.set_num_threads(task.threads)
    rng = torch.Generator()
    rng.set_state(task.rng)
    kept = None if task.every_seconds is None else Checkpoint(folder / CHECKPOINT, task.every_seconds)
    return task.attack.run(task.observations, rng, on_iteration, kept)


def _tell(pipe: IO[bytes], **message: object) -> None:
    pipe.write(json.dumps(message).encode() + b"\n")
    pipe.flush()


def _text(guess: Reconstruction) -> dict[str, Any]:
    values = {field.name: getattr(guess, field.name) for field in fields(guess)}
    return {name: value for name, value in values.items() if isinstance(value, bool | float | int | str | tuple)}


def _arrays(guesses: Sequence[Reconstruction]) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for number, guess in enumerate(guesses):
        named = {field.name: getattr(guess, field.name) for field in fields(guess)}
        named |= {f"snapshots.{iterations}": value for iterations, value in guess.snapshots.items()}
        found |= {f"{number}.{name}": value for name, value in named.items() if isinstance(value, Tensor)}
    return {name: value.detach().cpu().contiguous().clone() for name, value in found.items()}


def read_guesses(told: Sequence[dict[str, Any]], arrays: dict[str, Tensor]) -> list[Reconstruction]:
    """What the process made of the observations."""
    found = []
    for number, text in enumerate(told):
        plain: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in text.items()}
        plain |= {"labels": None, "snapshots": {}}
        for name, value in arrays.items():
            which, _, field = name.partition(".")
            if which == str(number) and field.startswith("snapshots."):
                plain["snapshots"][int(field.partition(".")[2])] = value
            elif which == str(number):
                plain[field] = value
        plain["snapshots"] = dict(sorted(plain["snapshots"].items()))
        if not isinstance(plain.get("images"), Tensor):
            raise TypeError(f"guess {number} has no images")
        found.append(Reconstruction(**plain))
    return found


def _raised(problem: Exception) -> dict[str, Any]:
    plain = all(isinstance(each, str | int | float | None) for each in problem.args)
    return {
        "types": [kind.__name__ for kind in type(problem).__mro__],
        "arguments": problem.args if plain else [str(problem)],
        "traceback": "".join(traceback.format_exception(problem)),
    }


def read_problem(raised: dict[str, Any], ours: Callable[[str], str]) -> Exception:
    """An error of ours or of Python's as it was, another by its name; `ours` puts our paths into a sentence."""
    arguments = [ours(each) if isinstance(each, str) else each for each in raised["arguments"]]
    names = [name for name in raised["types"] if isinstance(name, str)]
    name = next((name for name in names if _exception(errors, name)), names[0])
    kind = _exception(errors, name) or _exception(builtins, name)
    try:
        problem = RuntimeError(f"{name}: {', '.join(map(str, arguments))}") if kind is None else kind(*arguments)
    except TypeError:  # one that wants more than a sentence
        problem = RuntimeError(f"{name}: {', '.join(map(str, arguments))}")
    problem.add_note(str(raised["traceback"]))
    return problem


def _exception(module: ModuleType, name: str) -> type[Exception] | None:
    """Nothing but an exception is ever called by a name that the process chose."""
    found = getattr(module, name, None)
    return found if isinstance(found, type) and issubclass(found, Exception) else None
