"""Rows that were moved towards single images from the agreed network, by less than shows in what can be read."""

import math

from fluoroscope.defences.guard.isolation import Crowd
from fluoroscope.defences.guard.leak import Leak
from fluoroscope.defences.guard.profile import Other, Profile
from fluoroscope.defences.guard.verdict import Reason

READABLE, MORE = 0.08, 1.15
"""Share of a large batch that has to be read where rows were drawn apart, and how often the agreed network's."""
READABLE_FEW, FAR_FEW = 0.11, 3.0
"""Share of a small batch, where rows were awoken, or an image's share of a row grew so many times: a model may be made
for few images."""
COMBINED, COMBINED_TIMES, GATED = 0.2, 1.3, 0.045
"""Shares of all batches, added up, that have to be read of combinations of rows; how often the agreed network's; and
an image's share of such a row. Honest networks show some images in combinations, and more as they are trained, but
all images go into each; those of a gate are few."""
SINGLE, SINGLE_TIMES, SINGLE_READ = 0.1, 3.0, 0.06
"""An image's share of a combination that only the server knows, how often an honest network's, and the share of the
images that are alone in one, in all layers: honest networks let all images into each, trained ones too."""
DRAWN, DRAWN_TIMES, DIED = 0.045, 1.5, 0.02
"""How much more than in the agreed network images keep rows to themselves, while no more rows than this died."""
FAR, FAR_TIMES = 0.06, 1.6
"""The same, however many rows died: training that puts rows to sleep moves those left by half as much."""
SOLE, SOLE_TIMES, SOLE_READ = 0.5, 3.0, 0.1
"""Share of the rows awake that one image has to itself, how often the agreed network's, and the share of the images
that are read so: where nearly all rows were put to sleep few images are read, and nothing else is left."""
EMPTIED, EMPTIED_SIGMA = 0.04, 3.0
"""Share of the rows that were several images' in the agreed network and are one's now, less those that went the other
way: in all, and beyond what as many rows would do by chance. A few rows of a wide layer hardly move its mean."""
AWOKEN, AWOKEN_SIGMA = 0.1, 2.5
"""Share of the rows that no image woke in the agreed network and some wake now, in all and beyond chance."""


def drawn_apart(found: Profile, agreed: Other) -> list[Reason]:
    """Rows that were moved towards single images from the agreed network, by less than shows in what can be read.

    Training puts rows to sleep, and those left may have fewer images each. It does not wake them: a row that no image
    wakes has no gradient.
    """
    leaks = readable(found)
    known = agreed() if leaks else None
    if known is None:
        return []
    for name, leak in leaks.items():
        base = known.leaks.get(name)
        if leak.crowd is None or base is None or base.crowd is None:
            continue
        now, then = leak.crowd, base.crowd
        chance = AWOKEN_SIGMA * math.sqrt(2 * then.asleep * (1 - then.asleep) / max(leak.units, 1))
        awoken = then.asleep - now.asleep
        more = leak.held * now.concentration - base.held * then.concentration
        started = base.held * then.concentration
        drawn = more >= max(DRAWN, (DRAWN_TIMES - 1) * started) and awoken >= -DIED
        times = FAR_TIMES if _large(leak) >= READABLE else FAR_FEW
        drawn = (drawn and times == FAR_TIMES) or more >= max(FAR, (times - 1) * started)
        drawn = drawn or (now.rows == then.rows and _emptied(now, then))
        more_read = drawn and _read_of(leak) >= MORE * _read_of(base)
        if awoken >= max(AWOKEN, chance) or more_read or _sole(leak, base):
            sentence = (
                f"The rows of {name} were moved towards single images: an image's share of a row is "
                f"{now.concentration:.2f} on the mean, in the agreed network {then.concentration:.2f}; no image wakes "
                f"{now.asleep:.0%} of them, there {then.asleep:.0%}. Training puts rows to sleep, and wakes none."
            )
            numbers = {"concentration": now.concentration, "concentration agreed": then.concentration}
            return [Reason("isolation", name, "refuse", sentence, {**numbers, "rows awoken": awoken})]
    return []


def readable(found: Profile) -> dict[str, Leak]:
    """The layers of which enough can be read to ask how that came about."""
    return {
        name: leak
        for name, leak in found.leaks.items()
        if not leak.undone and (_large(leak) >= READABLE or _few(leak) >= READABLE_FEW)
    }


