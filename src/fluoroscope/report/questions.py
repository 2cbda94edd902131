"""The officer's figures: each answers the question that is its title, and is not there where nothing was measured."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from fluoroscope.findings import NO_DEFENCE, Kind
from fluoroscope.findings.pointer import pointer
from fluoroscope.report.figures import Panel, Point
from fluoroscope.report.page import Picture, Table
from fluoroscope.report.small_multiples import Dot, Dots, curves, dots
from fluoroscope.report.traced import NOTHING
from fluoroscope.report.view import Placed, View, leakiest

_GOT: tuple[tuple[Kind, str], ...] = (
    ("reconstruction", "told_apart"), ("membership", "auc"), ("client-inference", "auc"),
)  # fmt: skip
"""What is drawn against accuracy: the gravest that was measured under more than one setting."""


@dataclass(frozen=True)
class Question:
    """A question, how to read its answer, and the answer."""

    title: Markup
    words: Markup
    pictures: Sequence[Picture] = ()
    table: Table | None = None


def questions(view: View) -> list[Question]:
    """The questions that this audit answers."""
    return [each for each in (_price(view), _claim(view), _found(view)) if each is not None]


def _price(view: View) -> Question | None:
    """What the leakiest cell got under each setting, against the model's accuracy."""
    trained = {
        cell.defence: cell.scores["accuracy"] for _, cell in view.done("federation") if "accuracy" in cell.scores
    }
    for kind, name in _GOT:
        series: dict[str, list[Point]] = {}
        for label in view.defences:
            worst = leakiest([placed for placed in view.done(kind) if placed[1].defence == label], name)
            right = trained.get(label)
            if worst is not None and right is not None and right.value is not None:
                value, low, high = worst[1].value, worst[1].low, worst[1].high
                ends = (float("nan") if end is None else end for end in (value, low, high))
                series[_called(view, label)] = [Point(right.value, *ends)]
        if len(series) > 1:
            words, y_label = view.words, view.words.plain(f"question.price_y.{kind}")
            panel = Panel(
                words.plain("question.price"), words.plain("question.price_x"), y_label, series, joined=False,
                y_range=(-0.03, 1.03),
            )  # fmt: skip
            alt = words.plain("question.price_alt", y=y_label, settings=", ".join(series))
            drawn = Picture(curves(panel, order=[_called(view, label) for label in view.defences]), alt)
            return Question(words.say("question.price"), words.say("question.price_words", y=y_label), [drawn])
    return None


def _claim(view: View) -> Question | None:
    """What is promised for a round beside what canaries prove of it."""
    words = view.words
    series: dict[str, list[Dot]] = {words.plain("question.promised"): [], words.plain("question.proved"): []}
    for _, cell in view.done("claim"):
        for name, shown in zip(("epsilon", "epsilon_lower"), series.values(), strict=True):
            score = cell.scores.get(name)
            if score is not None and score.value is not None and cell.defence not in {dot.category for dot in shown}:
                shown.append(Dot(cell.defence, score.value, score.low, score.high))
    present = [
        label for label in view.defences if any(dot.category == label for each in series.values() for dot in each)
    ]
    if not present:
        return None
    drawn = dots(Dots(words.plain("question.claim"), words.plain("question.claim_label"), present, series))
    alt = words.plain("question.claim_alt", settings=", ".join(present))
    return Question(words.say("question.claim"), words.say("question.claim_words"), [Picture(drawn, alt)])


def _found(view: View) -> Question | None:
    """How many patients were told apart, by hospital and setting: of several rounds and attacks the most."""
    cells = [placed for placed in view.done("reconstruction") if {"found", "images"} <= set(placed[1].scores)]
    if not cells:
        return None
    clients = list(dict.fromkeys(str(cell.settings.get("client")) for _, cell in cells))
    labels = [label for label in view.defences if any(cell.defence == label for _, cell in cells)]
    rows: list[list[object]] = [
        [client, *(_found_of(view, [p for p in cells if _is(p, client, label)]) for label in labels)]
        for client in clients
    ]
    columns = [view.words.plain("question.hospital"), *(_called(view, label) for label in labels)]
    return Question(
        view.words.say("question.found"), view.words.say("question.found_words"), table=Table(columns, rows)
    )


def _called(view: View, label: str) -> str:
    """A setting as an officer would call it."""
    return view.words.plain("setting.none") if label == NO_DEFENCE else label


def _is(placed: Placed, client: str, label: str) -> bool:
    return (str(placed[1].settings.get("client")), placed[1].defence) == (client, label)


_SIGNIFICANT = 0.05
_DRAWN = 16
"""Patients who have a dot each; of more the numbers say it."""


def _found_of(view: View, cells: Sequence[Placed]) -> Markup:
    worst = leakiest(cells, "found")
    if worst is None:
        return Markup(NOTHING)
    place, score = worst
    found, images = (
        view.write.number(pointer("cells", place, "scores", name, "value"), ".0f") for name in ("found", "images")
    )
    p_value = view.audit.findings.cells[place].scores.get("p_value")
    chance = p_value is not None and p_value.value is not None and p_value.value > _SIGNIFICANT
    said = view.words.say("question.by_chance" if chance else "question.of", found=found, images=images)
    many = view.audit.findings.cells[place].scores["images"].value or 0.0
    if chance or not 0 < many <= _DRAWN:
        return said
    taken = round(score.value or 0.0)
    each = Markup("").join(
        Markup('<i class="{}"></i>').format("taken" if i < taken else "") for i in range(round(many))
    )
    return Markup('<span class="people" aria-hidden="true">{}</span> {}').format(each, said)
