"""JSON pointers (RFC 6901): the address of a number inside findings.json."""

from collections.abc import Mapping, Sequence
from typing import Any


def pointer(*steps: object) -> str:
    """The address of what the steps lead to: keys and positions."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


def resolve(document: Any, address: str) -> Any:  # noqa: ANN401  # JSON is any of its own types
    """What stands at the address; LookupError where nothing does."""
    if address and not address.startswith("/"):
        raise LookupError(f"{address!r} does not begin with /")
    here = document
    for step in address.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(here, Mapping) and key in here:
            here = here[key]
        elif isinstance(here, Sequence) and not isinstance(here, str) and key.isdecimal() and int(key) < len(here):
            here = here[int(key)]
        else:
            raise LookupError(f"{address!r} points at nothing: there is no {key!r}")
    return here
