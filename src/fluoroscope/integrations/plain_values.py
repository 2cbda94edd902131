"""What may travel beside the weights: numbers and short texts, and few of them."""

import json
from collections.abc import Mapping
from enum import Enum

import numpy as np

from fluoroscope.errors import Refused

LONGEST = 4096
"""Characters as JSON: room for metrics, and for hardly a picture."""


def check_plain(values: object, what: str) -> None:
    """Make sure that nothing but a few numbers and short texts is in there.

    Raises:
        Refused: there is something else, or too much.

    Example:
        >>> check_plain({"loss": 0.3, "rounds": [1, 2]}, "metrics")
        >>> check_plain({"scan": b"..."}, "metrics")
        Traceback (most recent call last):
        fluoroscope.errors.Refused: its metrics hold a value of type bytes beside the weights
    """
    length = len(json.dumps(_plain(values, what)))
    if length > LONGEST:
        raise Refused(f"its {what} hold {length} characters beside the weights, and {LONGEST} may leave")


def _plain(value: object, what: str) -> object:
    if isinstance(value, Enum):
        return _plain(value.value, what)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.number | np.bool_):
        return value.item()
    if isinstance(value, Mapping):
        return {str(_plain(key, what)): _plain(item, what) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, what) for item in value]
    raise Refused(f"its {what} hold a value of type {type(value).__name__} beside the weights")
