"""The first screen of an audit's page: whether it is safe, for whom, one picture, what to change, what was not seen."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from fluoroscope.findings import GUARD, NO_DEFENCE, Kind, Verdict
from fluoroscope.findings.claims import refuted
from fluoroscope.findings.pointer import pointer
from fluoroscope.report.grades import GRADES, Grade, Graded, graded, graded_today, worst
from fluoroscope.report.how_sure import how_sure
from fluoroscope.report.reference import reference_command, standing
from fluoroscope.report.rules import RISK_RULES, rule_of
from fluoroscope.report.strip import Strip, strip
from fluoroscope.report.view import View, setting_today

_SAID = 2
"""Sentences of what may be said that stand on the first screen; all of them follow below."""


@dataclass(frozen=True)
class Attacker:
    """One attacker in one sentence, with its grade."""

    title: Markup
    who: Markup | None
    sentence: Markup
    grade: Grade
    word: Markup
    sure: Markup | None
    """How often it was measured, and its interval."""
    then: tuple[Grade, Markup] | None
    """The grade under what helps against it, and what that is."""
    beside: Markup | None
    """How it compares with known federations."""


@dataclass(frozen=True)
class FirstScreen:
    """What a reader sees without scrolling."""

    grade: Grade
    """The worst attacker's, today."""
    answer: Markup
    remarks: Sequence[Markup]
    attackers: Sequence[Attacker]
    picture: Strip | None
    change: Sequence[Markup]
    safe: Sequence[Markup]
    unsafe: Sequence[Markup]
    unseen: Sequence[Markup]
    beside: Markup | None
    """What the known federations are, where one is compared with them."""


def first_screen(view: View) -> FirstScreen:
    """The first screen."""
    findings, today = view.audit.findings, setting_today(view.audit.findings)
    found = [(verdict, graded_today(findings, verdict, today)) for verdict in findings.verdicts]
    attackers = [_attacker(view, verdict, of) for verdict, of in found]
    broken = _broken(view, today)
    beside = None
    if any(each.beside for each in attackers):
        compared = [standing(of.kind.kind, of.gain or 0.0) for _, of in found if of.kind]
        most = max(each.all for each in compared if each)
        command = Markup("<code>{}</code>").format(reference_command())
        beside = view.words.say("reference.note", all=most, command=command)
    return FirstScreen(
        grade="E" if broken else worst(of.grade for _, of in found),
        answer=view.words.say(f"answer.{_answer(found)}"),
        remarks=[*_remarks(view, today), *broken],
        attackers=attackers,
        picture=strip(view, today),
        change=_change(view, today),
        safe=[view.write.sentence(text) for text in findings.safe_to_say[:_SAID]],
        unsafe=[view.write.sentence(text) for text in findings.not_safe_to_say[:_SAID]],
        unseen=_unseen(view),
        beside=beside,
    )


def _answer(found: Sequence[tuple[Verdict, Graded]]) -> str:
    levels = {verdict.level for verdict, _ in found}
    if "leaks" in levels:
        leaking = [of.kind for verdict, of in found if verdict.level == "leaks"]
        grave = any(kind is None or rule_of(kind.kind).severity == "critical" for kind in leaking)
        return "critical" if grave else "leaks"
    if levels <= {"not tested"}:
        return "untested"
    return "holds" if levels == {"holds"} else "unclear"


def _remarks(view: View, today: str) -> list[Markup]:
    said = [view.words.say("answer.none") if today == NO_DEFENCE else view.words.say("answer.setting", setting=today)]
    return [*said, *([view.words.say("answer.phantoms")] if view.audit.findings.data.synthetic else [])]


def _broken(view: View, today: str) -> list[Markup]:
    cells = view.done("claim")
    broken = dict.fromkeys(cell.defence for _, cell in cells if refuted(cell) and cell.defence == today)
    return [view.words.say("answer.refuted", setting=label) for label in broken]


def _attacker(view: View, verdict: Verdict, of: Graded) -> Attacker:
    words, who = view.words, f"attacker.who.{verdict.threat}"
    return Attacker(
        title=attacker_title(view, verdict.threat),
        who=words.say(who) if who in words else None,
        sentence=sentence(view, verdict, of),
        grade=of.grade,
        word=words.say(f"grade.words.{of.grade}"),
        sure=None if of.cell is None else how_sure(view, of.cell),
        then=_then(view, verdict, of),
        beside=_beside(view, of),
    )


