"""Beyond the papers: how far the leak reaches, each attack with its own budget. P1: only the one-image client leaks."""

from dataclasses import replace

from fluoroscope.studies.p1 import figures as draw
from fluoroscope.studies.p1.cells import Inverted, Labels, Without
from fluoroscope.studies.p1.federation import STAGES, Scale
from fluoroscope.studies.study import Size, Study, enter


def _one(scale: Scale, victims: int, batch_size: int = 1, attack: str = "span") -> Inverted:
    return Inverted(attack, scale, STAGES[scale][-1], victims, batch_size=batch_size)


BATCHES: dict[Size, list[Inverted]] = {
    "small": [_one("small", max(1, 12 // n), n) for n in (1, 2, 4, 8, 16, 32)],
    "paper": [_one("paper", 20 // n or 1, n) for n in (1, 2, 4, 8)],
}
SIZES: dict[Size, list[Inverted]] = {
    "small": [_one("small-128", 6), _one("small-224", 6)],
    "paper": [_one("paper", 20)],
}


def _attacks(scale: Scale, victims: int) -> list[Inverted]:
    """The last two take minutes a victim: of the same victims, they are given two."""
    quick, slow = ("epochwise", "span", "bn-only"), ("inverting-gradients", "p1-reference")
    usual = [_one(scale, victims, attack=name) for name in quick]
    return usual + [_one(scale, 2, attack=name) for name in (*quick[:2], *slow)]


def _labels(scale: Scale, images: int) -> list[Inverted]:
    kinds: tuple[Labels, ...] = ("own", "inferred", "known")
    return [replace(_one(scale, images // n, n, "epochwise"), labels=kind) for kind in kinds for n in (2, 4)]


def _steps(scale: Scale, victims: int) -> list[Inverted]:
    usual = _one(scale, victims, attack="epochwise")
    kinds: tuple[Without, ...] = ("nothing", "unrolling")
    one_image = [replace(usual, local_steps=n, without=kind) for kind in kinds for n in (2, 4, 8)]
    # P1's client 1: eight images in two steps of four.
    return one_image + [replace(_one(scale, 1, 4, attack), local_steps=2) for attack in ("epochwise", "span")]


enter(
    Study(
        "frontier/attacks",
        "One image, one step: the attacks on the same victims",
        "P1 fig. 3: only the attack with BatchNorm statistics and a prior recovers the image.",
        {"small": _attacks("small", 12), "paper": _attacks("paper", 20)},
        draw.pictures,
    ),
    Study(
        "frontier/labels",
        "Batches: labels optimised, inferred and known",
        "P1 optimises the labels with the images.",
        {"small": _labels("small", 4), "paper": _labels("paper", 20)},
        draw.by_batch,
    ),
    Study(
        "frontier/steps",
        "Several local steps, unrolled and merged into one",
        "P1 fig. 6b: more local steps leak less, to an attack that merges them into one.",
        {"small": _steps("small", 2), "paper": _steps("paper", 20)},
        draw.by_steps,
    ),
    Study(
        "frontier/batch",
        "Leakage by batch size: the span attack",
        "P1: larger batches reduce the leak (with its own attack, fig. 6a).",
        BATCHES,
        draw.by_batch,
    ),
    Study(
        "frontier/size",
        "Leakage of one image of 128 and of 224 pixels: the span attack",
        "P1 shows one image of 224 pixels: SSIM .37 of the prior, .64 of the reconstruction (read off its figure).",
        SIZES,
        draw.pictures,
    ),
)
