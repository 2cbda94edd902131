"""Memory of large federations: many clients and images at once, and many rounds. In-process, so it is one process.

`python -m tests.soak.scale clients` and `... rounds` measure it in the process that they are; without a word both are
run, each in a process of its own, and held against their bars.
"""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

MOST = 2**30
"""Bytes in memory, of 100 clients that hold 10 000 images."""
GROWTH = 1.05
"""By which the last rounds may take more than the first ones, once all is warm."""
LARGE = {
    "rounds": 2,
    "data": {"source": "phantom/chest", "size": 28, "images": 10_000},
    "partition": {"name": "iid", "clients": 100, "auxiliary": 0.01},
    "model": {"name": "lenet5"},
    "training": {"lr": 0.05, "batch_size": 32},
}
LONG = {
    "rounds": 300,
    "evaluate_every": 10,
    "data": {"source": "phantom/chest", "size": 28, "images": 40},
    "partition": {"name": "iid", "clients": 2},
    "model": {"name": "lenet5"},
    "training": {"lr": 0.05, "batch_size": 8},
}


def main() -> None:
    if len(sys.argv) > 1:
        {"clients": _clients, "rounds": _rounds}[sys.argv[1]]()
        return
    codes = [
        subprocess.run([sys.executable, "-m", __spec__.name, what], check=False).returncode
        for what in ("clients", "rounds")
    ]
    sys.exit(max(codes))


def _clients() -> None:
    _federate(LARGE, [])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    started = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    print(
        f"100 clients, 10 000 images: {peak / 2**20:.0f} MB at most in one process, {started / 2**20:.0f} MB in others"
    )
    sys.exit(1 if peak + started > MOST else 0)


def _rounds() -> None:
    seen: list[int] = []
    _federate(LONG, seen)
    early, late = max(seen[40:60]), max(seen[-20:])
    print(f"300 rounds: {early / 2**20:.0f} MB around round 50, {late / 2**20:.0f} MB around round 290")
    sys.exit(1 if late > GROWTH * early else 0)


def _federate(content: dict, seen: list[int]) -> None:
    from fluoroscope import process_tuning

    process_tuning.apply()
    from fluoroscope.federation.plan import parse_plan
    from fluoroscope.federation.progress import Silent
    from fluoroscope.federation.run import federate

    class Watching(Silent):
        def round_done(self, *told: object) -> None:
            seen.append(int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"))

    with tempfile.TemporaryDirectory(prefix="fluoroscope-scale-") as folder:
        federate(parse_plan(content), Path(folder) / "run", progress=Watching())


if __name__ == "__main__":
    main()