def _sole(leak: Leak, base: Leak) -> bool:
    """Whether hardly a row is left that several images wake, and more is read of the largest batch for it."""
    if not leak.shares or max(leak.shares) not in base.shares:
        return False
    now, then = (each.shares[max(leak.shares)] for each in (leak, base))
    return now.rows >= max(SOLE, SOLE_TIMES * then.rows) and now.alone >= max(SOLE_READ, MORE * then.alone)


def _emptied(now: Crowd, then: Crowd) -> bool:
    """Whether rows have lost all images but one, row by row: the same rows on the same batch leave little to chance."""
    gone, come = len(now.alone - then.alone), len(then.alone - now.alone)
    died = (
        now.asleep - then.asleep
    ) * now.rows  # training leaves rows to one image, too, and puts more of them to sleep
    return gone - come >= max(EMPTIED * now.rows, EMPTIED_SIGMA * math.sqrt(gone + come), died, 1)


def combined(found: Profile, agreed: Other) -> list[Reason]:
    """Gates deep inside that show single images in combinations of an earlier layer's rows."""
    gated = {
        name: leak
        for name, leak in found.leaks.items()
        if leak.undone
        and not leak.beyond
        and leak.crowd
        and leak.crowd.concentration >= GATED
        and _read(leak) >= COMBINED
    }
    known = agreed() if gated else None
    if known is None:
        return []
    for name, leak in gated.items():
        base = known.leaks.get(name)
        before = _read(base) if base is not None else 0.0
        if _read(leak) >= COMBINED_TIMES * before:
            sentence = (
                f"In a batch of {min(leak.shares)} of your images, {_few(leak):.0%} could be read out of combinations "
                f"of rows that only the server knows: {name}. Over batches of all sizes that is "
                f"{_read(leak) / max(before, 1e-2):.1f} times as much as in the agreed network, and in no way that "
                "training leads to."
            )
            numbers = {"shares that can be read": _read(leak), "in the agreed network": before}
            return [Reason("isolation", name, "refuse", sentence, numbers)]
    return []


def alone_in_combinations(found: Profile, twin: Other, agreed: Other) -> list[Reason]:
    """Combinations of rows that have one image each, where those of honest weights have all of them."""
    single = {
        name: leak.crowd.concentration
        for name, leak in found.leaks.items()
        if leak.undone and leak.crowd and leak.crowd.concentration >= SINGLE and leak.shares
    }
    other = (agreed() or twin()) if sum(_alone(found.leaks[name]) for name in single) >= SINGLE_READ else None
    if other is None:
        return []
    before = {name: other.leaks[name].crowd for name in single if name in other.leaks}
    honest = {name: crowd.concentration if crowd is not None else 0.0 for name, crowd in before.items()}
    beyond = [
        name
        for name, now in single.items()
        if now >= SINGLE_TIMES * honest.get(name, 0.0)
        and (name not in honest or _alone(found.leaks[name]) >= MORE * _alone(other.leaks[name]))
    ]
    alone = sum(_alone(found.leaks[name]) for name in beyond)  # each layer may show a few
    if alone < SINGLE_READ:
        return []
    name = max(beyond, key=lambda each: _alone(found.leaks[each]))
    sentence = (
        f"Up to {alone:.0%} of your images are alone in combinations of rows that only the server knows: {name}, and "
        f"{len(beyond) - 1} other layers. An image's share of one is {single[name]:.2f} on the mean; of honest "
        f"weights, trained or not, it is {honest.get(name, 0.0):.2f}."
    )
    numbers = {"share alone": alone, "concentration": single[name], "honest": honest.get(name, 0.0)}
    return [Reason("isolation", name, "refuse", sentence, numbers)]


def _alone(leak: Leak) -> float:
    """Share that single rows give away, of the largest batch."""
    return leak.shares[max(leak.shares)].alone if leak.shares else 0.0


def _read(leak: Leak) -> float:
    """Shares of batches of all sizes, added up."""
    return sum(reading.apart for reading in leak.shares.values())


def _large(leak: Leak) -> float:
    """Share that can be read of the largest batch."""
    return leak.shares[max(leak.shares)].apart if leak.shares else 0.0


def _few(leak: Leak) -> float:
    """Share that can be read of the smallest batch."""
    return leak.shares[min(leak.shares)].apart if leak.shares else 0.0


def _read_of(leak: Leak) -> float:
    """Shares of all batches but the smallest, added up: few draws of one size say little."""
    return sum(reading.apart for images, reading in leak.shares.items() if images > min(leak.shares))
