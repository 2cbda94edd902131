"""A bitmap font of five rows: capitals, digits and the few signs that a film's label needs."""

import numpy as np
from numpy.typing import NDArray

from fluoroscope.errors import Misconfigured

HEIGHT = 5

_ROWS = {
    "A": ".#. #.# ### #.# #.#",
    "B": "##. #.# ##. #.# ##.",
    "C": ".## #.. #.. #.. .##",
    "D": "##. #.# #.# #.# ##.",
    "E": "### #.. ##. #.. ###",
    "F": "### #.. ##. #.. #..",
    "G": ".### #... #.## #..# .###",
    "H": "#.# #.# ### #.# #.#",
    "I": "# # # # #",
    "J": "..# ..# ..# #.# .#.",
    "K": "#..# #.#. ##.. #.#. #..#",
    "L": "#.. #.. #.. #.. ###",
    "M": "#...# ##.## #.#.# #...# #...#",
    "N": "#..# ##.# #.## #..# #..#",
    "O": ".##. #..# #..# #..# .##.",
    "P": "##. #.# ##. #.. #..",
    "Q": ".##. #..# #..# #.#. .#.#",
    "R": "##. #.# ##. #.# #.#",
    "S": ".## #.. .#. ..# ##.",
    "T": "### .#. .#. .#. .#.",
    "U": "#.# #.# #.# #.# ###",
    "V": "#.# #.# #.# #.# .#.",
    "W": "#...# #...# #.#.# ##.## #...#",
    "X": "#.# #.# .#. #.# #.#",
    "Y": "#.# #.# .#. .#. .#.",
    "Z": "### ..# .#. #.. ###",
    "0": ".#. #.# #.# #.# .#.",
    "1": ".# ## .# .# .#",
    "2": "##. ..# .#. #.. ###",
    "3": "##. ..# .#. ..# ##.",
    "4": "#.# #.# ### ..# ..#",
    "5": "### #.. ##. ..# ##.",
    "6": ".## #.. ### #.# ###",
    "7": "### ..# .#. .#. .#.",
    "8": "### #.# ### #.# ###",
    "9": "### #.# ### ..# ##.",
    ".": ". . . . #",
    "-": ".. .. ## .. ..",
    " ": ".. .. .. .. ..",
}


def glyph(character: str) -> NDArray[np.bool_]:
    """(5, width) bitmap of one character: also the template that a legibility score matches against."""
    if character not in _ROWS:
        raise Misconfigured(f"the film font has no {character!r}; it has {''.join(_ROWS)}")
    return np.array([[dot == "#" for dot in row] for row in _ROWS[character].split()])


def render(text: str, scale: int = 1) -> NDArray[np.bool_]:
    """(5 scale, width) bitmap of a line of text, one empty column between characters."""
    gap = np.zeros((HEIGHT, 1), dtype=bool)
    parts = [part for character in text for part in (glyph(character), gap)]
    line = np.concatenate(parts[:-1], axis=1) if parts else np.zeros((HEIGHT, 0), dtype=bool)
    return line.repeat(scale, axis=0).repeat(scale, axis=1)
