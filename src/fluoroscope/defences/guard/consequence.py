"""What follows from a model: whether its update would show single images, beyond what honest networks show.

A number is compared with that of a twin (the same layers with fresh weights, on the same batch) and with that of the
agreed network. Wide dense layers leak by themselves; what is refused is what leaks more than they do.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from fluoroscope.defences.guard.isolation import NOTHING
from fluoroscope.defences.guard.leak import Leak
from fluoroscope.defences.guard.profile import Profile
from fluoroscope.defences.guard.verdict import Reason, Severity

Other = Callable[[], Profile | None]

BEYOND_TWIN, BEYOND_TWIN_ALONE, BEYOND_AGREED = 0.3, 0.36, 0.2
"""Share of the images that can be read, above a twin's (the second where nothing is agreed), and above the agreed
network's. Training moves it less."""
BEYOND_ALL = 0.4
"""Above the agreed network's in the largest batch: refused whatever a twin shows, which keeps what is not learnt."""
SPARSE, SPARSE_TIMES, SPARSE_BEYOND, SPARSE_BATCH = 0.3, 3.0, 0.12, 32
"""Share of the rows that one image has to itself, and how often a twin's; less has to be read then to be refused."""
LEAKY, LARGE_BATCH = 0.95, 64
"""A share of a large batch that is refused for what it is where nothing was agreed, whoever made the network."""
READABLE, MORE = 0.08, 1.15
"""Share of a large batch that has to be read where rows were drawn apart, and how often the agreed network's."""
READABLE_FEW, FAR_FEW = 0.11, 3.0
"""Share of a small batch, where rows were awoken, or an image's share of a row grew so many times: a model may be made
for few images."""
COMBINED, COMBINED_TIMES, GATED = 0.2, 1.3, 0.045
"""Shares of all batches, added up, that have to be read of combinations of rows; how often the agreed network's; and
an image's share of such a row. Honest networks show some images in combinations, and more as they are trained, but
all images go into each; those of a gate are few."""
DRAWN, DRAWN_TIMES, DIED = 0.045, 1.5, 0.02
"""How much more than in the agreed network images keep rows to themselves, while no more rows than this died."""
FAR, FAR_TIMES = 0.06, 1.6
"""The same, however many rows died: training that puts rows to sleep moves those left by half as much."""
AWOKEN, AWOKEN_SIGMA = 0.1, 2.5
"""Share of the rows that no image woke in the agreed network and some wake now, in all and beyond chance."""
TOKENS, TOKENS_BEYOND = 0.15, 0.1
OWNED, OWNED_BEYOND, OWNED_IMAGES = 0.9, 0.3, 8
FISHED, FISHED_BEYOND = 10.0, 5.0
SILENT, SUSPECT = 1e-3, 0.05
"""Of the agreed network's gradient: what is left is nothing; and below what this is asked at all."""
ALIVE = 0.01
"""Of a twin's gradient: less gets through a network that has died, by one image or another."""


def consequence(found: Profile, twin: Other, agreed: Other) -> list[Reason]:
    """Refuses what would hand over images.

    Args:
        found: of the model.
        twin: the same of a twin; asked where it matters.
        agreed: the same of the agreed network; None where none was given that runs.
    """
    return [
        *_reading(found, twin, agreed),
        *_drawn_apart(found, agreed),
        *_combined(found, agreed),
        *_tokens(found, twin, agreed),
        *_owned(found, twin, agreed),
        *_silent(found, agreed),
    ]


