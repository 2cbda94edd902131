"""The tables that plans and policies are made of, and how a TOML file of them is read: errors name the key."""

import math
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from fluoroscope.errors import BadInput, Misconfigured

M = TypeVar("M", bound=BaseModel)


class Section(BaseModel):
    """A table of the plan; keys that it does not know are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class OpenSection(BaseModel):
    """A table whose further keys belong to the part that it names, and are checked by it."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)

    @property
    def settings(self) -> dict[str, Any]:
        """The keys beside the declared ones."""
        return dict(self.__pydantic_extra__ or {})


MOST_BYTES = 2**20
"""Of a file of tables."""
MOST_NUMBER = 1e12
"""Of any number in it but a seed: beyond, sums of squares are finite no more."""
MOST_SEED = 2**63 - 1
_DEEPEST = 16


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """What stands in the file of `what`, as plain data."""
    try:
        if path.exists() and not path.is_file():  # a pipe would never end
            raise BadInput(f"{path} is no file; give the {what} as a TOML file.")
        if path.exists() and path.stat().st_size > MOST_BYTES:
            raise BadInput(f"{path} has {path.stat().st_size:,} bytes; a {what} has at most {MOST_BYTES:,}.")
        text = path.read_text(encoding="utf-8-sig")  # some editors begin a file with a byte order mark
    except (OSError, ValueError) as problem:  # a UnicodeDecodeError is a ValueError, and so is a NUL in the path
        plain = str(path).replace("\0", "NUL")
        raise BadInput(f"cannot read the {what} {plain}: {problem}.") from problem
    try:
        return tomllib.loads(text)
    except RecursionError as problem:
        raise BadInput(f"{path} nests tables or lists too deeply; at most {_DEEPEST} levels are read.") from problem
    except ValueError as problem:  # and a whole number of thousands of digits
        raise BadInput(f"{path} is not valid TOML: {str(problem).partition(';')[0]}.") from problem


def check_plain(value: Any, origin: str, where: str = "", deep: int = 0) -> None:  # noqa: ANN401  # TOML's own types
    """Refuse numbers, texts and nesting that no plan needs, before anything is made of them.

    Raises:
        Misconfigured: with the key and the limit.
    """
    if deep > _DEEPEST:
        raise Misconfigured(f"{origin}: {where[:60]} is nested deeper than {_DEEPEST} levels.")
    if isinstance(value, Mapping):
        for key, item in value.items():
            check_plain(item, origin, f"{where}.{key}" if where else str(key), deep + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            check_plain(item, origin, where, deep + 1)
    elif isinstance(value, str) and "\0" in value:
        raise Misconfigured(f"{origin}: {where} holds the character NUL, which no path or name can have; remove it.")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        most = MOST_SEED if where.rpartition(".")[2] == "seed" else MOST_NUMBER
        if isinstance(value, int) and not -most <= value <= most:
            seen = f"a number of {len(str(value))} digits"
            raise Misconfigured(f"{origin}: {where}: at most {most:g} is possible, not {seen}.")
        if isinstance(value, float) and math.isfinite(value) and abs(value) > most:
            raise Misconfigured(f"{origin}: {where}: at most {most:g} is possible, not {value:g}.")


def parse_as(kind: type[M], content: dict[str, Any], origin: str) -> M:
    """The content as `kind`; the first thing that is wrong is named by its key."""
    check_plain(content, origin)
    try:
        return kind.model_validate(content)
    except ValidationError as problem:
        first = problem.errors()[0]
        # A union reports each of its branches; the key itself is what the user wrote.
        where = ".".join(str(part) for part in first["loc"] if not str(part).startswith(("literal", "list")))
        if first["type"] == "extra_forbidden":
            raise Misconfigured(f"{origin}: there is no key {where!r}{_near(kind, first['loc'])}") from problem
        if first["type"] == "value_error":  # our own words, of several keys at once
            raise Misconfigured(f"{origin}: {first['msg'].removeprefix('Value error, ')}.") from problem
        raise Misconfigured(f"{origin}: {where}: {_asked(kind, first)}, not {first['input']!r}.") from problem


def _asked(kind: type[BaseModel], first: Any) -> str:  # noqa: ANN401  # one of pydantic's errors
    """What should stand there, in TOML's words where pydantic's are Python's."""
    if first["type"] == "model_type":
        return f"write a table, {{ {', '.join(f'{key} = ...' for key in _keys(_at(kind, first['loc'])))} }}"
    if first["type"] in ("tuple_type", "list_type"):
        return "write a list, [...]"
    return str(first["msg"])


def _at(kind: type[BaseModel], location: tuple[int | str, ...]) -> Any:  # noqa: ANN401  # a section, or any annotation
    """What is asked for at this place."""
    section: Any = kind
    for part in location:  # a number is the place in a list of tables
        section = get_args(section)[0] if isinstance(part, int) else _table(_keys(section)[str(part)])
    return section


def _near(kind: type[BaseModel], location: tuple[int | str, ...]) -> str:
    known = list(_keys(_at(kind, location[:-1])))
    near = get_close_matches(str(location[-1]), known, n=1)
    return f"; did you mean {near[0]!r}?" if near else f". Known here: {', '.join(known)}."


def _keys(section: Any) -> dict[str, Any]:  # noqa: ANN401  # a section, or a type that has no keys
    """The keys as they are written, which may have a hyphen, and what stands under each."""
    return {field.alias or name: field.annotation for name, field in getattr(section, "model_fields", {}).items()}


def _table(annotation: Any) -> Any:  # noqa: ANN401  # any annotation
    """The table behind `Table | None`; other annotations as they are."""
    tables = [each for each in get_args(annotation) if isinstance(each, type) and issubclass(each, BaseModel)]
    return tables[0] if type(None) in get_args(annotation) and tables else annotation
