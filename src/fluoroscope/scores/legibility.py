"""Whether the text that is burned into an image can be read in its reconstruction (P1 fig. 7). Higher is leakier.

The reader is told the font and where each character begins, and picks the glyph that correlates best with the pixels:
an attacker who knows such labels, without a language model's guesses at names. Letters are read as letters and digits
as digits, for a name is told from a date by its place; what is neither, such as the dots of a date, is not scored.
Templates are sharp: blur by up to a dot is forgiven, more is not, so that unread is no proof of unreadable.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from string import ascii_uppercase, digits
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from fluoroscope.errors import BadInput
from fluoroscope.scores.intervals import Interval, wilson

Glyph = Callable[[str], NDArray[np.bool_]]
"""A character's bitmap (rows, columns), True where there is ink; all characters have the same rows."""
UNREAD = "?"


@dataclass(frozen=True)
class Writing:
    """Lines of text in a box: one empty dot around it, between lines and between characters."""

    lines: tuple[str, ...]
    top: int
    left: int
    height: int
    """Of the box, in pixels: it tells how many pixels a dot has."""


class Cell(NamedTuple):
    """One character, and the pixel where it begins."""

    character: str
    top: int
    left: int


@dataclass(frozen=True)
class Reading:
    """The letters and digits of one image, and what was read for each of them."""

    truth: str
    read: str
    """UNREAD where no glyph resembles the pixels at all."""

    @property
    def correct(self) -> int:
        return sum(a == b for a, b in zip(self.truth, self.read, strict=True))


@dataclass(frozen=True)
class Legibility:
    """The share of characters read correctly over all readings, and what guessing reaches."""

    share: Interval
    chance: float


def legibility(readings: Sequence[Reading]) -> Legibility:
    """Wilson's interval takes characters as independent. Chance is a glyph drawn at random of the letters or digits.

    Read the public prior in the same way for a stricter baseline: an attacker who sees it knows what labels look like.
    """
    characters = "".join(reading.truth for reading in readings)
    if not characters:
        raise BadInput("the readings hold no letter or digit; give images with text burned in.")
    chance = sum(1 / len(_alphabet(character)) for character in characters) / len(characters)
    return Legibility(wilson(sum(reading.correct for reading in readings), len(characters)), chance)


def read(image: Tensor, writing: Writing, glyph: Glyph) -> Reading:
    """Read `image` (channels, height, width) where the writing was put on its original, light on dark."""
    if image.ndim != 3:
        raise BadInput(f"one image (channels, height, width) is read at a time, not shape {tuple(image.shape)}.")
    grey = image.detach().cpu().double().mean(0).numpy()
    dot = dot_size(writing, glyph)
    written = [cell for cell in cells(writing, glyph) if cell.character in ascii_uppercase + digits]
    guesses = []
    for cell in written:
        if _window(grey, cell, glyph(cell.character), dot) is None:
            raise BadInput(
                f"{cell.character!r} at row {cell.top}, column {cell.left} is not inside an image of "
                f"{grey.shape[0]} x {grey.shape[1]} pixels; give the writing for this size."
            )
        guesses.append(_best(grey, cell, glyph, dot))
    return Reading("".join(cell.character for cell in written), "".join(guesses))


def dot_size(writing: Writing, glyph: Glyph) -> int:
    """Pixels on the side of a dot, from the box's height."""
    dots = len(writing.lines) * (len(glyph("A")) + 1) + 1
    if writing.height < dots or writing.height % dots:
        raise BadInput(f"a box of {len(writing.lines)} lines has {dots} rows of dots, not {writing.height} pixels.")
    return writing.height // dots


def cells(writing: Writing, glyph: Glyph) -> list[Cell]:
    """Every character of the writing, blanks too, with the pixel where it begins."""
    dot = dot_size(writing, glyph)
    found = []
    for row, line in enumerate(writing.lines):
        top, left = writing.top + dot * (1 + row * (len(glyph("A")) + 1)), writing.left + dot
        for character in line:
            found.append(Cell(character, top, left))
            left += dot * (glyph(character).shape[1] + 1)
    return found


def _alphabet(character: str) -> str:
    return digits if character in digits else ascii_uppercase


def _best(grey: NDArray[np.float64], cell: Cell, glyph: Glyph, dot: int) -> str:
    """The glyph with the highest correlation above 0. A wide one that would leave the image is not considered."""
    best, found = 0.0, UNREAD
    for candidate in _alphabet(cell.character):
        bitmap = glyph(candidate)
        pixels = _window(grey, cell, bitmap, dot)
        score = 0.0 if pixels is None else _correlation(pixels, np.pad(bitmap, 1).repeat(dot, 0).repeat(dot, 1))
        if score > best:  # never for NaN
            best, found = score, candidate
    return found


def _window(grey: NDArray[np.float64], cell: Cell, bitmap: NDArray[np.bool_], dot: int) -> NDArray[np.float64] | None:
    """The pixels under a glyph and the empty dots around it; None where they are not all in the image."""
    rows, columns = bitmap.shape
    top, left = cell.top - dot, cell.left - dot
    bottom, right = cell.top + dot * (rows + 1), cell.left + dot * (columns + 1)
    inside = top >= 0 and left >= 0 and bottom <= grey.shape[0] and right <= grey.shape[1]
    return grey[top:bottom, left:right] if inside else None


def _correlation(pixels: NDArray[np.float64], ink: NDArray[np.bool_]) -> float:
    """Pearson's; 0 for pixels without contrast."""
    a, b = pixels - pixels.mean(), ink - ink.mean()
    lengths = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float((a * b).sum()) / lengths if lengths else 0.0
