"""P4's tables and figures: `Analysing the Influence of Attack Configurations on the Reconstruction of Medical Images`.

Small is the paper's size: 100 images on networks of 100 outputs, fewer lambda^2, and the ResNet for a few steps only.
Colour fundus and brain phantoms stand in for CIFAR-100 and MNIST; Omniglot takes part where it is given.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

from fluoroscope.studies.p4 import figures as draw
from fluoroscope.studies.p4.cells import SHOWN, Configuration, Init, Measure
from fluoroscope.studies.study import NONE_EMBEDDED, Settings, Size, Study, enter

CHEST = "phantom/chest"
SETS = {"X-ray": CHEST, "CIFAR": "phantom/fundus", "MNIST": "phantom/brain", "Omniglot": NONE_EMBEDDED}
"""P4's data sets, and the phantoms in their place."""
OTHERS = ("CIFAR", "MNIST", "Omniglot")
IMAGES = 100
INITS: tuple[Init, ...] = ("TG", "Unif")
MEASURES: tuple[Measure, ...] = ("Eucl", "AG")
Table = Mapping[str, Mapping[str, tuple[float | None, ...]]]
"""By measure and initialisation; a value for each lambda^2, and then AG's."""

LAMBDAS_1 = (50, 100, 150, 200, 500, 800, 1000, 1500)
TABLE_1: Table = {
    "mse": {
        "TG": (8.6e-2, 3.8e-2, 5.1e-3, 4.7e-3, 6.1e-3, 8.6e-3, 7.2e-3, 1.1e-2, 9.6e-3),
        "Unif": (1.4e-1, 5.9e-2, 1.8e-2, 1.4e-2, 8.3e-3, 9.3e-3, 1.7e-2, 1.1e-2, 2.1e-2),
    },
    "ssim": {
        "TG": (0.11, 0.67, 0.87, 0.88, 0.85, 0.83, 0.83, 0.81, 0.85),
        "Unif": (0.07, 0.54, 0.78, 0.83, 0.81, 0.79, 0.77, 0.76, 0.81),
    },
    "non_converging": {"TG": (36, 30, 26, 19, 7, 6, 4, 6, 10), "Unif": (34, 19, 26, 24, 10, 3, 8, 3, 8)},
}

TABLE_2 = {
    ("TG", "Eucl", 1.0): 21,
    ("TG", "AG", 1.0): 13,
    ("Unif", "Eucl", 1.0): 27,
    ("Unif", "AG", 1.0): 10,
    ("TG", "Eucl", 0.1): 5,
    ("TG", "AG", 0.1): 10,
    ("Unif", "Eucl", 0.1): 8,
    ("Unif", "AG", 0.1): 8,
}

LAMBDAS_3 = (1, 50, 100, 150, 200, 500, 800, 1000, 1500, 2000)
TABLE_3: Table = {
    "mse": {
        "TG": (None, 3.24e-1, 1.37e-1, 4.47e-2, 1.37e-2, 1.99e-2, 6.44e-3, 1.52e-2, 7.60e-3, 8.05e-3, 5.71e-3),
        "Unif": (None, 1.54e-1, 7.36e-2, 1.28e-2, 6.48e-3, 7.80e-3, 1.35e-2, 1.05e-2, 1.20e-2, 1.29e-2, 9.96e-3),
    },
    "ssim": {
        "TG": (None, 0.012, 0.483, 0.726, 0.783, 0.846, 0.833, 0.707, 0.814, 0.802, 0.850),
        "Unif": (None, 0.054, 0.553, 0.831, 0.851, 0.809, 0.776, 0.778, 0.750, 0.734, 0.783),
    },
    "non_converging": {
        "TG": (100, 35, 15, 18, 14, 12, 6, 3, 3, 5, 6),
        "Unif": (100, 24, 16, 27, 14, 7, 5, 8, 3, 10, 7),
    },
}

