"""Findings that somebody answers for: `accepted.toml`, with an owner, a reason and a day on which it ends."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator, model_validator

from fluoroscope.federation.sections import Section, parse_as, read_toml
from fluoroscope.report.risks import Risk

Accepted = Literal["leaks", "unclear", "not tested"]


class Acceptance(Section):
    """One finding, as it was when somebody accepted it."""

    id: str = Field(pattern=r"^[a-z-]+-[0-9a-f]{8}$")
    level: Accepted
    """What was accepted: a finding that has become worse, or another, is not."""
    owner: str = Field(min_length=1)
    reason: str = Field(min_length=1)
    expires: date
    """The last day on which it counts."""

    @field_validator("level", mode="before")
    @classmethod
    def _as_options_say_it(cls, value: object) -> object:
        return value.replace("-", " ") if isinstance(value, str) else value

    @field_validator("owner", "reason")
    @classmethod
    def _says_something(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("accepted: an owner and a reason need words")
        return value.strip()

    @field_validator("expires", mode="before")
    @classmethod
    def _is_a_day(cls, value: object) -> object:
        if isinstance(value, datetime) or not isinstance(value, date):
            raise ValueError(f"accepted: expires takes a day such as 2027-01-31, not {value!r}")
        return value


class AcceptedFile(Section):
    """The whole file."""

    accepted: tuple[Acceptance, ...] = ()

    @model_validator(mode="after")
    def _once(self) -> "AcceptedFile":
        ids = [each.id for each in self.accepted]
        if doubled := [name for i, name in enumerate(ids) if name in ids[:i]]:
            raise ValueError(f"accepted: {doubled[0]} occurs twice")
        return self


@dataclass(frozen=True)
class Review:
    """Which findings are accepted today, and what is to be said of acceptances that do nothing."""

    accepted: Mapping[str, Acceptance]
    """By the finding's id."""
    remarks: tuple[str, ...] = ()


NOTHING_ACCEPTED = Review({})


def read_accepted(path: Path) -> tuple[Acceptance, ...]:
    """The acceptances of a file.

    Raises:
        BadInput: the file cannot be read.
        Misconfigured: a key or a value is wrong or missing; it is named.
    """
    return parse_as(AcceptedFile, read_toml(path, "list of accepted findings"), str(path)).accepted


def review(risks: Sequence[Risk], acceptances: Sequence[Acceptance], today: date) -> Review:
    """Hold the acceptances against all findings of an audit."""
    known = {risk.id: risk for risk in risks}
    counted = {each.id: each for each in acceptances if next(_wrong(each, known, today), None) is None}
    return Review(counted, tuple(remark for each in acceptances for remark in _wrong(each, known, today)))


def _wrong(each: Acceptance, known: Mapping[str, Risk], today: date) -> Iterator[str]:
    risk = known.get(each.id)
    if risk is None:
        yield f"{each.id} is accepted, and is no finding of this audit: its setting has changed, or it is gone."
        return
    if each.expires < today:
        yield f"{each.id} was accepted until {each.expires}: that is over, and it counts again."
    if risk.level == "holds":
        yield f"{each.id} is accepted, and holds now: the acceptance can be taken out."
    elif risk.level != each.level:
        yield f"{each.id} was accepted as {each.level}, and is now: {risk.level}. That counts again."
