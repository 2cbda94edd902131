"""The officer's page after its first screen: verdicts, settings, advice, what may be said, what is missing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup

from fluoroscope.findings import GUARD, Threat
from fluoroscope.findings.metrics import KINDS, metric
from fluoroscope.findings.pointer import pointer
from fluoroscope.report.first_screen import accuracy, attacker_title
from fluoroscope.report.grades import FEW, GRADES, MANY, Grade, graded
from fluoroscope.report.view import View


@dataclass(frozen=True)
class Card:
    """One threat and what was found of it."""

    title: Markup
    level: str
    word: Markup
    text: Markup
    attacked: Sequence[str]
    """What a reconstruction's numbers were measured on."""
    intervals: Sequence[Markup]
    stopped_by: str | None

    @property
    def guarded(self) -> bool:
        """Whether it is the clients' guard that stops it, under any setting."""
        return self.stopped_by == GUARD


class Rated(NamedTuple):
    """A threat under one setting."""

    grade: Grade
    level: str
    word: Markup


@dataclass(frozen=True)
class LevelRow:
    """One setting, what was found of each threat under it, why, and what the model is worth."""

    defence: str
    levels: Sequence[Rated | None]
    why: Sequence[tuple[Markup, Markup]]
    """(threat, sentence)."""
    accuracy: Markup | None


@dataclass(frozen=True)
class Advice:
    """The recommended setting, why, and what it promises."""

    defence: str | None
    text: Markup
    promise: Markup | None


@dataclass(frozen=True)
class Officer:
    """Everything that the officer's page says below its first screen."""

    cards: Sequence[Card]
    levels: Sequence[LevelRow]
    """Setting by setting; nothing of findings that do not say."""
    sizes: Sequence[Markup]
    """What was small enough for "holds"."""
    advice: Advice
    threats: Sequence[tuple[Markup, Threat]]
    """What was assumed of each attacker, under its name in plain words."""
    safe: Sequence[Markup]
    unsafe: Sequence[Markup]
    missing: Sequence[tuple[str, Markup]]
    """What was not measured, and why: (what happened, words)."""

    @property
    def accuracy(self) -> bool:
        """Whether any setting's model was measured."""
        return any(row.accuracy for row in self.levels)


def officer(view: View) -> Officer:
    """The officer's page below its first screen."""
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
        threats=[(attacker_title(view, threat.name), threat) for threat in findings.threats],
        safe=[view.write.sentence(text) for text in findings.safe_to_say],
        unsafe=[view.write.sentence(text) for text in findings.not_safe_to_say],
        missing=_missing(view),
    )


def grades_meant(view: View) -> list[tuple[Grade, Markup, Markup]]:
    """Every grade with its word and what it means."""
    sizes = {"few": f"{FEW:.0%}", "many": f"{MANY:.0%}"}
    return [
        (each, view.words.say(f"grade.words.{each}"), view.words.say(f"grade.meaning.{each}", **sizes))
        for each in (*GRADES[1:], GRADES[0])
    ]


def claim(view: View, number: int) -> Markup:
    """What a defence promises, with its numbers."""
    promised = view.audit.findings.defences[number].claim
    said = Markup("{}").format(promised.statement)
    for key, sign in (("epsilon", "ε"), ("delta", "δ")):
        if getattr(promised, key) is not None:
            at = pointer("defences", number, "claim", key)
            said += Markup("; {} = {}").format(sign, view.write.number(at, ".3g"))
    said += Markup(" ") + view.words.say("advice.unit", unit=promised.unit) if promised.unit else Markup("")
    said += Markup(" ({}, {} DP)").format(promised.relation, promised.trust) if promised.relation else Markup("")
    return Markup('<span class="claim">{}</span>').format(said)


def _cards(view: View) -> list[Card]:
    return [
        Card(
            attacker_title(view, verdict.threat),
            verdict.level.replace(" ", "-"),
            view.words.say(f"level.{verdict.level}"),
            view.write.sentence(verdict.text),
            view.attacked(verdict.text),
            view.write.intervals(verdict.text),
            verdict.stopped_by,
        )
        for verdict in view.audit.findings.verdicts
    ]


def _levels(view: View) -> list[LevelRow]:
    verdicts = view.audit.findings.verdicts
    if not any(verdict.levels for verdict in verdicts):
        return []
    rows = []
    for label in view.defences:
        found = [next((each for each in verdict.levels if each.defence == label), None) for verdict in verdicts]
        why = [
            (attacker_title(view, verdict.threat), view.write.sentence(each.why))
            for verdict, each in zip(verdicts, found, strict=True)
            if each is not None
        ]
        levels = [
            None
            if each is None
            else Rated(
                graded(view.audit.findings, verdict, label).grade,
                each.level.replace(" ", "-"),
                view.words.say(f"level.{each.level}"),
            )
            for verdict, each in zip(verdicts, found, strict=True)
        ]
        rows.append(LevelRow(label, levels, why, accuracy(view, label)))
    return rows


def _size(view: View, number: int) -> Markup:
    size = view.audit.findings.sizes[number]
    measured = metric(size.metric, size.kind)
    most = view.write.number(pointer("sizes", number, "most"), "g")
    of = (measured.in_words or measured.title).lower()
    return view.words.say(f"size.{size.of}", kind=KINDS[size.kind].lower(), metric=of, most=most)


def _promise(view: View, label: str | None) -> Markup | None:
    return None if label is None else claim(view, view.defences.index(label))


def _missing(view: View) -> list[tuple[str, Markup]]:
    words = view.words
    left = words.plain("missing.left_out")
    missing = [(left, Markup("{}").format(sentence)) for sentence in view.audit.findings.left_out]
    for i, cell in enumerate(view.audit.findings.cells):
        if cell.status != "done":
            where, reason = view.where((i, cell), list(cell.settings)), cell.reason or words.plain("missing.no_reason")
            said = words.say("missing.under", kind=KINDS[cell.kind], where=where, reason=reason)
            missing.append((words.plain(f"missing.status.{cell.status}"), said))
    return missing
