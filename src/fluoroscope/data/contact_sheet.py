"""Many images on one page, so that a person can see what a data set holds."""

import io
import warnings
from pathlib import Path
from typing import BinaryIO

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, FigureBase

from fluoroscope.atomic_write import write_bytes
from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.types import ImageSet

_TILE = 1.05
"""Side of an image in inches."""
_ROW = 1.2
"""Height of a row in inches: an image with its patient's name below."""
_TITLE, _MARGIN = 0.35, 0.25
_KINDS = ("png", "pdf", "svg")


def sheet_size(image_set: ImageSet, columns: int, rows: int = 1) -> tuple[float, float]:
    """Width and height in inches that fit the images without gaps."""
    return columns * _TILE * 1.04 + _MARGIN, rows * len(_present(image_set)) * _ROW + _TITLE


def contact_sheet(
    image_set: ImageSet, to: Path | BinaryIO, columns: int = 8, rows: int = 1, title: str | None = None
) -> None:
    """Writes the first `rows` times `columns` images of every class, one class below the other.

    The file's ending says whether as PNG, PDF or SVG; without one it is PNG.
    """
    if columns < 1 or rows < 1:
        raise Misconfigured(f"a contact sheet needs at least 1 column and 1 row, not {columns} and {rows}.")
    if not len(image_set):
        raise BadInput(f"{image_set.name} holds no images to show.")
    kind = (to.suffix.lower().removeprefix(".") if isinstance(to, Path) else "") or "png"
    if kind not in _KINDS:
        raise Misconfigured(f"a contact sheet is a file of .{', .'.join(_KINDS)}, not {str(to)!r}; name it so.")
    figure = Figure(figsize=sheet_size(image_set, columns, rows))
    FigureCanvasAgg(figure)  # the figure draws itself: no window, and no pyplot to share with anyone
    arrange(figure, image_set, columns, rows, title)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # names may be written in letters that the font lacks
        written = io.BytesIO()
        figure.savefig(written, dpi=110, format=kind)
    if isinstance(to, Path):
        write_bytes(to, written.getvalue(), private=not image_set.synthetic)
    else:
        to.write(written.getvalue())


def arrange(figure: FigureBase, image_set: ImageSet, columns: int, rows: int = 1, title: str | None = None) -> None:
    """The same on a figure, or a part of one, that the caller made to `sheet_size`."""
    width, height = sheet_size(image_set, columns, rows)
    figure.suptitle(title if title is not None else f"{image_set.name}: {len(image_set)} images", fontsize=9)
    labels = image_set.batch.labels.numpy()
    present = _present(image_set)
    cells = figure.subplots(rows * len(present), columns, squeeze=False, gridspec_kw={"wspace": 0.04, "hspace": 0.14})
    figure.subplots_adjust(left=_MARGIN / width, right=0.995, bottom=0.14 / height, top=1 - _TITLE / height)
    for cell in cells.flat:
        cell.set_axis_off()
    for block, label in enumerate(present):
        group = np.flatnonzero(labels == label)[: rows * columns]
        for place, index in enumerate(group):
            cell = cells[block * rows + place // columns, place % columns]
            image = image_set.batch.images[index].numpy().transpose(1, 2, 0)
            cell.imshow(image if image.shape[2] == 3 else image[:, :, 0], cmap="gray", vmin=0, vmax=1)
            patient = _short(image_set.batch.patients[index])
            cell.text(0.5, -0.02, patient, transform=cell.transAxes, ha="center", va="top", fontsize=5, color="0.35")
        first = cells[block * rows, 0]
        name = image_set.classes[label]
        first.text(-0.05, 0.5, name, transform=first.transAxes, ha="right", va="center", rotation=90, fontsize=7)


def _present(image_set: ImageSet) -> list[int]:
    return sorted(set(image_set.batch.labels.tolist()))


def _short(patient: str) -> str:
    """File names can be long; the end tells them apart."""
    return patient if len(patient) <= 22 else "..." + patient[-19:]