def attacker_title(view: View, name: str) -> Markup:
    """An attacker in plain words; one that the catalogue does not know as the findings call it."""
    key = f"attacker.{name}"
    if key in view.words:
        return view.words.say(key)
    titles = (threat.title for threat in view.audit.findings.threats if threat.name == name)
    return Markup("{}").format(next(titles, name))


def sentence(view: View, verdict: Verdict, of: Graded) -> Markup:
    """One sentence without an acronym: what the kind of attack that decides got, with its numbers."""
    level, kind = (verdict.level if of.kind is None else of.kind.level), of.kind.kind if of.kind else None
    group = level.replace("not tested", "untested")
    cell = None if of.cell is None else view.audit.findings.cells[of.cell]
    numbers = {} if cell is None or of.cell is None else _numbers(view, of.cell, kind)
    key = f"{group}.{kind}"
    if (group, kind) == ("leaks", "reconstruction") and cell:
        found = cell.scores.get("found")
        key += "" if cell.attacked != "stand-ins" else "-stand-ins"
        key = key if found and found.value else "leaks.reconstruction-nobody"
    if key not in view.words or not _filled(view, key, numbers):
        key = f"{group}.other"
    return view.words.say(key, **numbers)


_SHOWN: dict[str, str] = {
    "found": ".0f", "images": ".0f", "recovered": ".0f", "told_apart": ".0%", "auc": ".0%", "accuracy": ".0%",
    "error": ".0%", "error_public": ".0%",
}  # fmt: skip
_CHANCE: dict[Kind, str] = {
    "reconstruction": "told_apart", "client-inference": "auc", "membership": "auc", "source": "accuracy",
}  # fmt: skip


def _numbers(view: View, place: int, kind: Kind | None) -> dict[str, Markup]:
    scores = view.audit.findings.cells[place].scores
    found = {
        name: view.write.number(pointer("cells", place, "scores", name, "value"), how)
        for name, how in _SHOWN.items()
        if name in scores and scores[name].value is not None
    }
    found["client"] = _hospital(view, view.audit.findings.cells[place].settings.get("client"))
    judged = _CHANCE.get(kind) if kind else None
    if judged in scores and scores[judged].chance is not None:
        found["chance"] = view.write.number(pointer("cells", place, "scores", judged, "chance"), ".0%")
    return found


def _hospital(view: View, client: object) -> Markup:
    """A hospital by its name, with how many images it trains on: of few each one counts most."""
    for place, each in enumerate(view.audit.findings.data.clients):
        if each.name == client:
            images = view.write.number(pointer("data", "clients", place, "train"), ".0f")
            if each.train == 1:
                return view.words.say("setting.client_of_one", client=each.name, images=images)
            return view.words.say("setting.client_of", client=each.name, images=images)
    return Markup("{}").format(client if isinstance(client, str) else view.words.plain("setting.client"))


def _filled(view: View, key: str, numbers: dict[str, Markup]) -> bool:
    try:
        view.words.say(key, **numbers)
    except KeyError:
        return False
    return True


def _then(view: View, verdict: Verdict, of: Graded) -> tuple[Grade, Markup] | None:
    """The best grade that something gives which was tried: the recommended setting, or what stops this attacker."""
    findings = view.audit.findings
    label = findings.recommendation.defence or (None if verdict.stopped_by == GUARD else verdict.stopped_by)
    if label is None and verdict.stopped_by != GUARD:
        return None
    better = graded(findings, verdict, label or setting_today(findings)).grade
    if better == "?" or GRADES.index(better) >= GRADES.index(of.grade):
        return None
    guarded = verdict.stopped_by == GUARD
    by = view.words.say("grade.guard") if guarded or label is None else Markup("“{}”").format(label)
    return better, view.words.say("grade.then_words", setting=by)


