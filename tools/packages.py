"""The packages of the environment as it is: version, licence, hash in the lock, and who needs whom."""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
NOT_STATED = "not stated"
_LOCKED = re.compile(r"(?P<name>[\w.-]+)==(?P<version>[\w.]+)(?P<hashes>( --hash=sha256:[0-9a-f]{64})+)")
_LONGEST = 60
"""Of a licence's name; longer ones are its text."""


@dataclass(frozen=True)
class Package:
    """One installed package."""

    name: str
    version: str
    expression: str | None
    """Its licence as an SPDX expression, where its metadata has one."""
    named: tuple[str, ...]
    """Its licences by the names that its metadata has, where there is no expression."""
    requires: tuple[str, ...]
    hashes: tuple[str, ...]
    """SHA-256 of the files in the lock; none where the lock has another version, or the version alone."""

    @property
    def licence(self) -> str:
        return self.expression or " / ".join(self.named) or NOT_STATED


@dataclass(frozen=True)
class Project:
    """This package: what it is called, and what it asks for."""

    name: str
    version: str
    licence: str
    requirements: tuple[str, ...]

    @classmethod
    def read(cls, root: Path = ROOT) -> "Project":
        project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        return cls(project["name"], project["version"], project["license"], tuple(project["dependencies"]))


@dataclass(frozen=True)
class Environment:
    """All of them, by their canonical names, without this project."""

    project: Project
    packages: Mapping[str, Package]

    @classmethod
    def read(cls, root: Path = ROOT) -> "Environment":
        project, lock = Project.read(root), locked(root)
        found = {canonicalize_name(each.metadata["Name"]): each for each in distributions()}
        others = sorted(found.keys() - {canonicalize_name(project.name)})
        return cls(project, {name: _package(found[name], lock) for name in others})

    def needed(self, requirements: Iterable[str]) -> list[str]:
        """The installed packages that these requirements name, with those of their extras."""
        found: set[str] = set()
        for each in map(Requirement, requirements):
            name = canonicalize_name(each.name)
            if name in self.packages and (each.marker is None or each.marker.evaluate({"extra": ""})):
                found |= {name, *self._of_extras(name, each.extras)}
        return sorted(found)

    @cached_property
    def at_run_time(self) -> frozenset[str]:
        """What an installation without extras brings."""
        found: set[str] = set()
        waiting = self.needed(self.project.requirements)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += self.needed(self.packages[name].requires)
        return frozenset(found)

    def _of_extras(self, name: str, extras: Iterable[str]) -> Iterator[str]:
        for extra in extras:
            for each in map(Requirement, self.packages[name].requires):
                wanted = canonicalize_name(each.name)
                if wanted in self.packages and each.marker is not None and each.marker.evaluate({"extra": extra}):
                    yield wanted


def locked(root: Path = ROOT) -> dict[tuple[str, str], tuple[str, ...]]:
    """The hashes of requirements.lock, by name and version."""
    lines = (root / "requirements.lock").read_text(encoding="utf-8").splitlines()
    found = [each for line in lines if (each := _LOCKED.fullmatch(line))]
    return {
        (canonicalize_name(each["name"]), each["version"]): tuple(re.findall("[0-9a-f]{64}", each["hashes"]))
        for each in found
    }


def _package(found: Distribution, lock: Mapping[tuple[str, str], tuple[str, ...]]) -> Package:
    about, name = found.metadata, canonicalize_name(found.metadata["Name"])
    return Package(
        found.metadata["Name"],
        found.version,
        (about.get_all("License-Expression") or [None])[0],
        tuple(_licences((about.get_all("License") or [None])[0], about.get_all("Classifier") or [])),
        tuple(found.requires or ()),
        lock.get((name, found.version), ()),
    )


def _licences(field: str | None, classifiers: Iterable[str]) -> Iterator[str]:
    said = (field or "").strip()
    if said and said != "UNKNOWN" and "\n" not in said and len(said) <= _LONGEST:
        yield said
        return
    for each in classifiers:
        kind, _, name = each.rpartition(" :: ")
        if kind.startswith("License"):
            yield name