def _reading(found: Profile, twin: Other, agreed: Other) -> list[Reason]:
    readable = [gap for gap in gaps(found, None) if gap.share >= SPARSE_BEYOND]
    if not any(gap.share >= BEYOND_TWIN or gap.rows >= SPARSE for gap in readable):
        return []
    known = agreed()
    above = {gap.place: gap.beyond for gap in gaps(found, known)}
    far = [gap for gap in gaps(found, known) if known is not None and gap.largest and gap.beyond >= BEYOND_ALL]
    if far:
        return [
            _reason("isolation", max(far, key=lambda gap: gap.beyond), "refuse", "of the agreed network, few could")
        ]
    if max(above.values()) < SPARSE_BEYOND:
        return [_noted(readable)]
    beside = [
        gap
        for gap in gaps(found, twin())
        if (_plain(gap, found.images, known) and above[gap.place] >= BEYOND_AGREED)
        or (gap.sparse and above[gap.place] >= SPARSE_BEYOND and (known is not None or gap.clear == 1))
    ]
    if beside:
        worst = max(beside, key=lambda gap: gap.beyond)
        beside_it = f"with fresh weights in the same layers it would be {worst.other:.0%}"
        return [_reason("isolation", worst, "refuse", beside_it)]
    most = max(readable, key=lambda gap: (gap.images, gap.share))
    if known is None and most.share >= LEAKY and most.images >= LARGE_BATCH:
        return [
            _reason("isolation", most, "refuse", "honest networks of this kind leak as much, and should not be used")
        ]
    return [_noted(readable)]


def _noted(readable: list["Gap"]) -> Reason:
    most = max(readable, key=lambda gap: (gap.images, gap.share))
    return _reason("singling out", most, "note", "an honest network of this kind shows about as many")


def _plain(gap: "Gap", images: int, agreed: Profile | None) -> bool:
    """Beyond a twin by more than training moves it; where nothing is agreed, small batches say too little."""
    if agreed is not None:
        return gap.beyond >= BEYOND_TWIN
    return gap.clear * gap.beyond >= BEYOND_TWIN_ALONE and gap.images >= min(SPARSE_BATCH, images)


@dataclass(frozen=True)
class Gap:
    """How much more can be read of a layer than of another's, in batches of one size."""

    place: tuple[str, int, str]
    share: float
    other: float
    rows: float
    other_rows: float
    clear: float = 1.0
    largest: bool = False
    """Of the largest batch that was drawn."""

    @property
    def layer(self) -> str:
        return self.place[0]

    @property
    def images(self) -> int:
        return self.place[1]

    @property
    def beyond(self) -> float:
        return self.share - self.other

    @property
    def sparse(self) -> bool:
        """Rows that were made to fire for single images, even where not all images meet one."""
        many = self.rows >= max(SPARSE, SPARSE_TIMES * self.other_rows)
        return many and self.beyond >= SPARSE_BEYOND and self.images >= SPARSE_BATCH


def gaps(found: Profile, other: Profile | None) -> list[Gap]:
    """For every layer and batch size, what single rows give away, and rows or differences."""
    made = []
    for name, leak in found.leaks.items():
        base = other.leaks.get(name) if other is not None else None
        for images, reading in leak.shares.items():
            same = (base.shares.get(images) if base is not None else None) or NOTHING
            rest = (reading.rows, same.rows, leak.clear, images == max(leak.shares))
            made.append(Gap((name, images, "alone"), reading.alone, same.alone, *rest))
            made.append(Gap((name, images, "apart"), reading.apart, same.apart, *rest))
    return made


def _reason(check: str, gap: Gap, severity: Severity, beside: str) -> Reason:
    return Reason(
        check,
        gap.layer,
        severity,
        f"In a batch of {gap.images} of your images, {gap.share:.0%} could be read out of the gradient of {gap.layer} "
        f"as they are: each stands alone in a row, or in the difference of two; {beside}.",
        {"share that can be read": gap.share, "share beside": gap.other, "share of rows with one image": gap.rows},
    )


