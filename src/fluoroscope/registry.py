"""Names at the edge: one registry per kind of part, with did-you-mean errors.

Third parties add their own through entry points: a package that declares

    [project.entry-points."fluoroscope.models"]
    mynet = "mypackage.mynet:build"

has `mynet` in the registry of kind "models" once it is installed.
"""

from collections.abc import Callable, Iterator
from difflib import get_close_matches
from importlib.metadata import entry_points
from typing import Generic, TypeVar

from fluoroscope.errors import Misconfigured

T = TypeVar("T")
P = TypeVar("P")


class Registry(Generic[T]):
    """Parts of one kind by name. The parts themselves know nothing of their names."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._parts: dict[str, T] = {}
        self._aliases: dict[str, str] = {}
        self._asked_third_parties = False

    def register(self, name: str) -> Callable[[P], P]:
        """Decorator that enters a part under `name`; a second part of that name is refused."""

        def enter(part: P) -> P:
            self.add(name, part)  # type: ignore[arg-type]  # P is a T; decorators keep the narrower type
            return part

        return enter

    def add(self, name: str, part: T) -> None:
        if name in self._parts or name in self._aliases:
            raise Misconfigured(f"{self.kind} already has a part named {name!r}; choose another name.")
        self._parts[name] = part

    def alias(self, old: str, new: str) -> None:
        """Let a former name lead to the part: plans and records that use it stay readable, and it is not listed."""
        if old in self._parts or old in self._aliases:
            raise Misconfigured(f"{self.kind} already has a part named {old!r}; choose another alias.")
        self._aliases[old] = new

    def current(self, name: str) -> str:
        """The name as it is now, of a former one too."""
        return self._aliases.get(name, name)

    def get(self, name: str) -> T:
        """The part, by its name or a former one.

        Raises:
            Misconfigured: there is none; the nearest name is told.
        """
        self._load_third_parties()
        if self.current(name) not in self._parts:
            raise Misconfigured(f"there is no {name!r} among the {self.kind}{self._hint(name)}.")
        return self._parts[self.current(name)]

    def __contains__(self, name: object) -> bool:
        self._load_third_parties()
        return name in self._parts or name in self._aliases

    def __iter__(self) -> Iterator[str]:
        self._load_third_parties()
        return iter(sorted(self._parts))

    def _hint(self, name: str) -> str:
        near = get_close_matches(name, [*self._parts, *self._aliases], n=1)
        known = ", ".join(sorted(self._parts))
        return f"; did you mean {self.current(near[0])!r}? Known: {known}" if near else f". Known: {known}"

    def _load_third_parties(self) -> None:
        if self._asked_third_parties:
            return
        self._asked_third_parties = True
        for point in entry_points(group=f"fluoroscope.{self.kind}"):
            self.add(point.name, point.load())
