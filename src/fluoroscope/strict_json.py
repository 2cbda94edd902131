"""JSON that every reader accepts: Python would write NaN, which is none. And JSON that may be damaged, read."""

import json
import math
from collections.abc import Mapping
from typing import Any


def dumps(content: Mapping[str, Any]) -> str:
    """Indented JSON; a float that is not finite becomes null."""
    return json.dumps(_finite(content), indent=1, allow_nan=False) + "\n"


def loads(content: str | bytes) -> Any:  # noqa: ANN401  # JSON is any of its own types
    """What the text of a file holds.

    Raises:
        ValueError: it is no JSON, or nests too deeply: whatever is wrong with it is this one error.
    """
    try:
        return json.loads(content)
    except RecursionError as problem:
        raise ValueError("it nests lists or tables too deeply") from problem


def _finite(value: Any) -> Any:  # noqa: ANN401  # JSON is any of its own types
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
