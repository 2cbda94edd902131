"""P3's tables and figures: six strategies, server-side privacy, the curious client."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

from matplotlib.figure import Figure

from fluoroscope.scenarios.shadow_set import Shadow
from fluoroscope.studies.p3 import figures as draw
from fluoroscope.studies.p3 import numbers as printed
from fluoroscope.studies.p3.cells import Accuracy
from fluoroscope.studies.p3.client_inference import ClientInference
from fluoroscope.studies.p3.federation import READINGS, STRATEGIES, Split
from fluoroscope.studies.study import Rows, Settings, Size, Study, enter

SIZES: tuple[Size, ...] = ("small", "paper")
OTHERS = tuple(READINGS)[1:]
GAMES: dict[Size, int] = {"small": 16, "paper": 10}
"""Of each kind, target in and target out."""
Paper = Callable[[Settings], Mapping[str, Any] | None]
Draw = Callable[[str, Rows], Figure]


def _accuracies(split: Split, size: Size, scored: Literal["clients", "test"], readings: bool = False) -> list[Accuracy]:
    """P3's three columns for six strategies; the other readings of metric privacy for FedAvg, where they are asked."""
    cells = [Accuracy(s, privacy, split, scored, size) for s in STRATEGIES for privacy in printed.COLUMNS]
    return cells + [Accuracy("fedavg", privacy, split, scored, size) for privacy in OTHERS if readings]


def _readings(size: Size) -> list[Accuracy]:
    splits: tuple[Split, ...] = ("homogeneous", "non-iid")
    privacies = ("none", "global-dp", *READINGS)
    return [Accuracy(s, p, split, size=size) for split in splits for s in ("fedavg", "fedopt") for p in privacies]


def _differences(size: Size, *strategies: str) -> list[ClientInference]:
    return [ClientInference(s, privacy, size=size) for s in strategies for privacy in printed.COLUMNS]


def _game(size: Size) -> list[ClientInference]:
    shadows: tuple[Shadow, ...] = ("overlapping", "disjoint")
    return [
        ClientInference("fedavg", privacy, shadow, game=True, size=size, seeds=GAMES[size])
        for shadow in shadows
        for privacy in printed.COLUMNS
    ]


def _table_11(settings: Settings) -> Mapping[str, Any] | None:
    columns = {name: (triple,) for name, triple in printed.TABLE_11.items()}
    return printed.column(columns, ("test_loss",), settings) | _inference(settings)


def _inference(settings: Settings) -> dict[str, Any]:
    return printed.column(printed.INFERENCE, ("aggregated", "target", "difference"), settings)


def _none(settings: Settings) -> None:
    """P3 draws these, and prints no numbers."""


_mean_and_std, _three = ("accuracy", "accuracy_std"), ("accuracy", "f1", "precision")
_table_4: Paper = partial(printed.column, printed.TABLE_4, _mean_and_std)
_table_6: Paper = partial(printed.column, printed.TABLE_6, _mean_and_std)
_table_5: Paper = partial(printed.column, printed.TABLE_5, _three)
_table_7: Paper = partial(printed.column, printed.TABLE_7, _three)
_table_a12: Paper = partial(printed.column, printed.TABLE_A12, _mean_and_std)
_ORDER = "Without privacy the model is best, with global DP worst; metric privacy lies between."
_SMOOTH = "The curves are smoother with metric privacy than with global DP."
Scored = Literal["clients", "test"]
_UTILITY: list[tuple[str, str, Split, Scored, Paper, Draw]] = [
    ("table-4", "Accuracy on the clients' test images", "homogeneous", "clients", _table_4, draw.by_strategy),
    ("table-5", "Accuracy, F1 and precision on the test set", "homogeneous", "test", _table_5, draw.by_strategy),
    ("table-6", "Accuracy on the clients' test images", "non-iid", "clients", _table_6, draw.by_strategy),
    ("table-7", "Accuracy, F1 and precision on the test set", "non-iid", "test", _table_7, draw.by_strategy),
    ("table-a12", "Accuracy on the test set over five runs", "homogeneous", "test", _table_a12, draw.by_strategy),
    ("fig-b2", "Accuracy and distance by round", "homogeneous", "clients", _none, draw.by_round),
    ("fig-b3", "Accuracy and distance by round", "non-iid", "clients", _none, draw.by_round),
    ("fig-c4", "ROC on the test set", "homogeneous", "test", _none, draw.by_threshold),
    ("fig-c5", "ROC on the test set", "non-iid", "test", _none, draw.by_threshold),
]

enter(
    *(
        Study(
            f"p3/{name}",
            f"{title}, {split} clients",
            _SMOOTH if name.startswith("fig-b") else _ORDER,
            {size: _accuracies(split, size, scored, readings=name == "table-4") for size in SIZES},
            figure,
            paper,
            curves=name.startswith("fig"),
            parallel=True,
        )
        for name, title, split, scored, paper, figure in _UTILITY
    ),
    Study(
        "p3/readings",
        "Four readings of metric privacy",
        "P3's formula divides the noise by d, its prose multiplies; a layer is every array or every weight matrix.",
        {size: _readings(size) for size in SIZES},
        draw.by_round,
        lambda settings: (_table_4 if settings["split"] == "homogeneous" else _table_6)(settings),
        curves=True,
        parallel=True,
    ),
    *(
        Study(
            f"p3/table-{number}",
            f"Client inference with {strategy}: the loss on the target's shadow set",
            "With privacy the model is further from fitting the target's data than the others', which P3 reads as "
            "protection.",
            {size: _differences(size, strategy) for size in SIZES},
            draw.differences,
            _inference,
            parallel=True,
        )
        for number, strategy in {
            "9": "fedavg",
            "10": "fedopt",
            "d13": "fedavgm",
            "d14": "fedmedian",
            "d15": "fedprox",
            "d16": "fedyogi",
        }.items()
    ),
    Study(
        "p3/table-11",
        "Client inference: the loss on the test set after round 1",
        "The loss with metric privacy is lower than with global DP, for every strategy.",
        {size: _differences(size, *STRATEGIES) for size in SIZES},
        draw.losses_on_test,
        _table_11,
        parallel=True,
    ),
    Study(
        "p3/client-inference",
        "Client inference as a game: is the odd client in or out?",
        "P3 shows a difference of losses; here the attacker has to tell federations with the target from others.",
        {size: _game(size) for size in SIZES},
        draw.game,
        _inference,
        curves=True,
        parallel=True,
    ),
)
