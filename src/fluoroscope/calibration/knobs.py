"""Which setting of which defence is searched, and how far."""

from collections.abc import Mapping
from typing import Any

from fluoroscope.calibration.search import Knob

KNOBS = {
    "percentile-gaussian": Knob("noise_scale", 0.1, 1e5),
    "clip-and-noise": Knob("noise_multiplier", 0.001, 10.0),
    "dp-sgd": Knob("noise_multiplier", 0.01, 100.0),
    "pruning": Knob("sparsity", 0.1, 1.0),
    "quantisation": Knob("bits", 16, 2, whole=True),
}
OTHERS: Mapping[str, Mapping[str, Any]] = {"clip-and-noise": {"clip_norm": 1.0}, "dp-sgd": {"clip_norm": 1.0}}
"""Settings that a defence needs beside, unless they are given."""