TABLE_4 = {
    ("TG", "Eucl"): {"CIFAR": 4, "MNIST": 4, "Omniglot": 3, "SVHN": 4},
    ("TG", "AG"): {"CIFAR": 2, "MNIST": 8, "Omniglot": 7, "SVHN": 4},
    ("Unif", "Eucl"): {"CIFAR": 5, "MNIST": 4, "Omniglot": 7, "SVHN": 4},
    ("Unif", "AG"): {"CIFAR": 13, "MNIST": 8, "Omniglot": 10, "SVHN": 3},
}


def _sweep(lambdas: tuple[int, ...], dataset: str) -> list[Configuration]:
    fixed = [
        Configuration(init, "Gaussian", IMAGES, 100, lambda2=x, data=SETS[dataset], dataset=dataset)
        for init in INITS
        for x in lambdas
    ]
    return fixed + [cell for cell in _four(IMAGES, dataset=dataset) if cell.distance == "AG"]


def _four(images: int = IMAGES, lr: float = 0.1, dataset: str = "X-ray") -> list[Configuration]:
    return [
        Configuration(init, distance, images, 100, lr, data=SETS[dataset], dataset=dataset)
        for init, distance in product(INITS, MEASURES)
    ]


def _same(cells: list[Configuration]) -> dict[Size, list[Configuration]]:
    """The paper's own size, whichever is asked for."""
    return {"small": cells, "paper": cells}


def _sapag(images: int) -> list[Configuration]:
    own = Configuration("TG", "SAPAG", images, 100, data=SETS["CIFAR"], dataset="CIFAR")
    return [own, *_four(images, dataset="CIFAR")[:2]]


def _with_dlg() -> list[Configuration]:
    """The four and the original, on each data set at lr 1."""
    cells = []
    for dataset, data in SETS.items():
        cells += [Configuration("Normal", "Eucl", IMAGES, 100, 1.0, data=data, dataset=dataset)]
        cells += _four(lr=1.0, dataset=dataset)
    return cells


def _otherwise() -> list[Configuration]:
    """P4's loop on the same images, and each thing that ours could do otherwise than P4's code, one at a time."""
    eucl, ag = _four(20)[:2]
    narrow = Configuration("TG", "Gaussian", 20, 100, lambda2=50)
    networks = [{"weights": "one"}, {"weights": "torch"}, {"classes": 10}, {"classes": 2}]
    changed = [replace(cell, **change) for cell in (eucl, ag) for change in networks]  # type: ignore[arg-type]
    loops = [replace(eucl, loop="P4's"), replace(ag, loop="P4's"), replace(eucl, loop="P4's, line search")]
    return [eucl, ag, narrow, *loops, replace(ag, form="paper"), replace(narrow, form="paper"), *changed]


def _of_table(table: Table, lambdas: tuple[int, ...], row: Settings) -> dict[str, float | None] | None:
    if row["distance"] not in ("Gaussian", "AG"):
        return None
    place = len(lambdas) if row["distance"] == "AG" else lambdas.index(row["lambda2"])
    return {measure: by_init[row["init"]][place] for measure, by_init in table.items()}


def _table_4(row: Settings) -> dict[str, Any]:
    return {"non_converging": TABLE_4[row["init"], row["distance"]][row["dataset"]]}


def _table_2(row: Settings) -> dict[str, Any]:
    return {"non_converging": TABLE_2[row["init"], row["distance"], row["lr"]]}


def _resnet_sizes(cells: Callable[[int], list[Configuration]], images: int) -> dict[Size, list[Configuration]]:
    """The cells on the ResNet in a few long steps, so that a figure takes less than an hour; and as P4 prints them."""
    return {"small": _resnet(cells(images), 30, 0.02), "paper": _resnet(cells(20), 5000, 0.001)}


def _resnet(cells: list[Configuration], iterations: int, lr: float) -> list[Configuration]:
    return [replace(cell, model="resnet18-sigmoid", iterations=iterations, lr=lr) for cell in cells]


RANDOM = {"mse_random": 0.050, "ssim_random": 0.526}
"""P4 figs 2 and 3, dotted: a random other image of the X-ray set."""

