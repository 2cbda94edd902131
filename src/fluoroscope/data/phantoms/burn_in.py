"""A fake name and date of birth in the corner of the film, as P1 fig. 7: what nobody should read off a gradient."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fluoroscope.data.phantoms.font import HEIGHT, render
from fluoroscope.rng import numpy_generator

_SURNAMES = (
    "ABEL ADAMS BAKER BAUER BECK BROWN CLARK COHEN COSTA DIAZ DUBOIS EVANS FABER FISHER GARCIA GREEN HALL HANSEN "
    "IVANOV JONES KELLER KHAN KING KOVAC LANG LOPEZ MEYER MILLER MOREAU NAGY NOVAK OKAFOR OLSEN PARK PATEL POPA "
    "QUINN REID ROSSI SATO SILVA SINGH SMITH TANAKA TURNER URBAN VARGA VOGEL WANG WEBER WOLF YILMAZ YOUNG ZHANG"
)
_GIVEN_NAMES = (
    "ADA ALEX ALICE AMIR ANNA BEN CARLA CHEN CLARA DAVID ELENA EMIL EMMA ERIK EVA FELIX GRACE HANA HUGO IDA INES "
    "IVAN JANE JOHN JULIA KAI KARL LEA LENA LEO LIAM LUCA LUCY MARIA MARK MAX MAYA MIA NINA NOAH NORA OMAR OTTO "
    "PAUL PETER RITA ROSA RUTH SARA SOFIA TOM VERA YUKI ZOE"
)
_CORNERS = ("top left", "top right", "bottom left", "bottom right")


@dataclass(frozen=True)
class Label:
    """What is written on all images of one patient, and where."""

    name: str
    born: str
    corner: str

    def lines(self, size: int) -> tuple[str, ...]:
        """The text that an image of this side holds: whole from 52 pixels, below that surname and year of birth."""
        return (self.name, self.born) if size >= 52 else (self.name.split()[0], self.born.split(".")[-1])


def label(kind: str, seed: int, patient: int) -> Label:
    """The same for every image of a patient, whatever its size."""
    rng = numpy_generator(seed, "phantom", kind, "label", patient)
    name = f"{rng.choice(_SURNAMES.split())} {rng.choice(_GIVEN_NAMES.split())}"
    born = f"{rng.integers(1, 29):02d}.{rng.integers(1, 13):02d}.{rng.integers(1930, 2006)}"
    return Label(name, born, str(rng.choice(_CORNERS)))


@dataclass(frozen=True, eq=False)
class Stamp:
    """A label as pixels: the box it darkens and the ink inside it."""

    top: int
    left: int
    ink: NDArray[np.bool_]

    def press(self, image: NDArray[np.float32]) -> NDArray[np.float32]:
        """A copy of the image (..., height, width) with white ink on a darkened box."""
        height, width = self.ink.shape
        stamped = image.copy()
        box = stamped[..., self.top : self.top + height, self.left : self.left + width]
        box *= 0.3
        box[..., self.ink] = 1.0
        return stamped


def stamp(text: Label, size: int) -> Stamp:
    """The label drawn for an image of this side; strokes are whole pixels, one for about every 80 of the side."""
    scale = max(1, round(size / 80))
    lines = [render(line, scale) for line in text.lines(size)]
    border, pitch = scale, (HEIGHT + 1) * scale
    width = min(size, max(line.shape[1] for line in lines) + 2 * border)
    ink = np.zeros((pitch * len(lines) + border, width), dtype=bool)
    for row, line in enumerate(lines):
        shown = line[:, : width - border]
        ink[border + row * pitch : border + row * pitch + shown.shape[0], border : border + shown.shape[1]] = shown
    top = 0 if text.corner.startswith("top") else size - ink.shape[0]
    left = 0 if text.corner.endswith("left") else size - width
    return Stamp(top, left, ink)
