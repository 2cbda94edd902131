"""What an attack needs to know, and what is said when it does not."""

from collections.abc import Iterable

from fluoroscope.errors import Unsupported
from fluoroscope.threat_models.grants import GRANTS
from fluoroscope.types import Capability, Observation


def missing(observation: Observation, needs: Iterable[Capability]) -> list[Capability]:
    """The needs that this observation does not meet: not granted, or withheld by a defence."""
    return [need for need in needs if getattr(observation, GRANTS[need][0]) is None]


def require(attack: str, observation: Observation, needs: Iterable[Capability]) -> None:
    """Refuse to run an attack on less than it needs, and say how it can be had."""
    for need in missing(observation, needs):
        if need in observation.knowledge.capabilities:
            remedy = "it was withheld from this record; choose an attack that does without it"
        else:
            remedy = f"grant it with --grant {need.value}, or choose an attack that does without it"
        raise Unsupported(f"{attack} needs the capability {need.value!r}: {remedy}.")
