"""What is searched: a defence by its strength, a combination of which one part has a strength, or one without any."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fluoroscope.calibration.knobs import KNOBS, OTHERS
from fluoroscope.calibration.search import Knob
from fluoroscope.defences import DEFENCES, Chain
from fluoroscope.errors import BadInput, Unsupported
from fluoroscope.federation.settings import build_defences, current_names

SECURE_AGGREGATION = "secure-aggregation"
_NOT_SEEN = (
    "the server sees no client's update alone under it, and what attacks read is one: whether the sum leaks is what "
    "`fluoroscope audit` asks for the malicious server. Its accuracy was not measured here"
)


@dataclass(frozen=True)
class Candidate:
    """Defences in the order in which an update meets them, and the one whose strength is searched."""

    parts: tuple[tuple[str, Mapping[str, Any]], ...]
    searched: str | None
    """The name of the part with a strength; None where all is given."""

    @property
    def name(self) -> str:
        return "+".join(name for name, _ in self.parts)

    @property
    def knob(self) -> Knob | None:
        return None if self.searched is None else KNOBS[self.searched]

    @property
    def not_seen(self) -> str | None:
        """Why attacks on single updates say nothing of it."""
        return _NOT_SEEN if any(name == SECURE_AGGREGATION for name, _ in self.parts) else None

    def at(self, value: float | None) -> tuple[tuple[str, dict[str, Any]], ...]:
        """The parts with their settings, at this strength."""
        knob, made = self.knob, []
        for name, given in self.parts:
            settings = {**OTHERS.get(name, {}), **given}
            if knob is not None and name == self.searched:
                assert value is not None
                settings[knob.setting] = int(value) if knob.whole else value
            made.append((name, settings))
        return tuple(made)

    def chain(self, value: float | None) -> Chain:
        return build_defences(self.at(value))


def candidate(text: str, parsed: Mapping[str, Mapping[str, Any]]) -> Candidate:
    """From the names in `a+b`, with the settings that were given for each.

    Example:
        >>> candidate("fed-bn+percentile-gaussian", {}).searched
        'percentile-gaussian'
    """
    names = text.split("+")
    if SECURE_AGGREGATION in names:
        return Candidate(tuple((name, parsed.get(name, {})) for name in names), None)
    parts = tuple(
        (DEFENCES.current(name), current_names(DEFENCES.get(name), f"defence {name}", parsed.get(name, {})))
        for name in names
    )
    with_strength = [name for name, _ in parts if name in KNOBS]
    if len(with_strength) == 1:
        (searched,) = with_strength
        setting = KNOBS[searched].setting
        if setting in dict(parts)[searched]:
            raise BadInput(f"{searched}:{setting} is what is searched for; leave it out.")
        return Candidate(parts, searched)
    unset = [name for name, given in parts if name in KNOBS and KNOBS[name].setting not in given]
    if len(with_strength) > 1 and len(unset) != 1:
        raise BadInput(
            f"{text}: one strength is searched at a time. Give all of {', '.join(with_strength)} but one theirs, such "
            f"as {with_strength[0]}:{KNOBS[with_strength[0]].setting}={KNOBS[with_strength[0]].weak:g}."
        )
    return Candidate(parts, unset[0] if unset else None)


def split_names(text: str) -> list[tuple[str, str]]:
    """`a:key=value,...+b` as names with their settings in text; a plus inside a number, as in 1e+3, is no joint."""
    return [(name, rest) for name, _, rest in (part.partition(":") for part in re.split(r"\+(?=[a-z])", text))]


def checked(chosen: Candidate) -> Candidate:
    """Refuse what no attack on a client's update can judge."""
    knob = chosen.knob
    if chosen.not_seen is None and chosen.chain(None if knob is None else knob.strong).cohort is not None:
        raise Unsupported(
            "a defence at the server does not stand between a client and the server: what it does about a curious "
            "client is another question. Choose one that works at the client."
        )
    return chosen
