"""What may travel beside the weights, in any framework: numbers and short texts, and few of them."""

from collections.abc import Iterator, Mapping
from enum import Enum

import numpy as np

from fluoroscope.errors import Refused

MOST_NUMBERS = 256
"""Metrics and settings. A picture of 16 x 16 pixels has as many."""
MOST_CHARACTERS = 4096
"""Of all texts and names, in bytes."""


def check_plain(values: object, what: str, *, allow_bytes: bool = False) -> None:
    """Make sure that nothing but a few numbers and short texts is in there.

    Args:
        values: a number, a text, or lists and tables of such.
        what: they are called, in the error.
        allow_bytes: whether bytes may be among them; they count as text.

    Raises:
        Refused: there is something else, or too much.

    Example:
        >>> check_plain({"loss": 0.3, "rounds": [1, 2]}, "metrics")
        >>> check_plain({"scan": b"..."}, "metrics")
        Traceback (most recent call last):
        fluoroscope.errors.Refused: its metrics hold a value of type bytes beside the weights
    """
    numbers, characters = 0, 0
    for value in _leaves(values):
        if isinstance(value, str):
            characters += len(value.encode("utf-8", "surrogatepass"))
        elif isinstance(value, bytes) and allow_bytes:
            characters += len(value)
        elif _is_number(value):
            numbers += 1
        else:
            raise Refused(f"its {what} hold a value of type {type(value).__name__} beside the weights")
    for found, most, unit in ((numbers, MOST_NUMBERS, "numbers"), (characters, MOST_CHARACTERS, "characters")):
        if found > most:
            raise Refused(f"its {what} hold {found} {unit} beside the weights, and at most {most} may leave")


def _leaves(value: object) -> Iterator[object]:
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _leaves(name)
            yield from _leaves(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)
    else:
        yield value.value if isinstance(value, Enum) else value


def _is_number(value: object) -> bool:
    """Of at most 64 bits: a whole number of Python's can be as long as a picture."""
    if isinstance(value, int):
        return value.bit_length() <= 64
    known = value is None or isinstance(value, float)
    return known or (isinstance(value, np.integer | np.floating | np.bool_) and value.dtype.itemsize <= 8)
