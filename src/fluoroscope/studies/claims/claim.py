"""A claim of a paper as data: where it stands, whose rows speak to it, and the rule that decides."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from fluoroscope.errors import BadInput
from fluoroscope.studies.claims.rule import Rule

Of = Literal["only", "mean", "sum", "min", "max"]


class Selector(BaseModel):
    """A number out of a study's rows."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    measure: str
    rows: dict[str, Any] = {}
    """Settings that a row must have; a list allows any of its values."""
    of: Of = "only"
    """What several rows come to. `only` takes one row, and two are an error of the claim's."""


class Claim(BaseModel):
    """One sentence of a paper."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    id: str
    paper: Literal["P1", "P2", "P3", "P4"]
    where: str
    what: str
    theirs: str
    """Their number, as they print it; of a plot, what the text says of it."""
    study: str
    values: dict[str, Selector] = {}
    rules: tuple[str, ...] = ()
    """All must hold: `a > b`, `a <= 0.5`, `a > 2 * b`, `a within 0.1 of b`."""
    each: str | None = None
    """A setting: the rules are asked of every one of its values by itself."""
    at_least: int | None = None
    """Of those, so many must agree; None: all."""
    not_here: str = ""
    """Why it cannot be reproduced here; then there are no rules."""
    why: str = ""
    """Where ours differs: the reason, in a sentence."""

    @model_validator(mode="after")
    def _can_be_judged(self) -> Self:
        if bool(self.rules) == bool(self.not_here):
            raise ValueError("a claim has rules, or says in not_here why it has none")
        for text in self.rules:
            unknown = Rule.parse(text).names - set(self.values)
            if unknown:
                raise ValueError(f"the rule {text!r} names {sorted(unknown)}, which no value has")
        return self


@cache
def claims() -> tuple[Claim, ...]:
    """All of them, in the order of the papers.

    Example:
        >>> sorted({claim.paper for claim in claims()})
        ['P1', 'P2', 'P3', 'P4']
    """
    folder = files("fluoroscope.studies.claims")
    found = []
    for name in ("p1", "p2", "p3", "p4"):
        text = (folder / f"{name}.toml").read_text(encoding="utf-8")
        found += [parsed(each) for each in tomllib.loads(text)["claim"]]
    return tuple(found)


def parsed(data: dict[str, Any]) -> Claim:
    """One claim of a file.

    Raises:
        BadInput: a key is missing or unknown, or a rule names no value.
    """
    try:
        return Claim.model_validate(data)
    except ValidationError as problem:
        first = problem.errors()[0]
        raise BadInput(f"the claim {data.get('id')!r} cannot be read ({first['msg']}).") from problem
