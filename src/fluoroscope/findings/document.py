"""What an audit writes down: findings.json, and timing.json beside it.

The schema in words: docs/findings.md. Keys that are not known here are left for other readers.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

FORMAT = 1
NO_DEFENCE = "none"
GUARD = "guard"
"""Stops a threat beside any setting: the clients look at a model before they train it."""
Kind = Literal["federation", "reconstruction", "crafted-model", "guard", "client-inference", "membership", "source"]
Level = Literal["leaks", "holds", "unclear", "not tested"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class Number(_Part):
    """A number of a sentence: where it was found, and how it is written."""

    pointer: str
    format: str = ".3g"


class Text(_Part):
    """A sentence with places {0}, {1} for numbers that are findings."""

    text: str
    numbers: tuple[Number, ...] = ()


class Client(_Part):
    """One hospital."""

    name: str
    train: int
    validation: int
    batch_size: int | None = None


class Data(_Part):
    """What was trained on."""

    name: str
    licence: str
    synthetic: bool
    images: int
    size: int
    classes: tuple[str, ...]
    clients: tuple[Client, ...]


class Claim(_Part):
    """What a defence promises."""

    epsilon: float | None = None
    delta: float | None = None
    unit: str | None = None
    statement: str
    relation: str | None = None
    trust: str | None = None


class Defence(_Part):
    """A setting that was audited."""

    label: str
    parts: tuple[Any, ...] = ()
    claim: Claim


class Threat(_Part):
    """Who attacks, and what that person was assumed to know."""

    name: str
    title: str
    assumed: tuple[str, ...] = ()
    can: tuple[str, ...] = ()
    cannot: tuple[str, ...] = ()


class Verdict(_Part):
    """What the audit says of one threat."""

    threat: str
    level: Level
    text: Text
    stopped_by: str | None = None


class Recommendation(_Part):
    """The defence to use, and why."""

    defence: str | None
    text: Text


class Score(_Part):
    """A value, the ends of its interval, and what guessing would reach."""

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    chance: float | None = None
    higher_is_leakier: bool | None = None


class Curve(_Part):
    """Points to be drawn, with a band where they have one."""

    x: tuple[float | None, ...]
    y: tuple[float | None, ...]
    low: tuple[float | None, ...] | None = None
    high: tuple[float | None, ...] | None = None
    x_label: str
    y_label: str


class Shown(_Part):
    """One reconstruction beside its original; paths are relative to the folder."""

    original: str
    prior: str | None = None
    reconstruction: str
    caption: str
    scores: dict[str, float | None] = Field(default_factory=dict)


class GuardVerdict(_Part):
    """What the guard of one client said of the model that it was sent."""

    client: str
    refused: bool
    reasons: tuple[str, ...] = ()


class Cell(_Part):
    """One thing that was tried, whether it worked or not."""

    id: str
    kind: Kind
    threat: str | None = None
    defence: str
    settings: dict[str, Any] = Field(default_factory=dict)
    status: Literal["done", "failed", "left out"]
    reason: str | None = None
    scores: dict[str, Score] = Field(default_factory=dict)
    curves: dict[str, Curve] = Field(default_factory=dict)
    gallery: tuple[Shown, ...] = ()
    verdicts: tuple[GuardVerdict, ...] = ()


class Findings(_Part):
    """Everything that an audit found."""

    format: Literal[1]
    title: str
    seed: int
    preset: str | None = None
    plan: dict[str, Any]
    versions: dict[str, str]
    data: Data
    defences: tuple[Defence, ...] = Field(min_length=1)
    threats: tuple[Threat, ...]
    verdicts: tuple[Verdict, ...]
    recommendation: Recommendation
    safe_to_say: tuple[Text, ...] = ()
    not_safe_to_say: tuple[Text, ...] = ()
    cells: tuple[Cell, ...]
    left_out: tuple[str, ...] = ()


class Timing(_Part):
    """Seconds: the one thing that differs between two runs of one seed."""

    seconds: dict[str, float]
    total: float
    machine: str
    budget_minutes: float | None = None


@dataclass(frozen=True)
class Audit:
    """A folder that `fluoroscope audit` wrote."""

    folder: Path
    findings: Findings
    document: dict[str, Any]
    """findings.json as it stands: what pointers point into."""
    timing: Timing | None