def _drawn_apart(found: Profile, agreed: Other) -> list[Reason]:
    """Rows that were moved towards single images from the agreed network, by less than shows in what can be read.

    Training puts rows to sleep, and those left may have fewer images each. It does not wake them: a row that no image
    wakes has no gradient.
    """
    readable = {
        name: leak
        for name, leak in found.leaks.items()
        if not leak.undone and (_large(leak) >= READABLE or _few(leak) >= READABLE_FEW)
    }
    known = agreed() if readable else None
    if known is None:
        return []
    for name, leak in readable.items():
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
        if awoken >= max(AWOKEN, chance) or (drawn and _read_of(leak) >= MORE * _read_of(base)):
            sentence = (
                f"The rows of {name} were moved towards single images: an image's share of a row is "
                f"{now.concentration:.2f} on the mean, in the agreed network {then.concentration:.2f}; no image wakes "
                f"{now.asleep:.0%} of them, there {then.asleep:.0%}. Training puts rows to sleep, and wakes none."
            )
            numbers = {"concentration": now.concentration, "concentration agreed": then.concentration}
            return [Reason("isolation", name, "refuse", sentence, {**numbers, "rows awoken": awoken})]
    return []


def _combined(found: Profile, agreed: Other) -> list[Reason]:
    """Gates deep inside that show single images in combinations of an earlier layer's rows."""
    gated = {
        name: leak
        for name, leak in found.leaks.items()
        if leak.undone and leak.crowd and leak.crowd.concentration >= GATED and _read(leak) >= COMBINED
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


def _tokens(found: Profile, twin: Other, agreed: Other) -> list[Reason]:
    def share(profile: Profile | None, name: str) -> float:
        leak = profile.leaks.get(name) if profile is not None else None
        return leak.tokens if leak is not None else 0.0

    worst = max(found.leaks.items(), key=lambda item: item[1].tokens, default=("", Leak(0, 0, 0, {})))
    name, alone = worst[0], worst[1].tokens
    if alone < TOKENS or alone < share(twin(), name) + TOKENS_BEYOND or alone < share(agreed(), name) + TOKENS_BEYOND:
        return []
    sentence = (
        f"{alone:.0%} of the rows of {name} take their gradient from a single patch of a single image: the server "
        "reads those patches as they are."
    )
    return [Reason("isolation", name, "refuse", sentence, {"share of rows with one patch": alone})]


def _owned(found: Profile, twin: Other, agreed: Other) -> list[Reason]:
    reasons = []
    if found.owned >= OWNED and found.images >= OWNED_IMAGES:
        beside = [other for other in (twin(), agreed()) if other is not None]
        alive = all(found.passed >= ALIVE * other.passed for other in beside)
        if alive and found.owned >= max((other.owned for other in beside), default=0.0) + OWNED_BEYOND:
            sentence = (
                f"One image of {found.images} owns {found.owned:.0%} of the gradient: the update is that image's, and "
                "an attack on a single image reads it."
            )
            reasons.append(Reason("fishing", "", "refuse", sentence, {"share of the gradient": found.owned}))
    if found.class_ratio >= FISHED:
        known = agreed()
        if known is None or found.class_ratio >= FISHED_BEYOND * known.class_ratio:
            sentence = (
                f"Images of one class get {found.class_ratio:.0f} times the gradient of any other class: a patient who "
                "is the only one of that class owns the update."
            )
            reasons.append(Reason("fishing", "", "refuse", sentence, {"gradient of one class": found.class_ratio}))
    return reasons


def _silent(found: Profile, agreed: Other) -> list[Reason]:
    """Beside the agreed network alone: one that training has killed, or whose head starts at zero, is silent too."""
    if found.passed >= SUSPECT:
        return []
    known = agreed()
    if known is None or found.passed >= SILENT * known.passed:
        return []
    sentence = (
        "Next to no gradient gets past the last layers, while it did in the agreed network: your update would be "
        "silent. A server that sends this to all clients but one reads that one's update out of the secure sum."
    )
    return [
        Reason("silence", "", "refuse", sentence, {"gradient beside the agreed one's": found.passed / known.passed})
    ]
