"""fluoroscope measures what a medical federation leaks, and what stops it."""

import os

# Before torch is imported: OpenMP's threads spin for long while they wait for each other, and one busy neighbour then
# slows a training step 50 times. A short spin, then sleep, shares the cores fairly (docs/decisions/0006).
os.environ.setdefault("GOMP_SPINCOUNT", "1000")
