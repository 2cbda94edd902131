"""Many images on one page, so that a person can see what a data set holds."""

from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, FigureBase

from fluoroscope.errors import Misconfigured
from fluoroscope.types import ImageSet

_TILE = 1.05
"""Side of an image in inches, with its patient's name below."""


def contact_sheet(image_set: ImageSet, path: Path, columns: int = 8, rows: int = 1, title: str | None = None) -> None:
    """Writes the first `rows` times `columns` images of every class, one class below the other, as a PNG or PDF."""
    if columns < 1 or rows < 1:
        raise Misconfigured(f"a contact sheet needs at least 1 column and 1 row, not {columns} and {rows}.")
    height = rows * len(_present(image_set)) * _TILE * 1.12 + 0.6
    figure = Figure(figsize=(columns * _TILE + 0.3, height))
    FigureCanvasAgg(figure)  # the figure draws itself: no window, and no pyplot to share with anyone
    arrange(figure, image_set, columns, rows, title)
    figure.savefig(path, dpi=110)


def arrange(figure: FigureBase, image_set: ImageSet, columns: int, rows: int = 1, title: str | None = None) -> None:
    """The same on a figure, or a part of one, that the caller made."""
    labels = image_set.batch.labels.numpy()
    present = _present(image_set)
    cells = figure.subplots(rows * len(present), columns, squeeze=False, gridspec_kw={"wspace": 0.04, "hspace": 0.22})
    for cell in cells.flat:
        cell.set_axis_off()
    for block, label in enumerate(present):
        group = np.flatnonzero(labels == label)[: rows * columns]
        for place, index in enumerate(group):
            cell = cells[block * rows + place // columns, place % columns]
            image = image_set.batch.images[index].numpy().transpose(1, 2, 0)
            cell.imshow(image if image.shape[2] == 3 else image[:, :, 0], cmap="gray", vmin=0, vmax=1)
            cell.text(0.5, -0.02, _short(image_set.batch.patients[index]), transform=cell.transAxes, **_SMALL)
        cells[block * rows, 0].set_title(image_set.classes[label], fontsize=8, loc="left", pad=2)
    figure.subplots_adjust(left=0.02, right=0.98, bottom=0.03, top=1 - 0.5 / (_TILE * 1.12 * len(cells) + 0.6))
    figure.suptitle(title if title is not None else f"{image_set.name}: {len(image_set)} images", fontsize=10)


_SMALL = {"ha": "center", "va": "top", "fontsize": 5, "color": "0.35"}


def _present(image_set: ImageSet) -> list[int]:
    return [int(label) for label in image_set.batch.labels.unique()]


def _short(patient: str) -> str:
    """File names can be long; the end tells them apart."""
    return patient if len(patient) <= 22 else "…" + patient[-21:]
