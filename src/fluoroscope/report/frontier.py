"""The map of what leaks, which examples/frontier/measure.py writes to frontier.json, and clients placed on it."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from fluoroscope.findings import NO_DEFENCE, Findings
from fluoroscope.report.page import resource
from fluoroscope.report.view import setting_today

FAR = 2.0
"""From here on a client is said to lie off the map: four times the images, steps or epochs of the nearest point."""


@dataclass(frozen=True)
class Place:
    """How a client trains, as the axes of the map have it."""

    images_per_step: int
    steps: int
    """Per epoch."""
    epochs: int
    optimiser: str
    size: int
    network: str
    defence: str

    @property
    def images(self) -> int:
        """At most: the last batch of an epoch may be smaller."""
        return self.images_per_step * self.steps


@dataclass(frozen=True)
class Point:
    """A measured place, and the best that all applicable attacks got there."""

    place: Place
    beyond: bool
    """Whether that is more than chance, with an interval and a p-value corrected for the number of attacks."""
    leak: float
    found: int
    images: int
    attacks: int
    """That made a guess."""
    attack: str


@dataclass(frozen=True)
class Standing:
    """A client beside the nearest measured point."""

    client: str
    place: Place
    nearest: Point
    distance: float

    @property
    def off_the_map(self) -> bool:
        return self.distance >= FAR


@cache
def measured() -> tuple[Point, ...]:
    """The points of the map. Where no attack made a guess nothing is known: none fitted its time, or all gave up."""
    return tuple(_point(each) for each in _file()["points"] if each["attacks"])


def map_command() -> str:
    """What measured them."""
    return str(_file()["command"])


def map_data() -> str:
    """On which images."""
    return str(_file()["data"])


def distance(one: Place, other: Place) -> float:
    """In doublings of images per step, steps, epochs and size; another optimiser or network counts as one doubling, and
    another defence as three: what was measured without a defence says little of one.

    Example:
        >>> one = Place(4, 2, 1, "sgd", 64, "resnet18", "none")
        >>> distance(one, Place(8, 2, 1, "adamw", 64, "resnet18", "none"))
        2.0
    """
    numbers = ("images_per_step", "steps", "epochs", "size")
    along = sum(abs(math.log2(getattr(one, name) / getattr(other, name))) for name in numbers)
    return (
        along + (one.optimiser != other.optimiser) + (one.network != other.network) + 3 * (one.defence != other.defence)
    )


def standings(findings: Findings, points: tuple[Point, ...] | None = None) -> list[Standing]:
    """Each client on the map, by the findings' plan; none where the plan does not say how clients train."""
    known = measured() if points is None else points
    found = []
    for client in findings.data.clients:
        place = placed(findings, client.train, client.batch_size)
        if place is None or not known:
            return []
        nearest = min(known, key=lambda point: distance(place, point.place))
        found.append(Standing(client.name, place, nearest, distance(place, nearest.place)))
    return found


def placed(findings: Findings, train: int, batch_size: int | None) -> Place | None:
    """Where a client with so many training images stands; None where the findings do not say how it trains."""
    training, model = findings.plan.get("training"), findings.plan.get("model")
    if not isinstance(training, Mapping) or train < 1:
        return None
    name = model.get("name") or model.get("factory") if isinstance(model, Mapping) else model
    batch = batch_size or _whole(training.get("batch_size"))
    if not batch or not name or not findings.data.size:
        return None
    epochs, steps = _whole(training.get("epochs")) or 1, -(-train // batch)
    if told := _whole(training.get("steps")):  # in the place of epochs
        epochs, steps = max(1, round(told / steps)), min(told, steps)
    return Place(
        min(batch, train), steps, epochs, _optimiser(training), findings.data.size, str(name), _defence(findings)
    )


def _optimiser(training: Mapping[str, Any]) -> str:
    name = str(training.get("optimiser") or training.get("optimizer") or "sgd")
    if name == "adam":  # one step of either shows as much
        return "adamw"
    return "momentum" if name == "sgd" and training.get("momentum") else "sgd" if name == "gradient" else name


def _defence(findings: Findings) -> str:
    today = setting_today(findings)
    if today == NO_DEFENCE:
        return NO_DEFENCE
    parts = next((each.parts for each in findings.defences if each.label == today), ())
    return " + ".join(str(part["name"]) for part in parts if isinstance(part, dict) and "name" in part) or today


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _point(content: Mapping[str, Any]) -> Point:
    names = ("images_per_step", "steps", "epochs", "optimiser", "size", "network", "defence")
    return Point(
        Place(**{name: content[name] for name in names}),
        bool(content["beyond"]),
        content["leak"],
        content["found"],
        content["images"],
        content["attacks"],
        content["attack"],
    )


@cache
def _file() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(resource("frontier.json"))
    return found
