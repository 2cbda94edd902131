"""`--set budget.iterations=100`: a changed copy of nested frozen dataclasses, from strings at the edge."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from difflib import get_close_matches
from typing import Any, TypeVar, get_type_hints

from pydantic import ConfigDict, PydanticSchemaGenerationError, TypeAdapter, ValidationError

from fluoroscope.attacks.common.initialisation import INITIALISATIONS, Initialisation
from fluoroscope.attacks.gradient_inversion.distances import DISTANCES, Distance
from fluoroscope.errors import Misconfigured
from fluoroscope.registry import Registry

T = TypeVar("T")

PARTS: dict[object, Registry[Any]] = {Distance: DISTANCES, Distance | None: DISTANCES, Initialisation: INITIALISATIONS}
"""Fields that hold a part with a name of its own."""


def changed(part: T, settings: Mapping[str, Any], what: str) -> T:
    """`part` with each dotted key set to its value; `what` is its name in messages."""
    for key, value in settings.items():
        part = _set(part, key.split("."), value, key, what)
    return part


def _set(part: Any, path: list[str], value: Any, key: str, what: str) -> Any:  # noqa: ANN401  # any settings
    name, *rest = path
    if isinstance(part, tuple) and name.isdigit() and int(name) < len(part):
        inner = _set(part[int(name)], rest, value, key, what) if rest else value
        return (*part[: int(name)], inner, *part[int(name) + 1 :])
    known = _known(part)
    if name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise Misconfigured(f"--set {key}: {what} has no setting {name!r} there{hint} It takes: {', '.join(known)}.")
    if rest:
        return replace(part, **{name: _set(getattr(part, name), rest, value, key, what)})
    return replace(part, **{name: _parsed(part, name, value, key)})


def _known(part: Any) -> list[str]:  # noqa: ANN401  # any settings
    if isinstance(part, tuple):
        return [str(i) for i in range(len(part))]
    return [f.name for f in fields(part)] if is_dataclass(part) and not isinstance(part, type) else []


def _parsed(part: Any, name: str, value: Any, key: str) -> Any:  # noqa: ANN401  # any settings
    """The value as the field's type has it."""
    hint = get_type_hints(type(part))[name]
    if hint in PARTS and isinstance(value, str):
        kind = PARTS[hint].get(value)
        try:
            return kind()
        except TypeError as problem:
            raise Misconfigured(f"--set {key}: {value!r} cannot be made without settings of its own.") from problem
    try:
        return TypeAdapter(hint, config=ConfigDict(allow_inf_nan=False)).validate_python(value)
    except (PydanticSchemaGenerationError, TypeError) as problem:
        inner = ", ".join(f"{key}.{field}" for field in _known(getattr(part, name))) or "none of its parts by name"
        raise Misconfigured(f"--set {key}: {name} is made of parts; set one of them: {inner}.") from problem
    except ValidationError as problem:
        first = problem.errors()[0]
        raise Misconfigured(f"--set {key}: {first['msg']}, not {value!r}.") from problem
