"""What an audit writes down: findings.json, and timing.json beside it.

The schema in words: docs/findings.md. Keys that are not known here are left for other readers. A key that was not set
is not written, so what was read is written again as it was.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

FORMAT: Final = 2
"""2: a null beside every score, a level for every setting, attacks that gave up. Files of format 1 are read."""
NO_DEFENCE = "none"
GUARD = "guard"
"""Stops a threat beside any setting: the clients look at a model before they train it."""
Kind = Literal[
    "federation", "reconstruction", "crafted-model", "guard", "client-inference", "membership", "source",
    "label-counts", "metrics", "claim",
]  # fmt: skip
Status = Literal["done", "gave up", "failed", "left out"]
"""`gave up`: the attack ran and says itself that it found nothing to work on. That is no result."""
End = Literal["low", "high"]
Level = Literal["leaks", "holds", "unclear", "not tested"]
Attacked = Literal["recorded update", "stand-ins"]
"""What a curious server attacked: the update that left the client, or updates of other patients in its place."""

Role = Literal["best", "runner-up"]
"""What the rehearsal said of an attack that was then played."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class Number(_Part):
    """A number of a sentence: where it was found, and how it is written."""

    pointer: str
    format: str = Field(default=".3g", pattern=r"^[+ -]?,?(\.\d{1,2})?[deEfFgG%]?$")
    """Python's, without a width: a sentence is no place for a million digits."""


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
    parts: tuple[JsonValue, ...] = ()
    claim: Claim


class Threat(_Part):
    """Who attacks, and what that person was assumed to know."""

    name: str
    title: str
    assumed: tuple[str, ...] = ()
    can: tuple[str, ...] = ()
    cannot: tuple[str, ...] = ()


class Size(_Part):
    """The most that the worse end of a score's interval may be where a setting is said to hold."""

    kind: Kind
    metric: str
    most: float
    of: Literal["value", "times chance", "above chance"] = "value"


class KindLevel(_Part):
    """The part that one kind of attack has in such a level, and the cell that decided it."""

    kind: Kind
    level: Level
    why: Text
    cell: str | None = None
    """Its id; None: no attack of this kind applies."""


class SettingLevel(_Part):
    """What the audit says of one threat under one setting, and why."""

    defence: str
    level: Level
    why: Text
    kinds: tuple[KindLevel, ...] = ()
    """Kind by kind; none in files of versions that did not say."""


class Verdict(_Part):
    """What the audit says of one threat: under the federation's own defences where it has some, else under none."""

    threat: str
    level: Level
    text: Text
    stopped_by: str | None = None
    levels: tuple[SettingLevel, ...] = ()
    """Setting by setting; none in files of format 1."""


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
    """As the metric declares it (findings/metrics.py)."""

    def end(self, which: End) -> float | None:
        """An end of the interval."""
        return self.low if which == "low" else self.high


class Curve(_Part):
    """Points to be drawn, with a band where they have one."""

    x: tuple[int | float | None, ...]
    y: tuple[float | None, ...]
    low: tuple[float | None, ...] | None = None
    high: tuple[float | None, ...] | None = None
    x_label: str
    y_label: str


class Shown(_Part):
    """One reconstruction beside its original; paths are relative to the folder."""

    original: str
    reconstruction: str
    prior: str | None = None
    caption: str
    scores: dict[str, float | None] = Field(default_factory=dict)


class GuardVerdict(_Part):
    """What the guard of one client said of the model that it was sent."""

    client: str
    refused: bool
    reasons: tuple[str, ...] = ()


class RehearsedAttack(_Part):
    """One attack that `auto` could choose: how it did on clients simulated from public images, or why it did not."""

    attack: str
    applies: bool
    reason: str | None = None
    """Why it does not apply, gave up or was left out, or how it was cut."""
    role: Role | None = None
    """None: it was not played on the real update."""
    leak: Score | None = None
    """In the rehearsal; so are the next two."""
    told_apart: Score | None = None
    p_value: float | None = None
    played: Score | None = None
    """Its leak on the real victims."""


class Finding(_Part):
    """What one cell found, as its `run` returns it and the store of cells keeps it. Keys of other versions are refused:
    such a cell is run again."""

    model_config = ConfigDict(extra="forbid")

    scores: dict[str, Score] = Field(default_factory=dict)
    curves: dict[str, Curve] = Field(default_factory=dict)
    gallery: tuple[Shown, ...] = ()
    verdicts: tuple[GuardVerdict, ...] = ()
    claim: Claim | None = None
    """Of the defences of the federation that was trained."""
    attacked: Attacked | None = None
    gave_up: str | None = None
    """Why an attack had nothing to say of some victims; `scores` say of how many. Without other scores: of all."""
    rehearsed: tuple[RehearsedAttack, ...] = ()
    """Where the attack was chosen by rehearsal: all that there are."""


class Cell(_Part):
    """One thing that was tried, whether it worked or not."""

    id: str
    kind: Kind
    threat: str | None = None
    defence: str
    settings: dict[str, JsonValue] = Field(default_factory=dict)
    status: Status
    reason: str | None = None
    """Why there is no result; of one that is done, why the attack gave up on some victims."""
    attacked: Attacked | None = None
    """None: it is no reconstruction, has no result, or is of a version that did not say."""
    scores: dict[str, Score] = Field(default_factory=dict)
    curves: dict[str, Curve] = Field(default_factory=dict)
    gallery: tuple[Shown, ...] = ()
    verdicts: tuple[GuardVerdict, ...] = ()
    rehearsed: tuple[RehearsedAttack, ...] = ()
    """Where the attack was chosen by rehearsal: all that there are."""


class Findings(_Part):
    """Everything that an audit found."""

    format: Literal[1, 2]
    title: str
    seed: int
    preset: str | None = None
    plan: dict[str, JsonValue]
    versions: dict[str, str]
    data: Data
    defences: tuple[Defence, ...] = Field(min_length=1)
    threats: tuple[Threat, ...]
    verdicts: tuple[Verdict, ...]
    sizes: tuple[Size, ...] = ()
    """What was small enough for "holds"; none in files of format 1."""
    own: str | None = None
    """The label of the federation's own setting; None: it has no defence, or is of a version that did not say."""
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
    document: dict[str, JsonValue]
    """findings.json as it stands: what pointers point into."""
    timing: Timing | None
