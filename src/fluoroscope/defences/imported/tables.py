"""Defences as the tables of a plan, to paste."""

import json
from collections.abc import Iterable
from dataclasses import MISSING, fields
from typing import Any

from fluoroscope.defences.contract import Defence
from fluoroscope.defences.registry import DEFENCES
from fluoroscope.errors import Unsupported


def plan_tables(defences: Iterable[Defence]) -> str:
    """A `[[defence]]` table each, with the settings that are not the default.

    Example:
        >>> from fluoroscope.defences.percentile_privacy import PercentilePrivacy
        >>> print(plan_tables([PercentilePrivacy(gamma=0.02)]), end="")
        [[defence]]
        name = "percentile-privacy"
        gamma = 0.02
    """
    return "\n".join(map(_table, defences))


def _table(defence: Defence) -> str:
    names = [name for name in DEFENCES if DEFENCES.get(name) is type(defence)]
    if not names:
        raise Unsupported(f"{type(defence).__name__} has no name in a plan: register it with DEFENCES.")
    lines = ["[[defence]]", f'name = "{names[0]}"']
    for field in fields(defence):  # type: ignore[arg-type]  # every registered defence is a dataclass
        value = getattr(defence, field.name)
        if field.default is MISSING or value != field.default:
            lines.append(f"{field.name} = {_toml(value)}")
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:  # noqa: ANN401  # a setting
    # What JSON writes for texts, numbers, truth values and lists of them, TOML reads.
    return json.dumps(list(value) if isinstance(value, tuple) else value)