enter(
    Study(
        "p4/table-1",
        "Fixed λ² in the Gaussian measure, X-ray",
        "No fixed λ² wins in MSE, SSIM and convergence at once; λ² = n Var(g) is a fair trade-off without a parameter.",
        {"small": _sweep((50, 200, 1000), "X-ray"), "paper": _sweep(LAMBDAS_1, "X-ray")},
        draw.by_lambda,
        lambda row: _of_table(TABLE_1, LAMBDAS_1, row),
    ),
    Study(
        "p4/table-2",
        "Images that do not converge, LeNet-5, X-ray",
        "At lr .1 fewer images fail than at lr 1, for every initialisation and distance.",
        _same([*_four(), *_four(lr=1.0)]),
        draw.failures,
        _table_2,
    ),
    Study(
        "p4/table-3",
        "Fixed λ² in the Gaussian measure, colour images",
        "λ² = 1 never converges; the adaptive measure is the most accurate from TG, with few failures.",
        {"small": _sweep((1, 200, 1000), "CIFAR"), "paper": _sweep(LAMBDAS_3, "CIFAR")},
        draw.by_lambda,
        lambda row: _of_table(TABLE_3, LAMBDAS_3, row),
    ),
    Study(
        "p4/table-4",
        "Images that do not converge, LeNet-5, other data sets",
        "The number of failures depends on the data set as much as on the configuration.",
        _same([cell for name in OTHERS for cell in _four(dataset=name)]),
        draw.failures,
        _table_4,
    ),
    Study(
        "p4/differences",
        "P4's own loop on the same images, and what ours could do otherwise",
        "P4's text leaves open what its code decides: outputs, weights, the exponents, no line search.",
        _same(_otherwise()),
        draw.by_difference,
    ),
    Study(
        "p4/fig-1",
        "One X-ray on its way, LeNet-5, L-BFGS lr .1",
        "All four configurations arrive at the image, at different speeds.",
        _same(_four()),
        draw.one_image,
        _table_2,
        curves=True,
    ),
    Study(
        "p4/fig-2",
        "MSE and SSIM by iteration, LeNet-5, X-ray",
        "The Euclidean distance is faster and better than AG; TG is better than Unif; all beat a random other image.",
        _same(_four()),
        draw.by_iteration,
        lambda row: {**_table_2(row), **RANDOM},
        curves=True,
    ),
    Study(
        "p4/fig-3",
        "MSE and SSIM by iteration, sigmoid ResNet-18, X-ray",
        "All images converge; Unif ends at a lower MSE than TG, and the distances perform alike.",
        _resnet_sizes(_four, 20),
        draw.by_iteration,
        lambda row: {"non_converging": 0, **RANDOM},
        curves=True,
    ),
    Study(
        "p4/fig-4",
        "SAPAG's own λ² = Var(g), sigmoid ResNet-18, colour images",
        "With λ² = Var(g) convergence is slow on single images.",
        _resnet_sizes(_sapag, SHOWN),
        draw.reconstructions,
        curves=True,
    ),
    Study(
        "p4/fig-5",
        "MSE and SSIM by iteration, LeNet-5, other data sets",
        "Which configuration is best depends on the data set.",
        _same([cell for name in OTHERS for cell in _four(dataset=name)]),
        draw.by_iteration,
        curves=True,
    ),
    Study(
        "p4/fig-6",
        "Reconstructions from different data sets, LeNet-5, L-BFGS lr 1",
        "The four configurations outperform the original DLG on most images, and each fails on other images.",
        _same(_with_dlg()),
        draw.reconstructions,
        curves=True,
    ),
    Study(
        "p4/fig-7",
        "Reconstructions, sigmoid ResNet-18, colour images",
        "With AdamW all four configurations reconstruct the images.",
        _resnet_sizes(lambda images: _four(images, dataset="CIFAR"), SHOWN),
        draw.reconstructions,
        curves=True,
    ),
)
