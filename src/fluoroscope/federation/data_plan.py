"""The part of a plan that says where the images come from: one source, or one per site."""

from pathlib import Path, PurePath
from typing import Any, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, field_validator, model_serializer, model_validator

from fluoroscope.data import SOURCES
from fluoroscope.data.site_names import client_names, safe_name
from fluoroscope.data.sources import Folders
from fluoroscope.errors import Misconfigured
from fluoroscope.federation.sections import Section


class SitePlan(Section):
    """One hospital, and where its images are."""

    name: str
    source: str = Field(min_length=1)
    batch_size: int | None = Field(default=None, ge=1)
    """None takes the one of the training."""

    @field_validator("name")
    @classmethod
    def _names_a_file(cls, name: str) -> str:
        try:
            safe = safe_name(name)
        except Misconfigured as problem:
            raise ValueError(str(problem).rstrip(".")) from problem
        if name != safe:
            raise ValueError(f"the site {name!r} is also the name of a file; write it as {safe!r}")
        return name


_BY_SITE = "[[data.site]]"
"""Stands for the source of a plan that has one per site: no path and no phantom is called so."""


class DataPlan(Section):
    """Where the images come from: one source, or one per site."""

    source: str = Field(default="phantom/chest", min_length=1)
    size: int | None = Field(default=None, ge=28)
    channels: Literal[1, 3] | None = None
    images: int | None = Field(default=None, ge=1)
    seed: int | None = None
    """Of the phantoms and of samples; None takes the plan's."""
    skip_bad: bool = False
    burn_in: bool = False
    folders: Folders | None = None
    """What the source's subfolders are; None takes them for classes, and asks where they look like sites."""
    site: tuple[SitePlan, ...] = ()
    """In place of `source`; every other key holds for each of them."""

    @property
    def sources(self) -> tuple[str, ...]:
        """All that images are read from."""
        return tuple(site.source for site in self.site) or (self.source,)

    def rooted(self, folder: Path) -> Self:
        """The same with relative paths made absolute, as seen from the folder."""
        sites = tuple(site.model_copy(update={"source": rooted_source(site.source, folder)}) for site in self.site)
        return self.model_copy(update={"source": rooted_source(self.source, folder), "site": sites})

    @model_validator(mode="before")
    @classmethod
    def _one_way_to_say_it(cls, content: Any) -> Any:  # noqa: ANN401  # whatever stands in the file
        if not isinstance(content, dict) or not content.get("site"):
            return content
        if content.get("source", _BY_SITE) != _BY_SITE:
            raise ValueError("data.source and [[data.site]] both say where the images are; keep one of them")
        if content.get("folders") == "sites":
            raise ValueError("data.folders = 'sites' and [[data.site]] both say who the sites are; keep one of them")
        return {**content, "source": _BY_SITE}

    @model_validator(mode="after")
    def _sites_differ(self) -> Self:
        names = [site.name for site in self.site]
        if doubled := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"two [[data.site]] tables are called {doubled[0]!r}; give each its own name")
        try:
            client_names(names)
        except Misconfigured as problem:
            raise ValueError(str(problem).rstrip(".")) from problem
        return self

    @model_serializer(mode="wrap")
    def _as_before(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A plan that says nothing of sites is written as before they could be said: its runs and cells go on."""
        content: dict[str, Any] = handler(self)
        return {key: value for key, value in content.items() if key not in ("folders", "site") or value}


def shown_source(source: str) -> str:
    """The source without the folders above it, which name a user and a server: for what is sent around."""
    kind, colon, location = source.rpartition(":")
    if not location or location in SOURCES or location.startswith("phantom/") or source == _BY_SITE:
        return source
    return f"{kind}{colon}{PurePath(location).name}"


def rooted_source(source: str, folder: Path) -> str:
    """The source with a relative path made absolute, as seen from the folder."""
    kind, colon, location = source.rpartition(":")
    # A misspelt phantom is no path, and neither is what stands for the sites.
    if not location or location in SOURCES or location.startswith("phantom/") or source == _BY_SITE:
        return source
    return f"{kind}{colon}{(folder / location).resolve()}"
