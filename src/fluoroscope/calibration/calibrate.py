"""Search a defence's setting by attacks, the undefended leak first; then train with it and see what it costs."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fluoroscope.atomic_write import is_private
from fluoroscope.calibration.attackers import Attackers, measure, play, screening
from fluoroscope.calibration.candidates import Candidate, checked
from fluoroscope.calibration.kept import Tried
from fluoroscope.calibration.measured import Measured
from fluoroscope.calibration.points import Calibrated, Parts, Point, Settings
from fluoroscope.calibration.search import Knob, weakest_safe
from fluoroscope.calibration.stage import Stage, stage_of
from fluoroscope.calibration.target import Target
from fluoroscope.defences import Chain, chain
from fluoroscope.digest import digest
from fluoroscope.errors import BadInput
from fluoroscope.federation.plan import DefencePlan, Plan, parse_plan, read_plan
from fluoroscope.federation.privacy import claimed
from fluoroscope.federation.run import federate
from fluoroscope.federation.store import RecordStore
from fluoroscope.federation.task import load_task
from fluoroscope.scenarios.auto_attacks import candidates

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Bench:
    """A federation without the candidate: its records, and where to work."""

    plan: Plan
    store: RecordStore
    out: Path
    accuracy: float | None
    """Without the candidate, on the test images."""


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


def of_patients(path: Path) -> bool:
    """Whether the images behind the records, or of the plan, are of patients, or not known to be phantoms."""
    if path.is_dir():
        rounds = path / "rounds"
        return not rounds.is_dir() or is_private(rounds)
    return not load_task(read_plan(path)).images.synthetic


def stage_for(bench: Bench, how: Settings) -> Stage:
    """Whom the settings are tried on."""
    task = load_task(bench.plan)
    return stage_of(bench.store, task, how.client, how.victims, how.draws, how.public, how.seed)


def check(bench: Bench, candidate: Candidate) -> None:
    """Find before any attack what cannot work."""
    if checked(candidate).not_seen is not None:
        return
    defence = candidate.chain(None if candidate.knob is None else candidate.knob.strong)
    chain(*load_task(bench.plan).defence.parts, *defence.parts)
    if defence.training is not None:
        defence.training.check(load_task(bench.plan).model)


def without_defence(bench: Bench, stage: Stage, how: Settings) -> Measured:
    """What leaks as it is: where that is nothing, there is nothing to calibrate."""
    return _measured(bench, stage, (), load_task(bench.plan).defence, how, how.attackers)


def calibrate(
    bench: Bench, stage: Stage, candidate: Candidate, bare: Measured, how: Settings, weaker: int, tell: Tell
) -> Calibrated:
    """The weakest setting of the candidate that meets the target, trained; and `weaker` unsafe ones for a front.

    Settings are screened by attackers that learn the defence, and by the best one without it. The setting that this
    ends with is the luckiest of many: so it is screened again on other victims, and where it is read, the search goes
    on among stronger ones. What then holds is the edge of what these attackers read with these images; the margin is
    for others, and the setting with the margin meets everybody, chosen by rehearsal there. Who reads it screens too.

    Args:
        bench: the federation.
        stage: whom the settings are tried on.
        candidate: what is searched.
        bare: what leaks without it.
        how: what is safe, and from whom.
        weaker: settings that are not safe and are trained too.
        tell: told what is done.
    """
    search = _Searched(bench, stage, candidate, how, tell, list(screening(how.attackers, bare)))
    confirmed: Point | None = None
    if candidate.knob is None or not search.screen:
        least = None if candidate.knob is None else candidate.knob.strong
        search.points[least] = confirmed = search.everybody(least)
        found: float | None = least if confirmed.safe else None
    else:
        found, confirmed = search.settled(candidate.knob)
    points = search.points
    falling = candidate.knob is not None and candidate.knob.strong < candidate.knob.weak
    unsafe = sorted((v for v, point in points.items() if v is not None and not point.safe), reverse=falling)
    trained = []
    edge = [] if search.unread in (None, found) else [search.unread]
    chosen = [None] if candidate.knob is None else [] if found is None else [found]
    for value in [*_spread(unsafe, weaker), *edge, *chosen]:
        tell(f"{candidate.name}: training with {'it' if value is None else f'{value:.4g}'}")
        trained.append(_priced(bench, points[value]))
    return Calibrated(candidate, found, tuple(points.values()), tuple(trained), confirmed, search.unread)


@dataclass(eq=False)
class _Searched:
    """A search under way: what was asked, and who asks."""

    bench: Bench
    stage: Stage
    candidate: Candidate
    how: Settings
    tell: Tell
    screen: list[str]
    """The attacks that are played at every setting."""
    points: dict[float | None, Point] = field(default_factory=dict)
    refuted: float | None = None
    """The strongest setting that looked safe and was read by somebody on other victims."""
    unread: float | None = None
    """The weakest one that was not, once that is known."""

    def settled(self, knob: Knob) -> tuple[float | None, Point | None]:
        """The weakest value that those who screen read on nobody, with its margin, and what everybody reads there."""
        confirmed: Point | None = None
        while (weakest := weakest_safe(knob, self._safe, self.how.precision).least) is not None:
            if self._goes_on(weakest, self._on_others(weakest)):
                continue
            found = knob.firmer(weakest, self.how.margin)
            if found not in self.points and not self._safe(found) and self._goes_on(found, self.points[found]):
                continue
            confirmed = self.everybody(found)
            if not self._goes_on(found, confirmed):
                self.unread = weakest
                return found, confirmed
        return None, confirmed

    def everybody(self, value: float | None) -> Point:
        """The setting on other victims: under those who screen, and where they read nothing, under all attackers."""
        self.tell(f"{self.candidate.name}: all attackers at {'it' if value is None else f'{value:.4g}'}")
        fresh = self._with_other_victims()
        again, screened = fresh.how, fresh._screened(value)
        if screened.played and not (point := self._point(value, screened)).safe:
            return point
        attackers = again.attackers if again.attackers.rehearsed else everybody(again.attackers)
        found = _measured(self.bench, fresh.stage, self.candidate.at(value), self._chain(value), again, attackers)
        played = {each.attack: each for each in (*screened.played, *found.played)}
        return self._point(value, Measured(tuple(played.values()), {**screened.rehearsed, **found.rehearsed}))

    def _with_other_victims(self) -> "_Searched":
        again = replace(self.how, seed=self.how.seed + 1)
        return replace(self, how=again, stage=stage_for(self.bench, again))

    def _on_others(self, value: float) -> Point:
        """The setting on other victims, under those who screen."""
        self.tell(f"{self.candidate.name}: other victims at {value:.4g}")
        return self._point(value, self._with_other_victims()._screened(value))

    def _goes_on(self, value: float, point: Point) -> bool:
        """Whether somebody reads it after all: neither it nor what is weaker is safe, and who reads it screens too.

        Attacks that were named by hand decide by themselves; what others read is said at the end.
        """
        if point.safe or not self.how.attackers.rehearsed:
            return False
        self.points[value], self.refuted = point, value
        readers = [each.attack for each in point.found.played if not self.how.target.met_by(each)]
        self.screen += [name for name in readers if name not in self.screen]
        return True

    def _safe(self, value: float) -> bool:
        knob = self.candidate.knob
        assert knob is not None  # or nothing would be searched
        if self.refuted is not None and knob.place(value) <= knob.place(self.refuted):
            return False
        self.tell(f"{self.candidate.name}: setting {len(self.points) + 1}, {value:.4g}")
        self.points[value] = self._point(value, self._screened(value))
        return self.points[value].safe

    def _screened(self, value: float | None) -> Measured:
        """By those who screen, until one reads it."""
        found = Measured((), {})
        with tempfile.TemporaryDirectory(prefix="fluoroscope-calibration-") as folder:
            for name in self.screen:
                one = _played(self, value, name, Path(folder))
                found = Measured((*found.played, *one.played), {**found.rehearsed, **one.rehearsed})
                if any(not self.how.target.met_by(each) for each in one.played):
                    break  # one that reads it is enough
        return found

    def _chain(self, value: float | None) -> Chain:
        own = load_task(self.bench.plan).defence
        return chain(*own.parts, *self.candidate.chain(value).parts)

    def _point(self, value: float | None, found: Measured) -> Point:
        why_not = _why_not(found, self.how.target)
        return Point(self.candidate.name, self.candidate.at(value), found, not why_not, why_not)


def everybody(attackers: Attackers) -> Attackers:
    """All attackers that there are, with the same effort."""
    return Attackers({**candidates(), **attackers.attacks}, True, attackers.effort)


def _why_not(found: Measured, target: Target) -> str:
    """Why a setting is not safe; empty where it is."""
    if not found.tested:
        said = "; ".join(f"{name} {words}".rstrip(".") for name, words in found.rehearsed.items())
        return f"not tested: no attack had anything to say ({said or 'none applies'})"
    for each in sorted(found.played, key=lambda each: -each.leak.mean):
        if target.met_by(each):
            continue
        if (needed := target.needed(each)) is not None and not each.leaks:
            return f"{each.victims} victims are too few to show it against {each.attack}: about {needed} are needed"
        return f"{each.attack} reads it"
    return ""


def _measured(
    bench: Bench, stage: Stage, parts: Parts, defence: Chain, how: Settings, attackers: Attackers
) -> Measured:
    """Measured, or read where an earlier run measured the same."""
    key = _key(bench, stage, parts, how, dict(attackers.attacks), attackers.rehearsed, attackers.effort)
    return Tried(bench.out / "tried").once(
        key, lambda: measure(stage, defence, attackers, how.seed, bench.out / "rehearsed")
    )


def _played(search: _Searched, value: float | None, name: str, folder: Path) -> Measured:
    """The same of one attack."""
    stage, how = search.stage, search.how
    attack, defence = how.attackers.attacks.get(name) or candidates()[name], search._chain(value)
    key = _key(search.bench, stage, search.candidate.at(value), how, name, attack)
    kept = Tried(search.bench.out / "tried")
    return kept.once(key, lambda: play(stage, defence, name, attack, how.seed, folder))


def _key(bench: Bench, stage: Stage, parts: Parts, how: Settings, *attackers: object) -> str:
    settings = [[name, dict(given)] for name, given in parts]
    return digest(bench.store.header.fingerprint, stage.content, settings, how.seed, *attackers)


def _priced(bench: Bench, point: Point) -> Point:
    """With the accuracy of a federation trained under it, and the largest epsilon of its clients."""
    added = [DefencePlan.model_validate({"name": name, **settings}) for name, settings in point.parts]
    plan = bench.plan.model_copy(update={"defence": (*bench.plan.defence, *added)})
    values = [f"{key}-{value:.4g}" for _, settings in point.parts for key, value in settings.items()]
    store = federate(plan, bench.out / "with" / "-".join([point.defence, *values]))
    task = load_task(plan)
    entries = store.manifest(max(store.rounds())).clients.values()
    spent = [claimed(task, entry.training, max(store.rounds())).epsilon for entry in entries]
    epsilon = max((value for value in spent if value is not None), default=None)
    return replace(point, accuracy=_accuracy(store), epsilon=epsilon)


def _accuracy(store: RecordStore) -> float | None:
    path = store.folder / "result.json"
    if not path.exists():
        raise BadInput(f"{store.folder} is a run that did not end; run `fluoroscope federate` on its plan again.")
    scored = store.result["last"]
    return None if scored is None else scored["accuracy"]


def _spread(values: Sequence[float], count: int) -> list[float]:
    """So many of them, evenly from the first to the last."""
    if count >= len(values):
        return list(values)
    return [values[round(i * (len(values) - 1) / max(count - 1, 1))] for i in range(count)]
