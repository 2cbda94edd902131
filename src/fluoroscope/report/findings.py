"""What an audit wrote down, read back and checked: findings.json, and timing.json beside it.

The schema in words: docs/findings.md. Keys that are not known here are left for other readers.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fluoroscope.errors import BadInput
from fluoroscope.report.pointer import resolve

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


M = TypeVar("M", bound=_Part)


def read_findings(folder: Path) -> Audit:
    """The audit in a folder; a file that is missing, damaged or at odds with itself is named with its key."""
    path = folder / "findings.json"
    document = _json(path, f"{folder} holds no audit. `fluoroscope audit PLAN --out {folder}` writes one.")
    findings = _checked(Findings, document, path)
    for problem in _at_odds(findings, document):
        raise BadInput(f"{path}: {problem}.")
    times = folder / "timing.json"
    timing = _checked(Timing, _json(times, ""), times) if times.exists() else None
    return Audit(folder, findings, document, timing)


def _json(path: Path, missing: str) -> dict[str, Any]:
    if not path.is_file():
        raise BadInput(f"{path} is missing: {missing}")
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError) as problem:  # a UnicodeDecodeError is a ValueError
        raise BadInput(
            f"{path} cannot be read as JSON ({problem}). Write it again with `fluoroscope audit`."
        ) from problem
    if not isinstance(document, dict):
        raise BadInput(f"{path} holds a {type(document).__name__}, not an object with keys.")
    return document


def _checked(model: type[M], document: dict[str, Any], path: Path) -> M:
    if model is Findings and document.get("format") != FORMAT:
        seen = document.get("format")
        raise BadInput(
            f"{path}: format: this version reads format {FORMAT}, not {seen!r}. Run the audit again with it."
        )
    try:
        return model.model_validate(document)
    except ValidationError as problem:
        first = problem.errors()[0]
        key = ".".join(map(str, first["loc"]))
        seen = "" if first["type"] == "missing" else f", not {str(first['input'])[:60]!r}"
        raise BadInput(f"{path}: {key}: {first['msg']}{seen}.") from problem


def _at_odds(findings: Findings, document: dict[str, Any]) -> Iterator[str]:
    """What each part allows but the whole does not."""
    labels = [defence.label for defence in findings.defences]
    threats = [threat.name for threat in findings.threats]
    ids = [cell.id for cell in findings.cells]
    if labels[0] != NO_DEFENCE:
        yield f"defences.0.label: the first is always {NO_DEFENCE!r}, not {labels[0]!r}"
    for key, names in (("defences: label", labels), ("threats: name", threats), ("cells: id", ids)):
        yield from (f"{key} {name!r} occurs twice" for i, name in enumerate(names) if name in names[:i])
    known: list[tuple[str, str | None, Sequence[str]]] = [
        *((f"cells.{i}.defence", cell.defence, labels) for i, cell in enumerate(findings.cells)),
        *((f"cells.{i}.threat", cell.threat, threats) for i, cell in enumerate(findings.cells)),
        *((f"verdicts.{i}.threat", verdict.threat, threats) for i, verdict in enumerate(findings.verdicts)),
        *(
            (f"verdicts.{i}.stopped_by", verdict.stopped_by, [*labels, GUARD])
            for i, verdict in enumerate(findings.verdicts)
        ),
        ("recommendation.defence", findings.recommendation.defence, labels),
    ]
    for key, used, offered in known:
        if used is not None and used not in offered:
            yield f"{key}: {used!r} is none of {', '.join(offered)}"
    for i, cell in enumerate(findings.cells):
        for name, curve in cell.curves.items():
            if len({len(part) for part in (curve.x, curve.y, curve.low, curve.high) if part is not None}) > 1:
                yield f"cells.{i}.curves.{name}: x, y, low and high differ in length"
    for key, text in texts(findings):
        yield from (f"{key}: {problem}" for problem in _wrong_numbers(text, document))


def texts(findings: Findings) -> Iterator[tuple[str, Text]]:
    """Every sentence of the findings with its key."""
    yield from ((f"verdicts.{i}.text", verdict.text) for i, verdict in enumerate(findings.verdicts))
    yield "recommendation.text", findings.recommendation.text
    yield from ((f"safe_to_say.{i}", text) for i, text in enumerate(findings.safe_to_say))
    yield from ((f"not_safe_to_say.{i}", text) for i, text in enumerate(findings.not_safe_to_say))


def _wrong_numbers(text: Text, document: dict[str, Any]) -> Iterator[str]:
    try:
        parsed = [found for found in Formatter().parse(text.text) if found[1] is not None]
    except ValueError as problem:
        yield f"the text {text.text!r} cannot be filled in ({problem})"
        return
    places = {name for _, name, _, _ in parsed}
    if places != {str(i) for i in range(len(text.numbers))} or any(how or turned for _, _, how, turned in parsed):
        yield f"the text {text.text!r} needs the places {{0}}, {{1}} ... for its {len(text.numbers)} numbers alone"
    for i, number in enumerate(text.numbers):
        try:
            value = resolve(document, number.pointer)
            if value is not None:
                format(value + 0, number.format)  # a sentence's number is one: + 0 is none of a text's powers
        except LookupError as problem:
            yield f"numbers.{i}.pointer: {problem.args[0]}"
        except (TypeError, ValueError) as problem:
            yield f"numbers.{i}: {number.pointer!r} cannot be written as {number.format!r} ({problem})"
