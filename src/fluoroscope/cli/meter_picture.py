"""The picture that `fluoroscope meter --show-images` draws: patients' images, so for nobody but its owner."""

import io
import os
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from torch import Tensor

from fluoroscope.atomic_write import write_bytes
from fluoroscope.report.figures import Tile, gallery
from fluoroscope.scores.similarity import ssim_matrix
from fluoroscope.types import PrivateBatch

SHOWN = 8
"""Guesses in the picture."""


def write_picture(path: Path, own: PrivateBatch, guess: Tensor) -> None:
    """Each guess beside the nearest of the site's own images."""
    likeness, nearest = ssim_matrix(guess.clamp(0, 1), own.images).max(1)
    rows = {
        f"guess {i + 1}": [
            Tile(own.images[int(nearest[i])].numpy(), "the nearest of your images"),
            Tile(guess[i].numpy(), f"what a server makes\nSSIM {float(likeness[i]):.3f}"),
        ]
        for i in range(min(SHOWN, len(guess)))
    }
    figure = gallery("from this update", rows)
    FigureCanvasAgg(figure)
    pixels = io.BytesIO()
    figure.savefig(pixels, format="png", dpi=130, facecolor="white")
    previous = os.umask(0o077)  # so that it is never anybody else's, not for a moment
    try:
        write_bytes(path, pixels.getvalue())
    finally:
        os.umask(previous)
