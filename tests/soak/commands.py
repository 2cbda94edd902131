"""The commands that leave work on disk, each as small as it can be, and what of it must not change."""

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from fluoroscope.attacks import ATTACKS
from fluoroscope.cli import main
from fluoroscope.data import Request, load
from fluoroscope.federation.plan import read_plan
from fluoroscope.federation.run import federate
from fluoroscope.models.architecture import Architecture
from fluoroscope.site import trials
from fluoroscope.studies import STUDIES
from tests.studies.conftest import counting_study

FEDERATION = """seed = 1
rounds = 2
[data]
source = "phantom/chest"
size = 28
images = 90
[partition]
name = "p1"
clients = [1, 9]
validation = 2
test = 10
auxiliary = 20
[model]
name = "small-cnn"
[records]
rounds = [1, 2]
"""
AUDIT = """rounds = 1
[data]
source = "phantom/chest"
size = 28
images = 120
[partition]
name = "counts"
train = [[10, 10], [2, 20], [1, 0]]
validation = 2
test = 10
auxiliary = 20
[model]
name = "small-cnn"
[training]
lr = 0.05
batch_size = 8
[audit]
budget_minutes = 600
attacks = ["span"]
victims = 2
games = 3
clients = ["client-3"]
inference = ["label-counts", "metrics"]
simulations = 4
[[audit.compare]]
label = "noise"
[[audit.compare.defence]]
name = "percentile-gaussian"
noise_scale = 1.0
"""
QUICK = ("--set", "budget.iterations=3", "--set", "stages.grids.one.iterations=2")
PASSING = {"timing.json", "progress.json", "run-manifest.json"}
"""Files that tell the time, or digests of such."""
PAGES = {"summary.json", "index.html", "report.html"}
"""They are made of the others, and tell the time."""


@dataclass(frozen=True)
class Command:
    """One of them."""

    name: str
    prepare: Callable[[Path], None]
    """What must be there before, in the folder."""
    arguments: tuple[str, ...]
    """In the folder; it writes to `out` there, or below what was prepared."""
    share: int
    """Of all kills."""
    writes: str = "out"
    verified: bool = True
    """Whether `records --verify` knows what it leaves."""

    def run(self, folder: Path) -> None:
        """In a process of its own, whose working directory it changes."""
        os.chdir(folder)
        sys.argv = ["fluoroscope", *self.arguments]
        main()


def _plan(text: str) -> Callable[[Path], None]:
    return lambda folder: (folder / "plan.toml").write_text(text) and None


def _records(folder: Path) -> None:
    (folder / "plan.toml").write_text(FEDERATION)
    federate(read_plan(folder / "plan.toml"), folder / "records")


def _checkpoints(folder: Path) -> None:
    held = load("phantom/chest", Request(size=28, channels=1, images=70, seed=1)).batch
    for i, (image, label) in enumerate(zip(held.images, held.labels.tolist(), strict=True)):
        place = folder / ("own" if i < 4 else "public") / ("opacity" if label else "normal")
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray((image[0] * 255).round().byte().numpy()).save(place / f"{i:04d}.png")
    state = Architecture("lenet5", 1, 2, 28).build(0).state_dict()
    torch.save(state, folder / "before.pt")
    torch.save({name: value + 0.01 for name, value in state.items()}, folder / "after.pt")


def _study(folder: Path) -> None:
    STUDIES._parts["t/counting"] = counting_study()


def only_ridge() -> None:
    """All attacks of a meter take a minute."""
    trials.candidates = lambda: {"ridge": ATTACKS.get("ridge")}


COMMANDS = (
    Command("federate", _plan(FEDERATION), ("federate", "plan.toml", "--out", "out"), 30),
    Command(
        "attack", _records, ("attack", "records", "--attack", "bn-only", *QUICK, "--out", "out"), 20, verified=False
    ),
    Command("study", _study, ("study", "run", "t/counting", "--out", "out", "--workers", "1"), 15),
    Command(
        "calibrate",
        _records,
        ("calibrate", "records", "--attack", "bn-only", "--defence", "percentile-gaussian", *QUICK, "--on", "records",
         "--draws", "2", "--precision", "0.9", "--out", "out"),
        12,
    ),
    Command("audit", _plan(AUDIT), ("audit", "plan.toml", "--out", "out", "--workers", "1"), 12),
    Command(
        "meter",
        _checkpoints,
        ("meter", "--before", "before.pt", "--after", "after.pt", "--model", "lenet5", "--images", "own", "--public",
         "public", "--lr", "0.1", "--seconds", "3000", "--keep", "out", "--json"),
        11,
        verified=False,
    ),
)  # fmt: skip


def kept(folder: Path) -> dict[str, Any]:
    """All that a command left, by name: what tells the time is left out."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.name in PASSING | PAGES or path.suffix == ".lock":
            continue
        name = str(path.relative_to(folder))
        if path.name == "checksums.json":  # of pages too, which tell the time
            found[name] = sorted(json.loads(path.read_text())["files"])
        elif path.suffix == ".json":
            found[name] = timeless(json.loads(path.read_text()))
        else:
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def timeless(value: Any) -> Any:
    """The same without what depends on a clock."""
    if isinstance(value, dict):
        return {key: timeless(item) for key, item in value.items() if key not in ("seconds", "budget")}
    return [timeless(item) for item in value] if isinstance(value, list) else value


def whole_cells(folder: Path) -> dict[str, int]:
    """Cells that are finished, and when they were written: a second time they are not."""
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("cells/*.json")}


def fresh(command: Command, base: Path, folder: Path) -> Path:
    """A folder in which it was not run yet."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(base, folder)
    if command.name == "study":
        command.prepare(folder)
    return folder
