"""The first figure of an audit's page: where its hospitals stand on the measured map of what leaks."""

from collections.abc import Sequence

from markupsafe import Markup

from fluoroscope.report import frontier as measured_map
from fluoroscope.report.figures import Panel, Point
from fluoroscope.report.frontier import Place, Standing
from fluoroscope.report.page import Picture, Section, Table
from fluoroscope.report.parts import Multiples
from fluoroscope.report.questions import Question
from fluoroscope.report.small_multiples import curves
from fluoroscope.report.view import View

_NAMED = 5
"""Hospitals that have a mark of their own in the figure."""


def frontier_question(view: View) -> Question | None:
    """For the officer: the figure, and a sentence for each hospital, or for those of which the same can be said."""
    found = measured_map.standings(view.audit.findings)
    if not found:
        return None
    words = view.words
    alike: dict[Markup, list[str]] = {}
    for each in found:
        alike.setdefault(sentence(view, each), []).append(each.client)
    rows = [[", ".join(clients), said] for said, clients in alike.items()]
    columns = [words.plain("question.hospital"), words.plain("frontier.there")]
    return Question(words.say("frontier.title"), _introduced(view), [_picture(view, found)], Table(columns, rows))


def frontier_section(view: View) -> Section | None:
    """For the engineer: the same figure, with how each client trains beside the nearest point."""
    found = measured_map.standings(view.audit.findings)
    if not found:
        return None
    said = view.words.plain
    columns = [
        said("question.hospital"), said("frontier.trains"), said("frontier.nearest"), said("frontier.best"),
        said("frontier.distance"),
    ]  # fmt: skip
    rows = [
        [
            each.client,
            place_in_words(view, each.place),
            place_in_words(view, each.nearest.place),
            _best(view, each),
            f"{each.distance:.1f}",
        ]
        for each in found
    ]
    parts = [Multiples([_picture(view, found)]), Table(columns, rows)]
    return Section(view.words.plain("frontier.title"), _introduced(view), parts)


def sentence(view: View, standing: Standing) -> Markup:
    """What was measured where this hospital stands, or nearest to it."""
    words, point = view.words, standing.nearest
    kind = "leaks" if point.beyond else "chance"
    said = words.say(
        f"frontier.{kind}", place=place_in_words(view, point.place), found=point.found, images=point.images
    )
    return said + Markup(" ") + words.say("frontier.off") if standing.off_the_map else said


def place_in_words(view: View, place: Place) -> str:
    """How a client trains, in a line."""
    return view.words.plain(
        "frontier.place",
        steps=place.steps,
        batch=place.images_per_step,
        epochs=place.epochs,
        optimiser=view.words.plain("frontier.momentum") if place.optimiser == "momentum" else place.optimiser,
        size=place.size,
        network=place.network,
        defence=view.words.plain("frontier.undefended") if place.defence == "none" else place.defence,
    )


def _best(view: View, standing: Standing) -> str:
    point = standing.nearest
    kind = "beyond" if point.beyond else "within"
    return view.words.plain(f"frontier.{kind}", attack=point.attack, leak=f"{point.leak:.2f}")


def _introduced(view: View) -> Markup:
    command = Markup("<code>{}</code>").format(measured_map.map_command())
    return view.words.say(
        "frontier.words", points=len(measured_map.measured()), data=measured_map.map_data(), command=command
    )


def _picture(view: View, found: Sequence[Standing]) -> Picture:
    """Images per step against steps of an epoch: measured points of one epoch, and the hospitals."""
    words = view.words
    leaks, chance = words.plain("frontier.leaking"), words.plain("frontier.resisting")
    # A place that was measured under several settings shows what the leakiest gave away.
    places: dict[tuple[int, int], bool] = {}
    for point in measured_map.measured():
        at = (point.place.images_per_step, point.place.steps)
        places[at] = places.get(at, False) or point.beyond
    series = {
        chance: [Point(*at) for at, beyond in places.items() if not beyond],
        leaks: [Point(*at) for at, beyond in places.items() if beyond],
    }
    if len(found) <= _NAMED:
        series |= {each.client: [Point(each.place.images_per_step, each.place.steps)] for each in found}
    else:
        series[words.plain("frontier.hospitals")] = [
            Point(each.place.images_per_step, each.place.steps) for each in found
        ]
    panel = Panel(
        words.plain("frontier.title"), words.plain("frontier.x"), words.plain("frontier.y"), series, log_x=True,
        log_y=True, joined=False,
    )  # fmt: skip
    alt = words.plain("frontier.alt", hospitals=", ".join(each.client for each in found[:_NAMED]))
    return Picture(curves(panel), alt)
