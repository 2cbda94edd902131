"""How fast phantoms are made: `python benchmarks/phantoms.py`."""

import time

from fluoroscope.data.phantoms import BRAIN, CHEST, FUNDUS, phantoms
from fluoroscope.data.sources import Request


def main() -> None:
    request = Request(size=64)
    for kind in (CHEST, FUNDUS, BRAIN):
        phantoms(kind, range(64), request)
        start, cpu = time.perf_counter(), time.process_time()
        phantoms(kind, range(2000), request)
        wall, cpu = time.perf_counter() - start, time.process_time() - cpu
        print(f"phantom/{kind.name} at 64 px: {2000 / wall:.0f} images/s, {2000 / cpu:.0f} per second of one core")


if __name__ == "__main__":
    main()