def _beside(view: View, of: Graded) -> Markup | None:
    if of.kind is None or of.gain is None or of.kind.level not in ("leaks", "holds"):
        return None
    where = standing(of.kind.kind, of.gain)
    if where is None:
        return None
    if where.below:
        return view.words.say("reference.more", below=where.below, all=where.all)
    return view.words.say("reference.least", all=where.all)


def _change(view: View, today: str) -> list[Markup]:
    """What would help, and what it costs."""
    words, findings = view.words, view.audit.findings
    said, best = [], findings.recommendation.defence
    leaking = [each for each in findings.verdicts if each.level == "leaks" and each.stopped_by != GUARD]
    if best is not None and best != NO_DEFENCE:
        said += [words.say("change.use", setting=best), _price(view, best)]
    elif leaking:
        said.append(words.say("change.nothing"))
        nearest = _nearest(view, leaking, today)
        if nearest is not None:
            left = worst(graded(findings, verdict, nearest).grade for verdict in leaking)
            said += [words.say("change.nearest", setting=nearest, grade=left), _price(view, nearest)]
    elif not any(each.level == "leaks" for each in findings.verdicts):
        said.append(words.say("change.needless"))
    if any(each.stopped_by == GUARD for each in findings.verdicts):
        place = next((i for i, cell in view.done("guard") if {"refused", "clients"} <= set(cell.scores)), None)
        if place is not None:
            refused, clients = (
                view.write.number(pointer("cells", place, "scores", name, "value"), ".0f")
                for name in ("refused", "clients")
            )
            said.append(words.say("change.guard", refused=refused, clients=clients))
    if leaking and best in (None, NO_DEFENCE):
        return [*said, words.say("change.next")]
    if any(each.level == "leaks" for each in findings.verdicts):
        return [*said, words.say("change.next_use")]
    return [*said, words.say("change.next_keep")]


def _nearest(view: View, leaking: Sequence[Verdict], today: str) -> str | None:
    """The setting that leaves least where nothing stops all: by its worst grade, then by what was got."""

    def left(label: str) -> tuple[int, float]:
        found = [graded(view.audit.findings, verdict, label) for verdict in leaking]
        return max(GRADES.index(of.grade) for of in found), sum(of.gain or 0.0 for of in found)

    tried = [label for label in view.defences if label != today and _is_told(leaking, label)]
    best = min(tried, key=left, default=None)
    return best if best is not None and left(best) < left(today) else None


def _is_told(leaking: Sequence[Verdict], label: str) -> bool:
    levels = [each for verdict in leaking for each in verdict.levels if each.defence == label]
    return bool(levels) and all(each.level != "not tested" and each.kinds for each in levels)


def accuracy(view: View, label: str) -> Markup | None:
    """The share of right diagnoses of the model that was trained under a setting."""
    for place, cell in view.done("federation"):
        if cell.defence == label and "accuracy" in cell.scores and cell.scores["accuracy"].value is not None:
            return view.write.number(pointer("cells", place, "scores", "accuracy", "value"), ".0%")
    return None


def _price(view: View, label: str) -> Markup:
    before, after = accuracy(view, NO_DEFENCE), accuracy(view, label)
    if before is None or after is None:
        return view.words.say("change.unknown")
    if before.striptags() == after.striptags():
        return view.words.say("change.free", after=after)
    return view.words.say("change.price", before=before, after=after)


def _unseen(view: View) -> list[Markup]:
    words, findings = view.words, view.audit.findings
    said = []
    tried = {cell.kind for cell in findings.cells if cell.status == "done"}
    kinds = [rule.id for rule in RISK_RULES if rule.id not in tried and f"unseen.kind.{rule.id}" in words]
    if kinds:
        named = Markup("; ").join(words.say(f"unseen.kind.{kind}") for kind in kinds)
        said.append(words.say("unseen.kinds", kinds=named))
    clients = {str(cell.settings.get("client")) for _, cell in view.done("reconstruction")}
    if 0 < len(clients) < len(findings.data.clients):
        said.append(words.say("unseen.clients", tried=len(clients), all=len(findings.data.clients)))
    missing = sum(cell.status != "done" for cell in findings.cells)
    if missing:
        said.append(words.say("unseen.cells", count=missing, all=len(findings.cells)))
    return [*said, words.say("unseen.always")]
