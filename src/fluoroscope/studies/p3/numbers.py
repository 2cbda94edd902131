"""What P3 prints. Columns: without privacy, global DP, metric privacy."""

from collections.abc import Mapping
from typing import Any

from fluoroscope.studies.study import Settings

COLUMNS = ("none", "global-dp", "metric-privacy")
Triple = tuple[float, float, float]

TABLE_4: dict[str, tuple[Triple, Triple]] = {
    "fedavg": ((0.929, 0.881, 0.905), (0.008, 0.013, 0.007)),
    "fedavgm": ((0.878, 0.759, 0.799), (0.013, 0.024, 0.022)),
    "fedmedian": ((0.920, 0.885, 0.905), (0.005, 0.013, 0.018)),
    "fedprox": ((0.931, 0.879, 0.907), (0.006, 0.008, 0.022)),
    "fedopt": ((0.956, 0.918, 0.948), (0.004, 0.014, 0.005)),
    "fedyogi": ((0.950, 0.906, 0.911), (0.006, 0.008, 0.012)),
}
TABLE_6: dict[str, tuple[Triple, Triple]] = {
    "fedavg": ((0.933, 0.878, 0.927), (0.002, 0.012, 0.008)),
    "fedavgm": ((0.909, 0.790, 0.840), (0.007, 0.018, 0.016)),
    "fedmedian": ((0.926, 0.838, 0.905), (0.009, 0.013, 0.007)),
    "fedprox": ((0.937, 0.878, 0.943), (0.014, 0.016, 0.003)),
    "fedopt": ((0.964, 0.925, 0.945), (0.007, 0.009, 0.006)),
    "fedyogi": ((0.945, 0.912, 0.919), (0.005, 0.009, 0.010)),
}
"""Mean and standard deviation over the last five rounds of one run."""
TABLE_A12: dict[str, tuple[Triple, Triple]] = {
    "fedavg": ((0.930, 0.881, 0.913), (0.011, 0.013, 0.019)),
    "fedavgm": ((0.880, 0.781, 0.812), (0.004, 0.021, 0.028)),
    "fedmedian": ((0.931, 0.867, 0.897), (0.000, 0.013, 0.004)),
    "fedprox": ((0.923, 0.880, 0.919), (0.011, 0.014, 0.011)),
    "fedopt": ((0.947, 0.912, 0.924), (0.005, 0.010, 0.010)),
    "fedyogi": ((0.939, 0.899, 0.895), (0.008, 0.007, 0.013)),
}
"""Mean and standard deviation over five runs."""
TABLE_5: dict[str, tuple[Triple, Triple, Triple]] = {
    "fedavg": ((0.909, 0.884, 0.894), (0.903, 0.862, 0.843), (0.950, 0.918, 0.943)),
    "fedavgm": ((0.884, 0.762, 0.823), (0.768, 0.554, 0.608), (0.932, 0.607, 0.631)),
    "fedmedian": ((0.932, 0.875, 0.895), (0.899, 0.827, 0.843), (0.946, 0.913, 0.943)),
    "fedprox": ((0.909, 0.877, 0.903), (0.848, 0.853, 0.877), (0.873, 0.914, 0.944)),
    "fedopt": ((0.950, 0.918, 0.930), (0.936, 0.877, 0.917), (0.970, 0.911, 0.950)),
    "fedyogi": ((0.933, 0.908, 0.917), (0.914, 0.841, 0.888), (0.957, 0.884, 0.941)),
}
TABLE_7: dict[str, tuple[Triple, Triple, Triple]] = {
    "fedavg": ((0.919, 0.867, 0.925), (0.930, 0.787, 0.914), (0.956, 0.886, 0.931)),
    "fedavgm": ((0.909, 0.784, 0.837), (0.862, 0.573, 0.621), (0.944, 0.594, 0.640)),
    "fedmedian": ((0.933, 0.859, 0.917), (0.917, 0.626, 0.926), (0.961, 0.641, 0.940)),
    "fedprox": ((0.920, 0.886, 0.903), (0.910, 0.871, 0.890), (0.950, 0.904, 0.909)),
    "fedopt": ((0.936, 0.922, 0.916), (0.927, 0.913, 0.885), (0.957, 0.960, 0.889)),
    "fedyogi": ((0.927, 0.900, 0.895), (0.870, 0.845, 0.847), (0.950, 0.836, 0.865)),
}
"""Accuracy, F1 and precision."""
INFERENCE: dict[str, tuple[Triple, Triple, Triple]] = {
    "fedavg": ((1.032, 3.603, 1.135), (1.182, 4.848, 1.506), (12.719, 25.679, 24.631)),
    "fedopt": ((0.595, 0.743, 0.756), (0.599, 0.807, 0.853), (0.598, 7.936, 11.320)),
    "fedavgm": ((0.897, 0.969, 0.945), (1.118, 1.115, 1.211), (19.782, 13.105, 21.965)),
    "fedmedian": ((1.068, 2.079, 1.393), (1.188, 2.911, 1.880), (10.129, 28.587, 25.888)),
    "fedprox": ((1.032, 1.846, 1.163), (1.182, 2.681, 1.548), (12.719, 31.173, 24.820)),
    "fedyogi": ((0.795, 0.949, 0.815), (0.895, 1.170, 0.957), (11.150, 18.861, 14.888)),
}
"""Tables 9, 10 and D.13 to D.16: aggregated loss, the target's, difference in per cent.

Table 10's caption says FedYogi; the text says FedOpt, and D.16 is FedYogi's.
"""
TABLE_11: dict[str, Triple] = {
    "fedavg": (1.010, 3.514, 1.106),
    "fedavgm": (0.993, 1.048, 1.041),
    "fedmedian": (1.046, 2.071, 1.387),
    "fedprox": (1.010, 1.744, 1.149),
    "fedopt": (0.645, 0.845, 0.823),
    "fedyogi": (0.870, 1.036, 0.902),
}


def column(table: Mapping[str, tuple[Triple, ...]], measures: tuple[str, ...], settings: Settings) -> dict[str, Any]:
    """The paper's numbers for the row's strategy and privacy."""
    if settings["privacy"] not in COLUMNS or settings["strategy"] not in table:
        return {}
    place = COLUMNS.index(settings["privacy"])
    return {name: triple[place] for name, triple in zip(measures, table[settings["strategy"]], strict=True)}
