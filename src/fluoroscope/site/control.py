"""Both ways through the site's door: a model is inspected when it comes in, an update is measured before it leaves.

Flower mods, the supernode, NVFlare's and MONAI's filters are adapters around this one class: they turn a message into
two states, and a decision into their framework's way of saying no. Whatever cannot be read is withheld.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from torch import Tensor

from fluoroscope.defences.guard import inspect
from fluoroscope.defences.guard.digest import digest
from fluoroscope.site.decision import Decision
from fluoroscope.site.entry import Direction, Inspected, Noise, exchange_id, judged, short_name
from fluoroscope.site.examination import Examined, examine, guard_images
from fluoroscope.site.guard_history import read_history, write_history
from fluoroscope.site.ledger import Entry, Ledger
from fluoroscope.site.noise_key import noise_key
from fluoroscope.site.policy import Policy
from fluoroscope.site.reading import Metered, Reading, not_judged
from fluoroscope.site.reasons import failure, sentence
from fluoroscope.site.spending import noise_of, spent, spent_before
from fluoroscope.site.subject import Subject as Subject
from fluoroscope.types import State


@dataclass(frozen=True, eq=False)
class Outgoing:
    """An update at the door."""

    decision: Decision
    state: dict[str, Tensor]
    """What may leave: defended where the site has a defence. Empty where it is withheld."""
    metered: Metered


@dataclass(frozen=True, eq=False)
class SiteControl:
    """One site's door."""

    policy: Policy
    ledger: Ledger
    subject: Subject
    kept: Path | None = None
    """Where what the meter learned is kept for the next time."""

    def receive(self, state: State, *, run: str, round: int) -> Decision:
        """Whether this model may be trained here. The decision is in the ledger when this returns.

        Args:
            state: the model as it came.
            run: the federation's own name or number.
            round: the round's number.
        """
        try:
            try:
                seen = digest(state)
                exchange = exchange_id(str(run), round, "in", seen)
            except Exception as problem:  # a message of any kind may have come
                return self._unreadable("in", run, round, problem)
            earlier = self.ledger.find(exchange)
            if earlier is not None:
                return _said(earlier)
            guard, decision = self._inspected(state)
            return _said(
                self.ledger.append(
                    Entry(
                        exchange=exchange,
                        run=short_name(str(run)),
                        round=round,
                        direction="in",
                        before=seen,
                        guard=guard,
                        decision=decision.answer,
                        reasons=decision.reasons,
                    )
                )
            )
        except Exception as problem:  # what is not in the ledger does not pass
            return Decision("withhold", (failure("ledger_failed", problem),))

    def release(self, before: State, after: State, *, run: str, round: int) -> Outgoing:
        """Whether this update may leave, and in what form. The decision is in the ledger when this returns.

        Args:
            before: the global model that the client was sent.
            after: what it would send back: all arrays, or less where something stays here.
            run: the federation's own name or number.
            round: the round's number.
        """
        try:
            try:
                seen, exchange = _exchange(before, after, run, round)
            except Exception as problem:  # a message of any kind may have come
                return Outgoing(self._unreadable("out", run, round, problem), {}, not_judged("It could not be read."))
            earlier = self.ledger.find(exchange)
            if earlier is not None and not earlier.passes:
                return Outgoing(_said(earlier), {}, _remembered(earlier))
            before_now = None if earlier is None else _remembered(earlier)
            found = self._examined(before, after, exchange, before_now)
            leaving = None if found.refused else digest(found.leaving)

            def decided(entries: Sequence[Entry]) -> Entry:
                decision, noise, epsilon = self._decided(found, entries)
                return Entry(
                    exchange=exchange,
                    run=short_name(str(run)),
                    round=round,
                    direction="out",
                    before=seen,
                    leaving=leaving if decision.passes else None,
                    meter=judged(found.metered),
                    epsilon=epsilon if decision.passes else spent_before(entries),
                    noise=noise if decision.passes else None,
                    decision=decision.answer,
                    reasons=decision.reasons,
                )

            kept = self.ledger.settle(exchange, decided)
            if kept.passes and kept.leaving != leaving:
                kept = self._another_copy(kept, leaving or found.refused)
            return Outgoing(_said(kept), found.leaving if kept.passes else {}, found.metered)
        except Exception as problem:  # what is not in the ledger does not pass
            why = failure("ledger_failed", problem)
            return Outgoing(Decision("withhold", (why,)), {}, not_judged("It could not be decided."))

    def _examined(self, before: State, after: State, exchange: str, metered: Metered | None) -> Examined:
        key = partial(noise_key, self.ledger.path, exchange)
        return examine(self.subject, before, after, key, self.policy.site.seconds, self.kept, metered)

    def _inspected(self, state: State) -> tuple[Inspected | None, Decision]:
        try:
            history = read_history(self.ledger.path)
            verdict = inspect(state, self.subject.network, guard_images(self.subject), history=history)
            if verdict.accepted:
                write_history(self.ledger.path, history.after(verdict.measured))
            checks = dict.fromkeys(short_name(r.check) for r in verdict.reasons if r.severity == "refuse")
            said = Inspected(refused=verdict.refused, ran=verdict.ran, checks=tuple(checks))
            return said, self.policy.admits(verdict)
        except Exception as problem:  # what cannot be judged does not pass, whatever stopped it
            return None, Decision("withhold", (failure("failed", problem, part="guard"),))

    def _decided(self, found: Examined, entries: Sequence[Entry]) -> tuple[Decision, Noise | None, float | None]:
        if found.refused:
            return Decision("withhold", (found.refused,)), None, None
        try:
            noise, epsilon = None, None
            if found.record is not None and self.subject.defence.parts:
                noise = noise_of(self.subject.defence, found.record)
                delta = self.policy.privacy.delta
                epsilon = spent(entries, noise, self.subject.defence, found.record, delta)
            return self.policy.decide(found.metered, epsilon), noise, epsilon
        except Exception as problem:  # a budget that cannot be counted is spent
            return Decision("withhold", (failure("failed", problem, part="policy"),)), None, None

    def unreadable(self, direction: Direction, problem: Exception, *, run: str, round: int) -> Decision:
        """What an adapter could not even make two states of does not pass, and stands in the ledger.

        Args:
            direction: which way it went.
            problem: why it could not be read; its kind alone is written down.
            run: the federation's own name or number.
            round: the round's number.
        """
        try:
            return self._unreadable(direction, run, round, problem)
        except Exception as failed:  # what is not in the ledger does not pass
            return Decision("withhold", (failure("ledger_failed", failed),))

    def _unreadable(self, direction: Direction, run: str, round: int, problem: Exception) -> Decision:
        entry = Entry(
            exchange=exchange_id(str(run), round, direction, "unreadable"),
            run=short_name(str(run)),
            round=round,
            direction=direction,
            decision="withhold",
            reasons=(failure("unreadable", problem),),
        )
        return _said(self.ledger.append(entry))

    def _another_copy(self, kept: Entry, copy: str) -> Entry:
        """The same update twice with other noise would be less noise."""
        entry = Entry(
            exchange=exchange_id(kept.exchange, kept.round, "out", copy),
            run=kept.run,
            round=kept.round,
            direction="out",
            before=kept.before,
            decision="withhold",
            reasons=(sentence("another_copy"),),
        )
        return self.ledger.append(entry)


def _exchange(before: State, after: State, run: str, round: int) -> tuple[str, str]:
    """The digest of the model before, and the exchange's name."""
    seen = digest(before)
    return seen, exchange_id(str(run), round, "out", seen, digest(after))


def _said(entry: Entry) -> Decision:
    """What stands in the ledger is the answer."""
    return Decision(entry.decision, entry.reasons)


def _remembered(entry: Entry) -> Metered:
    """The readings of a decision that was made before."""
    return Metered(
        tuple(
            Reading(each.leak, each.value, "Read before; the ledger has its numbers.", each.attack or "", each.p_value)
            for each in entry.meter
        )
    )
