"""Which setting of which defence is searched, and how far."""

from collections.abc import Mapping
from typing import Any

from fluoroscope.calibration.search import Knob
from fluoroscope.defences import DEFENCES
from fluoroscope.errors import Unsupported

KNOBS = {
    "percentile-gaussian": Knob("noise_scale", 0.1, 1e5),
    "clip-and-noise": Knob("noise_multiplier", 0.001, 10.0),
    "dp-sgd": Knob("noise_multiplier", 0.01, 100.0),
    "pruning": Knob("sparsity", 0.1, 1.0),
    "quantisation": Knob("bits", 16, 2, whole=True),
}
OTHERS: Mapping[str, Mapping[str, Any]] = {"clip-and-noise": {"clip_norm": 1.0}, "dp-sgd": {"clip_norm": 1.0}}
"""Settings that a defence needs beside, unless they are given."""


def knob_of(defence: str) -> Knob:
    """The knob; a defence without one cannot be searched."""
    DEFENCES.get(defence)  # a name that nobody has is another mistake
    if defence not in KNOBS:
        raise Unsupported(
            f"{defence} has no strength to search for. Choose one of {', '.join(sorted(KNOBS))}, or put {defence} into "
            "the plan and attack its records."
        )
    return KNOBS[defence]
