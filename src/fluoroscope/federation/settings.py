"""From the keys of a plan or a command line to a part that is made of them."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from fluoroscope.defences import DEFENCES, Chain, Defence, chain
from fluoroscope.errors import Misconfigured
from fluoroscope.federation.sections import check_plain

T = TypeVar("T")


def build_part(kind: type[T], what: str, settings: Mapping[str, Any]) -> T:
    """The dataclass `kind` with these settings; the first that is wrong is named, as `what` and its key.

    Former names of settings, which stand in the dataclass's `OLD_NAMES`, are understood.
    """
    check_plain(dict(settings), what)
    known = [field.name for field in fields(kind)]  # type: ignore[arg-type]  # every kind of part is a dataclass
    settings = current_names(kind, what, settings)
    if unknown := sorted(set(settings) - set(known)):
        raise Misconfigured(f"{what} has no setting {unknown[0]!r}; it takes: {', '.join(known) or 'none'}.")
    try:
        return TypeAdapter(kind).validate_python(settings)
    except ValidationError as problem:
        first = problem.errors()[0]
        if first["type"] == "missing":
            raise Misconfigured(f"{what} needs the setting {first['loc'][0]!r}.") from problem
        where = ".".join(map(str, first["loc"]))
        raise Misconfigured(f"{what}: {where}: {first['msg']}, not {first['input']!r}.") from problem


def current_names(kind: type[Any], what: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings under the names that they have now; a setting that is given by both its names is refused."""
    former: Mapping[str, str] = getattr(kind, "OLD_NAMES", {})
    for old, new in former.items():
        if old in settings and new in settings:
            raise Misconfigured(
                f"{what}: {old!r} is the former name of {new!r}, and both are given: leave {old!r} out."
            )
    return {former.get(key, key): value for key, value in settings.items()}


def build_defences(parts: Sequence[tuple[str, Mapping[str, Any]]]) -> Chain:
    """The named defences with their settings, stacked."""

    def one(name: str, settings: Mapping[str, Any]) -> Defence:
        kind: type[Defence] = DEFENCES.get(name)
        return build_part(kind, f"defence {DEFENCES.current(name)}", settings)

    return chain(*(one(name, settings) for name, settings in parts))
