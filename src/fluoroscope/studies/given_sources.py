"""Which images a user gives to which cells: one source for all, or a source by the name of a data set."""

import tomllib
from collections.abc import Sequence
from pathlib import Path

from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.studies.study import NONE_EMBEDDED, STUDIES, Sources


def known_names() -> list[str]:
    """Data sets of the papers, and the phantoms in their place, as the studies' cells name them."""
    cells = [cell for name in STUDIES for size in STUDIES.get(name).cells.values() for cell in size]
    named = {name for cell in cells for name in (cell.data, getattr(cell, "dataset", cell.data))}
    return sorted(named - {NONE_EMBEDDED})


def sources(given: Sequence[str], file: Path | None = None) -> Sources:
    """What `--data SOURCE`, `--data NAME=SOURCE` and `--sets FILE` say together.

    Args:
        given: texts as on the command line; one that begins with a known name and `=` is for that data set.
        file: a TOML file of lines `name = "source"`, which `given` overrides.

    Returns:
        None where nothing is given.

    Raises:
        Misconfigured: several sources for all cells, one beside named ones, or an unknown name in the file.

    Example:
        >>> sources(["X-ray=folder:xrays"])
        {'X-ray': 'folder:xrays'}
        >>> sources(["folder:xrays"])
        'folder:xrays'
    """
    known = known_names()
    pairs = [text.partition("=") for text in given]
    named = {name: source for name, equals, source in pairs if equals and name in known}
    for_all = [text for text, (name, equals, _) in zip(given, pairs, strict=True) if not (equals and name in known)]
    read = {} if file is None else _read(file, known)
    if len(for_all) > 1 or (for_all and (named or read)):
        remedy = f"name the data set of each: --data NAME=SOURCE with NAME one of {', '.join(known)}"
        raise Misconfigured(f"--data {for_all[0]} is for every cell, and more was given; {remedy}.")
    if for_all:
        return for_all[0]
    return {**read, **named} or None


def _read(file: Path, known: list[str]) -> dict[str, str]:
    try:
        found = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise BadInput(f'{file} is no TOML file of lines `name = "source"` ({problem}).') from problem
    for name, source in found.items():
        if name not in known or not isinstance(source, str):
            raise Misconfigured(f"{file}: {name!r} is no data set of a study; they are {', '.join(known)}.")
    return found
