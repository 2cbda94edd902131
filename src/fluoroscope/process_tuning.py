"""Settings of the process that make training fast on shared CPUs; made by programs, never by an import.

The command line, its workers, the deployed apps, the tests and the benchmarks are such programs. The threads' setting
counts where it is made before torch is imported. Why these and what they bring: docs/decisions/0006.
"""

import ctypes
import os

# glibc's names for its settings (malloc.h).
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_LARGEST_MMAP_THRESHOLD = 32 * 2**20


def apply() -> None:
    """Let waiting threads sleep soon, and keep freed memory for the next step."""
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    if mallopt is not None:  # another C library than glibc has no such settings
        mallopt(_M_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD)
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
