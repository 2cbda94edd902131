"""P2's tables and figures: MediLeak, a malicious server against secure aggregation.

P2 prints a recovery rate for each size of batch and does not say how many neurons it took: k here is twice the images.
"""

from collections.abc import Mapping
from typing import Any

from fluoroscope.studies.p2 import figures as draw
from fluoroscope.studies.p2.cells import Compared, Downstream, Leak
from fluoroscope.studies.study import Settings, Size, Study, enter

SIZES: tuple[Size, ...] = ("small", "paper")
BATCHES = (100, 200, 300, 400, 500)
TABLE_1: dict[int, dict[str, tuple[float, ...]]] = {
    28: {
        "rate": (1.0, 0.96, 0.957, 0.955, 0.964),
        "psnr": (112.574, 102.722, 97.405, 93.713, 87.019),
        "seconds": (0.742, 0.936, 0.95, 1.020, 1.016),
    },
    224: {
        "rate": (0.95, 0.89, 0.88, 0.86, 0.81),
        "psnr": (120.795, 114.98, 105.12, 97.30, 95.86),
        "seconds": (6.022, 7.003, 8.121, 8.762, 9.763),
    },
}
CLASSIFIERS, SCORED_ON = ("small-cnn", "vit-small"), ("originals", "recovered")
TABLE_2 = {
    "originals": {"aupr": 0.937, "tnr": 0.8, "tpr": 0.857, "accuracy": 0.829, "auroc": 0.905},
    "recovered": {"aupr": 0.921, "tnr": 0.9, "tpr": 0.71, "accuracy": 0.805, "auroc": 0.919},
}
"""P2's self-supervised ViT-S, on COVIDx."""


def _printed(settings: Settings) -> Mapping[str, Any] | None:
    column = TABLE_1.get(settings["size"])
    if column is None or settings["images"] not in BATCHES:
        return None
    return {measure: values[BATCHES.index(settings["images"])] for measure, values in column.items()}


def _table_1() -> list[Leak]:
    cells = []
    for m in BATCHES:
        cells += [
            Leak(m, 2 * m, "brightness", "adjacent", front="plain"),
            Leak(m, 2 * m),
            Leak(m, 2 * m, aggregation="plain sum"),
            Leak(m, 2 * m, local_iterations=5),
            Leak(m, 2 * m, local_iterations=5, mini_batches=True, aggregation="plain sum"),
            Leak(m, 2 * m, local_iterations=5, mini_batches=True),
        ]
    # Secure aggregation of the larger fronts at 224 px, 50 M weights with 500 images, takes too much memory.
    cells.append(Leak(100, 200, size=224, model="lenet5"))
    for m in BATCHES:
        large = {"aggregation": "plain sum", "size": 224, "model": "lenet5"}
        cells += [Leak(m, 2 * m, **large), Leak(m, 2 * m, local_iterations=5, **large)]  # type: ignore[arg-type]
    return cells


def _fig_5(size: Size) -> list[Leak]:
    m = 100 if size == "small" else 300
    shares = (0.5, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 8.0)
    cells = []
    for share in shares:
        k = round(share * m)
        cells += [
            Leak(m, k, "brightness", "adjacent", aggregation="plain sum", front="plain"),
            Leak(m, k, aggregation="plain sum"),
        ]
    return cells


enter(
    Study(
        "p2/table-1",
        "Recovery by batch size, under secure aggregation",
        "MediLeak recovers 0.955 to 1.0 of 100 to 500 images of 28 px, and 0.81 to 0.95 at 224 px.",
        {size: _table_1() for size in SIZES},
        draw.by_images,
        _printed,
    ),
    Study(
        "p2/fig-3",
        "Recovered images",
        "Recovered images cannot be told from the originals by eye.",
        {
            "small": [Leak(100, 200), Leak(60, 180, size=224, model="lenet5", aggregation="plain sum")],
            "paper": [Leak(300, 900, size=224, model="lenet5", aggregation="plain sum")],
        },
        draw.examples,
    ),
    Study(
        "p2/fig-4",
        "One small batch: MediLeak and three optimisation attacks",
        "MediLeak is better than DLG, Inverting Gradients and GradInversion, and a hundred times as fast. They do not "
        "change the model; here they see the victim's update by itself.",
        {
            size: [
                Compared(name, images)
                for images in (1, 4)
                for name in ("medileak", "dlg", "inverting-gradients", "gradinversion")
            ]
            for size in SIZES
        },
        draw.compared,
    ),
    Study(
        "p2/fig-5",
        "Recovery by k, the neurons of the first layer",
        "With k of the order of the batch the attack works, with more neurons it is better.",
        {size: _fig_5(size) for size in SIZES},
        draw.by_neurons,
    ),
    Study(
        "p2/harvest",
        "Two victims in turn, round after round",
        "P2 section VI: over several rounds and victims the attacker harvests what one round leaves out.",
        {size: [Leak(100, 120, rounds=r, victims=v) for r, v in ((1, 1), (2, 1), (2, 2), (4, 2))] for size in SIZES},
        draw.harvested,
    ),
    Study(
        "p2/table-2",
        "A classifier on originals and on recovered images",
        "Recovered images serve a downstream task nearly as well as the originals.",
        {
            size: [
                Downstream(200, 400, scored_on=on, model=m) for m in CLASSIFIERS for on in ("originals", "recovered")
            ]
            for size in SIZES
        },
        draw.worth,
        lambda settings: TABLE_2[settings["scored_on"]],
    ),
)
