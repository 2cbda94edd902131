"""Which setting of which defence is searched, and how far."""

from collections.abc import Mapping
from typing import Any

from fluoroscope.calibration.search import Knob

KNOBS = {
    "percentile-gaussian": Knob("noise_scale", 0.1, 1e5),
    "clip-and-noise": Knob("noise_multiplier", 0.001, 10.0),
    "dp-sgd": Knob("noise_multiplier", 0.01, 100.0),
    "local-dp": Knob("epsilon", 1e6, 0.1),
    "percentile-privacy": Knob("percentile", 1.0, 100.0, a_share=True),
    "svt-privacy": Knob("noise_var", 100.0, 1e-5),
    "pruning": Knob("sparsity", 0.1, 1.0, a_share=True),
    "quantisation": Knob("bits", 16, 2, whole=True),
}
OTHERS: Mapping[str, Mapping[str, Any]] = {
    "clip-and-noise": {"clip_norm": 1.0},
    "dp-sgd": {"clip_norm": 1.0},
    "local-dp": {"clip_norm": 1.0, "sensitivity": 2.0},  # what two clipped updates are apart
}
"""Settings that a defence needs beside, unless they are given."""
