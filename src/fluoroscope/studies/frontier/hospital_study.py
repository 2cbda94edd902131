"""The normal hospital as a study: who asks what, and the figure."""

import math

from matplotlib.figure import Figure

from fluoroscope.report.figures import Panel, Point, panels
from fluoroscope.studies.frontier.hospital import ROUNDS, Asked, Hospital, Scale
from fluoroscope.studies.study import Row, Rows, Size, Study, enter

ASKED: tuple[tuple[Asked, str, int], ...] = (
    ("label counts", "learned-counts", 1),
    ("label counts", "restored-counts", 1),
    ("prevalence", "learned-share", 1),
    ("exposure", "learned-share", 1),
    ("membership", "loss", ROUNDS),
    ("membership", "trajectory", ROUNDS),
    ("membership", "rmia", ROUNDS),
    ("canaries", "trajectory", ROUNDS),
    ("canaries", "gradient-alignment", ROUNDS),
    ("membership", "lira", ROUNDS),
)
"""Counts and shares are asked of the first round, in which no model knows anybody's images yet: later the hospital's
are fitted already, and those that the attacker simulates with are not."""
_SIMULATIONS: dict[Asked, int] = {"label counts": 72}
"""Where it is not the usual number: of 36, 72 and 96, where intervals become too short."""
_SCALE: dict[Size, Scale] = {"small": "small", "paper": "paper"}


def drawn(title: str, rows: Rows) -> Figure:
    """Counts and shares against the truth, membership over rounds, and how well canaries are told."""
    done = [row for row in rows if not row.failed]
    return panels(
        title,
        [
            _missed("class counts: the hospital and its stand-ins", _asked(done, "label counts")),
            _missed(
                "prevalence and exposure, with the attacker's own interval", _asked(done, "prevalence", "exposure")
            ),
            Panel(
                "membership: images of the hospital beside others",
                "rounds that the attacker saw",
                "AUC (95 % interval)",
                {row["attack"]: _by_round(row) for row in _asked(done, "membership")},
                {"guessing": 0.5},
                whole_x=True,
            ),
            _canaries(done),
        ],
    )


def _asked(rows: Rows, *asked: Asked) -> Rows:
    return [row for row in rows if row["asked"] in asked]


def _missed(title: str, rows: Rows) -> Panel:
    series = {f"{row['asked']}, round {row['round']}": _differences(row) for row in rows}
    return Panel(title, "true share", "guessed less true share", series, {"right": 0.0}, joined=False)


def _differences(row: Row) -> list[Point]:
    curves = row.result.curves
    nothing = [math.nan] * len(curves["truth"])
    columns = (curves["truth"], curves["guess"], curves.get("low", nothing), curves.get("high", nothing))
    return [
        Point(float(t), float(g) - float(t), float(low) - float(t), float(high) - float(t))
        for t, g, low, high in zip(*columns, strict=True)
        if t is not None and g is not None and low is not None and high is not None
    ]


def _by_round(row: Row) -> list[Point]:
    curves = row.result.curves
    columns = zip(curves["round"], curves["auc"], curves["auc_low"], curves["auc_high"], strict=True)
    return [Point(*(math.nan if value is None else float(value) for value in each)) for each in columns]


def _canaries(rows: Rows) -> Panel:
    found = _asked(rows, "canaries")
    series = {
        f"canaries, {row['attack']}": [Point(place, row["auc"], row["auc_low"], row["auc_high"])]
        for place, row in enumerate(found, 1)
    }
    return Panel(
        "canaries: noise that was planted or not",
        "",
        "AUC (95 % interval)",
        series,
        {"guessing": 0.5},
        joined=False,
        ticks=[f"{row['attack']}\nepsilon at least {row['epsilon']:.2g}" for row in found],
    )


enter(
    Study(
        "frontier/hospital",
        "The normal hospital: 500 images, batches of 16, three epochs of AdamW, 20 rounds",
        "No image is recovered from such a client. How many have which finding, who was there and what kind of images "
        "it has are other questions.",
        {
            size: [
                Hospital(asked, attack, number, scale, simulations=_SIMULATIONS.get(asked, Hospital.simulations))
                for asked, attack, number in ASKED
            ]
            for size, scale in _SCALE.items()
        },
        drawn,
        parallel=True,
    )
)
