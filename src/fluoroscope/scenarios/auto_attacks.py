"""The attacks that `auto` stands for: all that are registered and read a client's update, the cheap ones first."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fluoroscope.attacks import ATTACKS, Attack
from fluoroscope.types import Capability

AUTO = "auto"
_P4 = "a variant of dlg that P4 compares on LeNet-5; idlg stands for them"
LEFT_OUT: Mapping[str, str] = {
    "p1-reference": "what P1's public code does in the place of epochwise; kept to compare with",
    "deepinversion": "looks at the global model alone, not at the update",
    "surrogate": "epochwise for many epochs in an unknown order; of one step it is epochwise itself",
    "dlg": "idlg is the same with the label read off the update",
    **dict.fromkeys(("sapag", "eucl-tg", "eucl-unif", "ag-tg", "ag-unif"), _P4),
}
"""Registered attacks that are never rehearsed, and why."""


def candidates() -> dict[str, Attack]:
    """What is rehearsed, by name: closed forms first, then what is learned, then descents by their iterations.

    Example:
        >>> "span" in candidates(), "deepinversion" in candidates()
        (True, False)
    """
    found = {name: ATTACKS.get(name) for name in ATTACKS if name not in LEFT_OUT}
    return dict(sorted(found.items(), key=lambda each: (_cost(each[1]), each[0])))


def iterations(attack: Attack) -> int | None:
    """Evaluations of a descent's objective at most, over all of its restarts; None of an attack without a budget."""
    budget: Any = getattr(attack, "budget", None)
    each = getattr(budget, "iterations", None)
    in_one = getattr(getattr(attack, "optimiser", None), "max_iter", 1)  # of L-BFGS
    return None if each is None else each * in_one * getattr(attack, "restarts", 1)


def cut_to(attack: Attack, most: int) -> Attack:
    """The same with at most so many iterations per descent; as it is where it has fewer, or none to cut."""
    budget: Any = getattr(attack, "budget", None)
    if getattr(budget, "iterations", 0) <= most:
        return attack
    return replace(attack, budget=replace(budget, iterations=most))  # type: ignore[type-var]  # attacks are dataclasses


def _cost(attack: Attack) -> int:
    learned = Capability.PUBLIC_IMAGES in attack.needs
    return (iterations(attack) or 0) // getattr(attack, "restarts", 1) + learned  # not all restarts need be taken
