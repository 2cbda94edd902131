"""The tables that a plan is made of."""

from typing import Any

from pydantic import BaseModel, ConfigDict


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
