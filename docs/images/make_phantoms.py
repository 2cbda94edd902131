"""Makes docs/images/phantoms.png: run `python docs/images/make_phantoms.py` after a change to the phantoms."""

from dataclasses import replace
from pathlib import Path

import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from fluoroscope.data.contact_sheet import arrange, sheet_size
from fluoroscope.data.phantoms import BRAIN, CHEST, FUNDUS, Kind, phantoms
from fluoroscope.data.sources import Request
from fluoroscope.types import ImageSet, PrivateBatch

SEED, SIZE, COLUMNS = 1, 128, 6


def choose(kind: Kind) -> list[int]:
    """Of every class: two images of one patient, then other patients."""
    visits = kind.visits(SEED, range(800))
    chosen: list[int] = []
    for label in range(len(kind.classes)):
        mine = [i for i, visit in enumerate(visits) if visit.label == label]
        pair = next(([i, i + 1] for i in mine[:-1] if visits[i].patient == visits[i + 1].patient), mine[:2])
        others = [i for i in mine if visits[i].patient == i and i not in pair]
        chosen += pair + others[: COLUMNS - 3]
    return chosen


def sample(kind: Kind) -> ImageSet:
    """The chosen images, and of every class the second patient once more with a name burned in."""
    request = Request(size=SIZE, seed=SEED)
    chosen = choose(kind)
    plain = phantoms(kind, chosen, request)
    burned = phantoms(kind, chosen[2 :: COLUMNS - 1], replace(request, burn_in=True))
    parts = (plain.batch, burned.batch)
    batch = PrivateBatch(
        torch.cat([part.images for part in parts]),
        torch.cat([part.labels for part in parts]),
        parts[0].patients + parts[1].patients,
    )
    return replace(plain, batch=batch)


def main() -> None:
    """Three sheets, one below the other."""
    path = Path(__file__).with_name("phantoms.png")
    sets = [sample(kind) for kind in (CHEST, FUNDUS, BRAIN)]
    sizes = [sheet_size(images, COLUMNS) for images in sets]
    figure = Figure(figsize=(sizes[0][0], sum(height for _, height in sizes)))
    FigureCanvasAgg(figure)
    parts = figure.subfigures(len(sets), 1, height_ratios=[height for _, height in sizes])
    for part, images in zip(parts, sets, strict=True):
        arrange(part, images, COLUMNS, title=f"{images.name}; the last of each row with a fake name burned in")
    figure.savefig(path, dpi=112)
    # Half the bytes, and no difference to the eye.
    Image.open(path).convert("RGB").quantize(256, method=Image.Quantize.MEDIANCUT).save(path, optimize=True)


if __name__ == "__main__":
    main()
