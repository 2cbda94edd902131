"""Epsilon over all that has left a site, counted from its ledger.

All releases count, of every run: the patients are the same, and a run's name is the server's to choose.
"""

from collections.abc import Sequence

from fluoroscope.defences import Chain, Participation
from fluoroscope.defences.accounting import epsilon, sampled_gaussian
from fluoroscope.digest import digest
from fluoroscope.federation.client_round import buffers_moved
from fluoroscope.site.entry import Entry, Noise
from fluoroscope.types import LocalTraining, UpdateRecord


def noise_of(defence: Chain, record: UpdateRecord) -> Noise | None:
    """What one release of this record counts as; None where nothing is promised that holds against the server."""
    once = _participation(record.training, record, 1)
    claim = defence.claim(once)
    if claim.epsilon is None or claim.trust != "local" or claim.unit is None:
        return None
    counted = defence.counted(once)
    if counted is None:
        return Noise(setting=digest(repr(defence.parts), repr(once)), unit=claim.unit)
    return Noise(
        setting=digest(repr(counted), claim.unit, claim.relation),
        unit=claim.unit,
        noise_multiplier=counted.noise_multiplier,
        rate=counted.rate,
        times=counted.times,
    )


def spent(
    entries: Sequence[Entry], noise: Noise | None, defence: Chain, record: UpdateRecord, delta: float
) -> float | None:
    """Epsilon at `delta` after this release and all before it; None where it has no bound."""
    left = [entry.noise for entry in entries if entry.direction == "out" and entry.passes]
    earlier = [each for each in left if each is not None]
    if noise is None or len(earlier) < len(left):  # something left without a promise
        return None
    if all(each.setting == noise.setting for each in earlier):
        claim = defence.claim(_participation(record.training, record, len(earlier) + 1))
        if claim.delta is not None and claim.delta <= delta:
            return claim.epsilon
    return _composed([*earlier, noise], delta)


def spent_before(entries: Sequence[Entry]) -> float | None:
    """Epsilon of what has left so far."""
    left = [entry.epsilon for entry in entries if entry.direction == "out" and entry.passes]
    return left[-1] if left else 0.0


def _composed(all_noise: Sequence[Noise], delta: float) -> float | None:
    """Of releases with different noise, or at another delta than the defence's."""
    if any(each.noise_multiplier is None or each.unit != all_noise[0].unit for each in all_noise):
        return None
    import dp_accounting  # where something is counted: a site without a defence needs none of it

    events = [sampled_gaussian(each.noise_multiplier or 0.0, each.rate, each.times) for each in all_noise]
    return epsilon(dp_accounting.ComposedDpEvent(events), delta)


def _participation(training: LocalTraining, record: UpdateRecord, rounds: int) -> Participation:
    return Participation(training, rounds, open_buffers=buffers_moved(record))
