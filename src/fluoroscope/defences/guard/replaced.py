"""Rows of a layer that were put in the place of others, and show single images: few of them hardly move what all show.

A row that one image wakes has that image's gradient alone, and training moves it less than the rows that many wake.
"""

from fluoroscope.defences.guard.drawn_apart import readable
from fluoroscope.defences.guard.profile import Other, Profile
from fluoroscope.defences.guard.verdict import Reason

FAR, STAYED = 0.5, 0.2
"""How far a row was moved, in units of its size, that training needs many rounds for; and what the others may have."""
FEWEST, MOSTLY = 4, 0.5
"""Rows that were replaced so, in all, and as a share of those that have become one image's."""


def replaced(found: Profile, agreed: Other) -> list[Reason]:
    """Refuses rows that were replaced, each now one image's, while the layer's others are where they were."""
    leaks = readable(found)
    known = agreed() if leaks else None
    if known is None:
        return []
    for name, leak in leaks.items():
        base = known.leaks.get(name)
        if base is None or base.crowd is None or base.weight is None or leak.crowd is None or leak.weight is None:
            continue
        if leak.weight.shape != base.weight.shape or not leak.crowd.rows == base.crowd.rows == len(leak.weight):
            continue
        moved = (leak.weight - base.weight).norm(dim=1) / base.weight.norm(dim=1).clamp_min(1e-30)
        new = sorted(leak.crowd.alone - base.crowd.alone)
        others = [row for row in range(leak.units) if row not in leak.crowd.alone]
        far = int((moved[new] >= FAR).sum())
        stayed = float(moved[others].median()) if others else 0.0
        if far >= max(FEWEST, MOSTLY * len(new)) and stayed <= STAYED:
            sentence = (
                f"{far} rows of {name} have nothing left of those that were agreed on, and each of them now shows a "
                "single one of your images; the other rows are where they were. Training moves rows that one image "
                "wakes less than others."
            )
            numbers = {"rows replaced": far, "rows": leak.units, "median move of the others": stayed}
            return [Reason("isolation", name, "refuse", sentence, numbers)]
    return []
