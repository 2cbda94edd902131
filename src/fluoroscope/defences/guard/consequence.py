"""What follows from a model: whether its update would show single images, beyond what honest networks show.

A number is compared with that of a twin (the same layers with fresh weights, on the same batch) and with that of the
agreed network. Wide dense layers leak by themselves; what is refused is what leaks more than they do.
"""

from dataclasses import dataclass

from fluoroscope.defences.guard.drawn_apart import alone_in_combinations, combined, drawn_apart
from fluoroscope.defences.guard.isolation import NOTHING
from fluoroscope.defences.guard.leak import Leak
from fluoroscope.defences.guard.ownership import owned
from fluoroscope.defences.guard.profile import Other, Profile
from fluoroscope.defences.guard.replaced import replaced
from fluoroscope.defences.guard.verdict import Reason, Severity

BEYOND_TWIN, BEYOND_TWIN_ALONE, BEYOND_AGREED = 0.3, 0.36, 0.2
"""Share of the images that can be read, above a twin's (the second where nothing is agreed), and above the agreed
network's. Training moves it less."""
BEYOND_ALL = 0.4
"""Above the agreed network's in the largest batch: refused whatever a twin shows, which keeps what is not learnt."""
SPARSE, SPARSE_TIMES, SPARSE_BEYOND, SPARSE_BATCH = 0.3, 3.0, 0.12, 32
"""Share of the rows that one image has to itself, and how often a twin's; less has to be read then to be refused."""
LEAKY, LARGE_BATCH = 0.95, 64
"""A share of a large batch that is refused for what it is where nothing was agreed, whoever made the network."""
TOKENS, TOKENS_BEYOND = 0.15, 0.1
SILENT, SUSPECT = 1e-3, 0.05
"""Of the agreed network's gradient: what is left is nothing; and below what this is asked at all."""


def consequence(found: Profile, twin: Other, agreed: Other) -> list[Reason]:
    """Refuses what would hand over images.

    Args:
        found: of the model.
        twin: the same of a twin; asked where it matters.
        agreed: the same of the agreed network; None where none was given that runs.
    """
    return [
        *_reading(found, twin, agreed),
        *drawn_apart(found, agreed),
        *replaced(found, agreed),
        *combined(found, agreed),
        *alone_in_combinations(found, twin, agreed),
        *_tokens(found, twin, agreed),
        *owned(found, twin, agreed),
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
        if leak.beyond:
            continue
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
