"""What follows from a model: whether its update would show single images, beyond what honest networks show.

A number is compared with that of a twin (the same layers with fresh weights, on the same batch) and with that of the
agreed network. Wide dense layers leak by themselves; what is refused is what leaks more than they do.
"""

from collections.abc import Callable
from dataclasses import dataclass

from fluoroscope.defences.guard.profile import Leak, Profile
from fluoroscope.defences.guard.verdict import Reason

BEYOND_TWIN, BEYOND_AGREED = 0.3, 0.2
"""Share of the images that can be read, above a twin's, and above the agreed network's. Honest training moves it less."""
LEAKY = 0.95
"""A share that is refused for what it is where nothing was agreed, whoever made the network."""
TOKENS, TOKENS_BEYOND = 0.15, 0.1
OWNED, OWNED_BEYOND, OWNED_IMAGES = 0.9, 0.3, 8
FISHED, FISHED_BEYOND = 10.0, 5.0
SILENT, SUSPECT = 1e-3, 0.05
"""Of the agreed network's gradient: what is left is nothing; and below what this is asked at all."""


@dataclass(frozen=True)
class Gap:
    """How much more can be read of a layer than of another's."""

    layer: str
    images: int
    share: float
    other: float

    @property
    def beyond(self) -> float:
        return self.share - self.other


def consequence(
    found: Profile, twin: Callable[[], Profile | None], agreed: Callable[[], Profile | None]
) -> list[Reason]:
    """Refuses what would hand over images.

    Args:
        found: of the model.
        twin: the same of a twin; asked where it matters.
        agreed: the same of the agreed network; None where none was given that runs.
    """
    return [
        *_reading(found, twin, agreed),
        *_tokens(found, twin, agreed),
        *_owned(found, twin, agreed),
        *_silent(found, agreed),
    ]


def _reading(found: Profile, twin: Callable[[], Profile | None], agreed: Callable[[], Profile | None]) -> list[Reason]:
    nothing = Profile({}, 0, 1, 0)
    most = largest_gap(found, nothing)
    if most is None or most.share < BEYOND_TWIN:
        return []
    beside = largest_gap(found, twin() or nothing)
    known = agreed()
    above = beside if known is None else largest_gap(found, known)
    leaky = known is None and most.share >= LEAKY and most.images > 2 * SMALLEST_BATCH
    if (
        beside is None
        or above is None
        or not (leaky or (beside.beyond >= BEYOND_TWIN and above.beyond >= BEYOND_AGREED))
    ):
        return (
            [_reason("singling out", most, "note", f"an honest network of this kind shows {most.share:.0%} too")]
            if known is None
            else []
        )
    worst = most if leaky and beside.beyond < BEYOND_TWIN else beside
    what = "of the agreed network" if known is not None else "of the same layers with fresh weights"
    other = above.other if known is not None else beside.other
    return [_reason("isolation", worst, "refuse", f"of the update {what} it would be {other:.0%}")]


SMALLEST_BATCH = 16


def largest_gap(found: Profile, other: Profile) -> Gap | None:
    """The layer and batch size in which most can be read above what can be read of the same layer of the other."""
    gaps = []
    for name, leak in found.leaks.items():
        base = other.leaks.get(name)
        for images, reading in leak.shares.items():
            same = base.shares.get(images) if base is not None else None
            gaps.append(Gap(name, images, reading.apart, same.apart if same else 0.0))
            gaps.append(Gap(name, images, reading.alone, same.alone if same else 0.0))
    return max(gaps, key=lambda gap: gap.beyond, default=None)


def _reason(check: str, gap: Gap, severity: str, beside: str) -> Reason:
    return Reason(
        check,
        gap.layer,
        "refuse" if severity == "refuse" else "note",
        f"In a batch of {gap.images} of your images, {gap.share:.0%} could be read out of the gradient of {gap.layer} "
        f"as they are: each stands alone in a row, or in the difference of two; {beside}.",
        {"share that can be read": gap.share, "share beside": gap.other, "images": gap.images},
    )


def _tokens(found: Profile, twin: Callable[[], Profile | None], agreed: Callable[[], Profile | None]) -> list[Reason]:
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


def _owned(found: Profile, twin: Callable[[], Profile | None], agreed: Callable[[], Profile | None]) -> list[Reason]:
    reasons = []
    if found.owned >= OWNED and found.images >= OWNED_IMAGES:
        others = [other.owned for other in (twin(), agreed()) if other is not None]
        if not others or found.owned >= max(others) + OWNED_BEYOND:
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


def _silent(found: Profile, agreed: Callable[[], Profile | None]) -> list[Reason]:
    if found.passed >= SUSPECT:
        return []
    known = agreed()
    if known is None or found.passed >= SILENT * known.passed:
        return []
    sentence = (
        "Next to no gradient gets past the last layers, while it did in the agreed network: your update would be silent. "
        "A server that sends this to all clients but one reads that one's update out of the secure sum."
    )
    return [
        Reason(
            "silence",
            "",
            "refuse",
            sentence,
            {"gradient over the agreed network's": found.passed / max(known.passed, 1e-300)},
        )
    ]
