"""Who owns the gradient: one image of a batch, or all images of one class (fishing)."""

from fluoroscope.defences.guard.gradient_shares import FEW
from fluoroscope.defences.guard.profile import Other, Profile
from fluoroscope.defences.guard.verdict import Reason

OWNED, OWNED_BEYOND, OWNED_IMAGES = 0.9, 0.3, 8
OWNED_OF_FEW, FEW_BEYOND = 0.5, 0.3
"""The same in small batches, since a gate that few images pass leaves most of these to one of them. Beside the agreed
network alone: one that training is about to kill does the same."""
FISHED, FISHED_BEYOND = 10.0, 5.0
SURE = 8.1
"""Logits, with a minus: less than one in three thousand. A rare finding may be as seldom, and not all at once."""
ALIVE = 0.01
"""Of a twin's gradient: less gets through a network that has died, by one image or another."""


def owned(found: Profile, twin: Other, agreed: Other) -> list[Reason]:
    """Refuses a model that gives most of the gradient to one image of a batch, whole or small, or to one class."""
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
    known = agreed() if not reasons and found.owned_of_few >= OWNED_OF_FEW else None
    alive = known is not None and found.passed >= ALIVE * known.passed
    if known is not None and alive and found.owned_of_few >= known.owned_of_few + FEW_BEYOND:
        sentence = (
            f"In batches of {FEW} one image has {found.owned_of_few:.0%} of the gradient on the mean, in the agreed "
            f"network {known.owned_of_few:.0%}: few images get past a gate, and an update is one image's own."
        )
        reasons.append(Reason("fishing", "", "refuse", sentence, {"share of the gradient": found.owned_of_few}))
    if found.class_ratio >= FISHED:
        known = agreed()
        if known is None or found.class_ratio >= FISHED_BEYOND * known.class_ratio:
            sentence = (
                f"Images of one class get {found.class_ratio:.0f} times the gradient of any other class: a patient who "
                "is the only one of that class owns the update."
            )
            reasons.append(Reason("fishing", "", "refuse", sentence, {"gradient of one class": found.class_ratio}))
    return [*reasons, *_never(found, agreed)]


def _never(found: Profile, agreed: Other) -> list[Reason]:
    """Beside the agreed network alone: outputs that are no logits may have any size."""
    known = agreed() if found.highest <= -SURE else None
    if known is None or known.highest <= -SURE / 2:
        return []
    sentence = (
        f"No output is above {found.highest:.0f} for any of your images, while the agreed network's reach "
        f"{known.highest:.1f}. As logits of findings that says never to each: the one patient who has a finding owns "
        "the update then, and a batch without one sends nothing."
    )
    return [Reason("fishing", "", "refuse", sentence, {"highest output": found.highest, "agreed": known.highest})]
