"""Search a defence's setting by attacks on records, then train with it and see what it costs."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fluoroscope import strict_json
from fluoroscope.attacks import Attack
from fluoroscope.calibration.knobs import OTHERS, knob_of
from fluoroscope.calibration.leak import Evidence, Leak, evidence_of, leak
from fluoroscope.calibration.search import Knob, weakest_safe
from fluoroscope.calibration.target import Target
from fluoroscope.defences import DEFENCES, Chain
from fluoroscope.digest import digest
from fluoroscope.errors import BadInput
from fluoroscope.federation.plan import DefencePlan, Plan, parse_plan, read_plan
from fluoroscope.federation.privacy import claimed
from fluoroscope.federation.run import federate
from fluoroscope.federation.settings import build_defences, current_names
from fluoroscope.federation.store import RecordStore
from fluoroscope.federation.task import load_task
from fluoroscope.scores.intervals import Interval

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """How calibration measures."""

    target: Target
    attacks: Mapping[str, Attack]
    """Safe is what is safe from each of them."""
    client: str | None = None
    draws: int = 4
    """Defended updates attacked at each setting."""
    precision: float = 0.1
    seed: int = 0


@dataclass(frozen=True)
class Point:
    """One setting of one defence: what leaks, and, where a federation was trained with it, what it costs."""

    defence: str
    settings: Mapping[str, Any]
    leak: Leak
    safe: bool
    attack: str
    """Of which the leak is: the first that is not safe, else the one that comes nearest to it."""
    accuracy: float | None = None
    epsilon: float | None = None

    def plain(self) -> dict[str, Any]:
        """As data."""
        return {
            "defence": self.defence,
            **self.settings,
            "rdlv": self.leak.rdlv.mean,
            "rdlv_low": self.leak.rdlv.low,
            "rdlv_high": self.leak.rdlv.high,
            "ssim": self.leak.ssim.mean,
            "by": self.attack,
            "safe": self.safe,
            "test_accuracy": self.accuracy,
            "epsilon": self.epsilon,
        }


@dataclass(frozen=True)
class Calibrated:
    """A search that is over."""

    defence: str
    setting: str
    least: float | None
    """None where the strongest setting does not meet the target either."""
    tried: tuple[Point, ...]
    """In the order in which they were asked; each is one attack."""
    trained: tuple[Point, ...] = ()
    """Those that a federation was trained with, the weakest safe one last."""

    @property
    def chosen(self) -> Point | None:
        return self.trained[-1] if self.trained and self.least is not None else None


@dataclass(frozen=True, eq=False)
class Bench:
    """A federation without the defence: its records, and where to work."""

    plan: Plan
    store: RecordStore
    out: Path
    accuracy: float | None
    """Without the defence, on the test images."""


def open_bench(path: Path, out: Path, tell: Tell) -> Bench:
    """From a folder of records, or from a plan, which is trained first."""
    if path.is_dir():
        store = RecordStore(path)
        plan = parse_plan(store.header.plan)
    else:
        plan = read_plan(path)
        tell("training without the defence")
        store = federate(plan, out / "without")
    return Bench(plan, store, out, _accuracy(store))


def check(bench: Bench, name: str, given: Mapping[str, Any]) -> None:
    """Find before any attack what cannot work."""
    knob, given = knob_of(name), current_names(DEFENCES.get(name), f"defence {name}", given)
    if knob.setting in given:
        raise BadInput(f"{name}:{knob.setting} is what is searched for; leave it out.")
    defence = build_defences([(name, {**OTHERS.get(name, {}), **given, knob.setting: _value(knob, knob.strong)})])
    if defence.training is not None:
        defence.training.check(load_task(bench.plan).model)


def calibrate(bench: Bench, name: str, given: Mapping[str, Any], how: Settings, weaker: int, tell: Tell) -> Calibrated:
    """The weakest setting of the defence that meets the target, trained; and `weaker` unsafe ones for a front."""
    knob = knob_of(name)
    others = {**OTHERS.get(name, {}), **current_names(DEFENCES.get(name), f"defence {name}", given)}
    task = load_task(bench.plan)
    evidence = evidence_of(bench.store, task, how.client, how.draws)
    points: dict[float, Point] = {}

    def safe(value: float) -> bool:
        settings = {**others, knob.setting: _value(knob, value)}
        tell(f"{name}: attack {len(points) + 1}, {knob.setting} = {value:.4g}")
        points[value] = _point(bench, evidence, name, settings, how)
        return points[value].safe

    search = weakest_safe(knob, safe, how.precision)
    found = Calibrated(name, knob.setting, search.least, tuple(points.values()))
    unsafe = sorted((v for v, point in points.items() if not point.safe), reverse=knob.strong < knob.weak)
    chosen = _spread(unsafe, weaker) + ([search.least] if search.least is not None else [])
    trained = []
    for value in chosen:
        tell(f"{name}: training with {knob.setting} = {value:.4g}")
        trained.append(_priced(bench, points[value]))
    return replace(found, trained=tuple(trained))


def front(points: Sequence[Point]) -> list[Point]:
    """Those that no other beats: in the upper bound of the leak, in accuracy and in epsilon."""

    def costs(point: Point) -> tuple[float, float, float]:
        accuracy = -1.0 if point.accuracy is None else point.accuracy
        return point.leak.rdlv.high, -accuracy, float("inf") if point.epsilon is None else point.epsilon

    def beaten(point: Point) -> bool:
        mine = costs(point)
        return any(
            all(a <= b for a, b in zip(costs(other), mine, strict=True)) and costs(other) != mine for other in points
        )

    return [point for point in points if not beaten(point)]


def _value(knob: Knob, value: float) -> float:
    return int(value) if knob.whole else value


def without_defence(bench: Bench, how: Settings) -> dict[str, Leak]:
    """What each attack reaches on the records as they are: where that is nothing, there is nothing to calibrate."""
    evidence = evidence_of(bench.store, load_task(bench.plan), how.client, how.draws)
    return {
        name: _measured(bench, evidence, "no defence", {}, Chain(), attack, how) for name, attack in how.attacks.items()
    }


def _point(bench: Bench, evidence: Evidence, name: str, settings: Mapping[str, Any], how: Settings) -> Point:
    """Attack after attack, until one of them is not stopped."""
    found = []
    for attack_name, attack in how.attacks.items():
        measured = _measured(bench, evidence, name, settings, build_defences([(name, settings)]), attack, how)
        safe = how.target.met_by(_scored(measured, how))
        found.append(Point(name, settings, measured, safe, attack_name))
        if not safe:
            return found[-1]
    return max(found, key=lambda point: _scored(point.leak, how).high)


def _scored(measured: Leak, how: Settings) -> Interval:
    return measured.rdlv if how.target.metric == "rdlv" else measured.ssim


def _measured(
    bench: Bench,
    evidence: Evidence,
    name: str,
    settings: Mapping[str, Any],
    defence: Chain,
    attack: Attack,
    how: Settings,
) -> Leak:
    """Measured, or read where an earlier run measured the same."""
    key = digest(bench.store.header.fingerprint, evidence.client, name, dict(settings), attack, how.draws, how.seed)
    kept = bench.out / "tried" / f"{key[:24]}.json"
    if kept.exists():
        read = json.loads(kept.read_text())
        return Leak(Interval(**read["rdlv"]), Interval(**read["ssim"]), read["reconstructions"])
    found = leak(evidence, defence, attack, how.draws, how.seed)
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(strict_json.dumps(asdict(found)))
    return found


def _priced(bench: Bench, point: Point) -> Point:
    """With the accuracy of a federation trained under it, and the largest epsilon of its clients."""
    added = DefencePlan.model_validate({"name": point.defence, **point.settings})
    plan = bench.plan.model_copy(update={"defence": (*bench.plan.defence, added)})
    values = "-".join(f"{key}-{value:.4g}" for key, value in point.settings.items())
    store = federate(plan, bench.out / "with" / f"{point.defence}-{values}")
    task = load_task(plan)
    entries = store.manifest(max(store.rounds())).clients.values()
    spent = [claimed(task, entry.training, max(store.rounds())).epsilon for entry in entries]
    epsilon = max((value for value in spent if value is not None), default=None)
    return replace(point, accuracy=_accuracy(store), epsilon=epsilon)


def _accuracy(store: RecordStore) -> float | None:
    path = store.folder / "result.json"
    if not path.exists():
        raise BadInput(f"{store.folder} is a run that did not end; run `fluoroscope federate` on its plan again.")
    scored = json.loads(path.read_text())["last"]
    return None if scored is None else scored["accuracy"]


def _spread(values: Sequence[float], count: int) -> list[float]:
    """So many of them, evenly from the first to the last."""
    if count >= len(values):
        return list(values)
    return [values[round(i * (len(values) - 1) / max(count - 1, 1))] for i in range(count)]
