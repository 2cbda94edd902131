"""One line of the ledger: numbers, digests and short names. It has no field that an image, a patient or a path fits."""

import hashlib
import json
import math
import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from fluoroscope.site.decision import Answer
from fluoroscope.site.reading import Leak, Metered
from fluoroscope.site.reasons import known

FORMAT: Literal[1] = 1
NOT_OURS = "A reason that is not written down here, since it is in other words than the ledger's."

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
ShortName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}$")]
Direction = Literal["in", "out"]
Finite = Annotated[float, Field(allow_inf_nan=False)]
START = "0" * 64
"""What stands in the place of the line before the first."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Judged(_Part):
    """What the meter read of one leak; its sentence is not kept."""

    leak: Leak
    value: Finite | None = None
    p_value: Finite | None = None
    attack: ShortName | None = None
    judged: bool


class Inspected(_Part):
    """What the guard said of a model: which checks refused it, and whether images went through it."""

    refused: bool
    ran: bool
    checks: tuple[ShortName, ...] = ()


class Noise(_Part):
    """What an epsilon is counted from, so that it can be counted on after the settings have changed."""

    setting: Digest
    unit: ShortName
    noise_multiplier: Finite | None = None
    """None where the defence does not say what it is counted from."""
    rate: Finite = 1.0
    times: int = 1


class Entry(_Part):
    """One decision. The ledger fills in what links it to the line before: sequence, time, previous, hash."""

    exchange: Digest
    """Which message this is about: the same message has the same, also after a restart."""
    run: ShortName
    round: int
    direction: Direction
    decision: Answer
    reasons: tuple[str, ...] = ()
    before: Digest | None = None
    """Of the model that came in; None where it could not be read."""
    leaving: Digest | None = None
    """Of what may leave, defended; None where nothing does."""
    guard: Inspected | None = None
    meter: tuple[Judged, ...] = ()
    epsilon: Finite | None = None
    """Spent by all that has left, after this decision; None where that has no bound, and of what comes in."""
    noise: Noise | None = None
    format: Literal[1] = FORMAT
    sequence: int = 0
    time: str = Field(default="", pattern=r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z)?$")
    """UTC."""
    previous: Digest = START
    hash: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")

    @field_validator("reasons")
    @classmethod
    def _in_our_words(cls, reasons: tuple[str, ...]) -> tuple[str, ...]:
        """What another part of a program put in other words could hold anything."""
        return tuple(reason if known(reason) else NOT_OURS for reason in reasons)

    @property
    def passes(self) -> bool:
        return self.decision != "withhold"

    def linked(self, sequence: int, time: str, previous: str) -> "Entry":
        """The entry as it stands in the ledger after the line with the hash `previous`."""
        placed = self.model_copy(update={"sequence": sequence, "time": self.time or time, "previous": previous})
        return placed.model_copy(update={"hash": placed.own_hash()})

    def own_hash(self) -> str:
        """SHA-256 over everything but itself."""
        return hashlib.sha256(_canonical(self.model_dump(mode="json", exclude={"hash"}))).hexdigest()

    def line(self) -> bytes:
        """As it is written: one way to write one entry."""
        return _canonical(self.model_dump(mode="json")) + b"\n"


def _canonical(content: dict[str, object]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def exchange_id(run: str, round: int, direction: Direction, *digests: str) -> str:
    """Of a message, by what it is about and what it holds."""
    return hashlib.sha256(json.dumps([run, round, direction, *digests]).encode()).hexdigest()


def short_name(text: str) -> str:
    """The text where it is a short name, else a digest of it: a path or a sentence is no name.

    Example:
        >>> short_name("trap weights"), short_name("/data/anna.png")
        ('trap weights', 'sha256-d75357af940c')
    """
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}", text):
        return text
    return f"sha256-{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:12]}"


def judged(metered: Metered) -> tuple[Judged, ...]:
    """The numbers of a metered update."""
    return tuple(
        Judged(
            leak=reading.leak,
            value=_finite(reading.value),
            p_value=_finite(reading.p_value),
            attack=short_name(reading.attack) if reading.attack else None,
            judged=_finite(reading.value) is not None,
        )
        for reading in metered.readings
    )


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)
