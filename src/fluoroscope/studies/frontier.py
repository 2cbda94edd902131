"""Beyond the papers: how far the leak reaches with the span attack. P1 found that only the one-image client leaks."""

from fluoroscope.studies import p1_figures as draw
from fluoroscope.studies.p1 import Inverted
from fluoroscope.studies.p1_federation import STAGES, Scale
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

enter(
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
        "P1 shows one image of 224 pixels: SSIM .37 of the prior, .64 of the reconstruction.",
        SIZES,
        draw.pictures,
    ),
)
