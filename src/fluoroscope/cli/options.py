"""Options that several commands share, so that they read and mean the same everywhere."""

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fluoroscope.errors import Misconfigured

if TYPE_CHECKING:
    from fluoroscope.cells import Engine

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on stdout, and nothing else there.")]
Seed = Annotated[int | None, typer.Option(min=0, help="Seed of every random draw; overrides the plan's.")]
Device = Annotated[str, typer.Option(help="Where to compute: cpu, cuda, cuda:1, mps.")]
Threads = Annotated[int | None, typer.Option(min=1, help="CPU threads to use; default: all of them.")]
Budget = Annotated[float | None, typer.Option(min=0.1, help="Minutes; what does not fit is left out, and named.")]
Workers = Annotated[
    int | None,
    typer.Option(min=1, help="Cells at once, each on one thread: the results are the same for any number."),
]
CellEngine = Annotated[
    str | None,
    typer.Option(
        "--engine", help="Where the cells run: local, ray (on this machine) or ray:ADDRESS (a cluster, ray:auto)."
    ),
]
Accepted = Annotated[
    Path | None,
    typer.Option(
        "--accepted", help="Findings that somebody answers for: accepted.toml, with owner, reason and expiry."
    ),
]
Out = Annotated[Path, typer.Option("--out", help="Folder of the records; a stopped run in it goes on.")]


def use(device: str, threads: int | None) -> None:
    """Set the threads and make sure that the device is there before any work is done."""
    import torch  # takes seconds, and `--help` should not wait for it

    if threads is not None:
        torch.set_num_threads(threads)
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as problem:
        raise Misconfigured(f"device {device!r} cannot be used here; try --device cpu.") from problem


def cell_engine(engine: str | None, workers: int | None) -> "Engine | None":
    """What --engine and --workers ask for together; None where neither is given."""
    from fluoroscope.cells import engine_of

    if workers is None:
        return None if engine is None else engine_of(engine)
    if engine not in (None, "local"):
        raise Misconfigured(f"--workers {workers} is for --engine local, not {engine!r}; Ray uses its cluster's cores.")
    return engine_of(f"local:{workers}")


def parsed(settings: list[str]) -> dict[str, Any]:
    """`--set key=value` pairs; a value is read as TOML, or else as the text that it is."""
    found: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key:
            raise Misconfigured(f"--set takes key=value, not {setting!r}.")
        try:
            found[key] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            found[key] = value
    return found
