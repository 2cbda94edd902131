"""The part of an audit's page for the person who must decide: verdicts, advice, what may be said."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from fluoroscope.findings import Threat
from fluoroscope.findings.metrics import KINDS, metric
from fluoroscope.findings.pointer import pointer
from fluoroscope.report.view import View

WORDS = {"leaks": "Leaks", "holds": "Holds", "unclear": "Unclear", "not tested": "Not tested"}


@dataclass(frozen=True)
class Card:
    """One threat and what was found of it."""

    title: str
    level: str
    word: str
    text: Markup
    attacked: Sequence[str]
    """What a reconstruction's numbers were measured on."""
    intervals: Sequence[Markup]
    stopped_by: str | None


@dataclass(frozen=True)
class LevelRow:
    """One setting, and what was found of each threat under it: (level, word) or None, and why."""

    defence: str
    levels: Sequence[tuple[str, str] | None]
    why: Sequence[tuple[str, Markup]]
    """(threat, sentence)."""


@dataclass(frozen=True)
class Advice:
    """The recommended setting, why, and what it promises."""

    defence: str | None
    text: Markup
    promise: Markup | None


@dataclass(frozen=True)
class Officer:
    """Everything that the first part of the page says."""

    cards: Sequence[Card]
    levels: Sequence[LevelRow]
    """Setting by setting; nothing of findings that do not say."""
    sizes: Sequence[Markup]
    """What was small enough for "holds"."""
    advice: Advice
    threats: Sequence[Threat]
    safe: Sequence[Markup]
    unsafe: Sequence[Markup]
    missing: Sequence[tuple[str, Markup]]
    """What was not measured, and why: (what happened, words)."""


def officer(view: View) -> Officer:
    """The first part of the page."""
    findings = view.audit.findings
    return Officer(
        cards=_cards(view),
        levels=_levels(view),
        sizes=[_size(view, number) for number in range(len(findings.sizes))],
        advice=Advice(
            findings.recommendation.defence,
            view.write.sentence(findings.recommendation.text),
            _promise(view, findings.recommendation.defence),
        ),
        threats=findings.threats,
        safe=[view.write.sentence(text) for text in findings.safe_to_say],
        unsafe=[view.write.sentence(text) for text in findings.not_safe_to_say],
        missing=_missing(view),
    )


def claim(view: View, number: int) -> Markup:
    """What a defence promises, with its numbers."""
    promised = view.audit.findings.defences[number].claim
    said = Markup("{}").format(promised.statement)
    for key, sign in (("epsilon", "ε"), ("delta", "δ")):
        if getattr(promised, key) is not None:
            at = pointer("defences", number, "claim", key)
            said += Markup("; {} = {}").format(sign, view.write.number(at, ".3g"))
    said += Markup(" for each {}").format(promised.unit) if promised.unit else Markup("")
    said += Markup(" ({}, {} DP)").format(promised.relation, promised.trust) if promised.relation else Markup("")
    return Markup('<span class="claim">{}</span>').format(said)


def _cards(view: View) -> list[Card]:
    titles = {threat.name: threat.title for threat in view.audit.findings.threats}
    return [
        Card(
            titles[verdict.threat],
            verdict.level.replace(" ", "-"),
            WORDS[verdict.level],
            view.write.sentence(verdict.text),
            view.attacked(verdict.text),
            view.write.intervals(verdict.text),
            verdict.stopped_by,
        )
        for verdict in view.audit.findings.verdicts
    ]


def _levels(view: View) -> list[LevelRow]:
    titles = {threat.name: threat.title for threat in view.audit.findings.threats}
    verdicts = view.audit.findings.verdicts
    if not any(verdict.levels for verdict in verdicts):
        return []
    rows = []
    for label in view.defences:
        found = [next((each for each in verdict.levels if each.defence == label), None) for verdict in verdicts]
        why = [
            (titles[verdict.threat], view.write.sentence(each.why))
            for verdict, each in zip(verdicts, found, strict=True)
            if each is not None
        ]
        levels = [(each.level.replace(" ", "-"), WORDS[each.level]) if each else None for each in found]
        rows.append(LevelRow(label, levels, why))
    return rows


_OF = {"value": "", "times chance": " times what guessing reaches", "above chance": " above what guessing reaches"}


def _size(view: View, number: int) -> Markup:
    size = view.audit.findings.sizes[number]
    measured = metric(size.metric, size.kind)
    most = view.write.number(pointer("sizes", number, "most"), "g")
    return Markup("{}, {}: {}{}").format(
        KINDS[size.kind].lower(), (measured.in_words or measured.title).lower(), most, _OF[size.of]
    )


def _promise(view: View, label: str | None) -> Markup | None:
    return None if label is None else claim(view, view.defences.index(label))


def _missing(view: View) -> list[tuple[str, Markup]]:
    missing = [("Left out", Markup("{}").format(sentence)) for sentence in view.audit.findings.left_out]
    for i, cell in enumerate(view.audit.findings.cells):
        if cell.status != "done":
            what = Markup("{} under {}").format(KINDS[cell.kind], view.where((i, cell), list(cell.settings)))
            reason = Markup(": {}").format(cell.reason or "no reason was given")
            missing.append((cell.status.capitalize(), what + reason))
    return missing
