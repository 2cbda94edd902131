"""Findings that are at odds with themselves: what each part allows but the whole does not."""

from collections.abc import Iterator, Sequence
from string import Formatter

from pydantic import JsonValue

from fluoroscope.findings.document import GUARD, NO_DEFENCE, Findings, Text
from fluoroscope.findings.metrics import metric_of
from fluoroscope.findings.pointer import resolve


def at_odds(findings: Findings, document: dict[str, JsonValue]) -> Iterator[str]:
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
        *(
            (f"verdicts.{i}.levels.{j}.defence", each.defence, labels)
            for i, verdict in enumerate(findings.verdicts)
            for j, each in enumerate(verdict.levels)
        ),
        ("own", findings.own, labels),
        ("recommendation.defence", findings.recommendation.defence, labels),
    ]
    for key, used, offered in known:
        if used is not None and used not in offered:
            yield f"{key}: {used!r} is none of {', '.join(offered)}"
    for i, cell in enumerate(findings.cells):
        for name, curve in cell.curves.items():
            if len({len(part) for part in (curve.x, curve.y, curve.low, curve.high) if part is not None}) > 1:
                yield f"cells.{i}.curves.{name}: x, y, low and high differ in length"
        for name, score in cell.scores.items():
            said, declared = score.higher_is_leakier, metric_of(cell.kind, name, score).higher_is_leakier
            if said not in (None, declared):
                yield f"cells.{i}.scores.{name}.higher_is_leakier: the metric declares {declared}, not {said}"
    for key, text in texts(findings):
        yield from (f"{key}: {problem}" for problem in _wrong_numbers(text, document))
    for i, verdict in enumerate(findings.verdicts):
        for j, each in enumerate(verdict.levels):
            for k, kind in enumerate(each.kinds):
                if kind.cell not in (None, *ids):
                    yield f"verdicts.{i}.levels.{j}.kinds.{k}.cell: {kind.cell!r} is no cell"


def texts(findings: Findings) -> Iterator[tuple[str, Text]]:
    """Every sentence of the findings with its key."""
    for i, verdict in enumerate(findings.verdicts):
        yield f"verdicts.{i}.text", verdict.text
        for j, each in enumerate(verdict.levels):
            yield f"verdicts.{i}.levels.{j}.why", each.why
            yield from ((f"verdicts.{i}.levels.{j}.kinds.{k}.why", kind.why) for k, kind in enumerate(each.kinds))
    yield "recommendation.text", findings.recommendation.text
    yield from ((f"safe_to_say.{i}", text) for i, text in enumerate(findings.safe_to_say))
    yield from ((f"not_safe_to_say.{i}", text) for i, text in enumerate(findings.not_safe_to_say))


def _wrong_numbers(text: Text, document: dict[str, JsonValue]) -> Iterator[str]:
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
