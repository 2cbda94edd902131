"""Attacks by name."""

from typing import Protocol, runtime_checkable

from torch import Generator

from fluoroscope.attacks.common.running import Kept, Observations, OnIteration, silent
from fluoroscope.errors import Unsupported
from fluoroscope.registry import Registry
from fluoroscope.threat_models.needs import missing
from fluoroscope.types import Capability, Observation, Reconstruction


class Attack(Protocol):
    """Settings as the fields of a frozen dataclass; what it needs to know; and the run."""

    @property
    def needs(self) -> frozenset[Capability]: ...

    def run(
        self, observations: Observations, rng: Generator, on_iteration: OnIteration = silent, checkpoint: Kept = None
    ) -> list[Reconstruction]:
        """A guess for each observation. `on_iteration` is told how many iterations of how many are done.

        With a checkpoint, a run that was stopped goes on where it was.
        """
        ...


@runtime_checkable
class Selective(Protocol):
    """An attack that can tell by what is known of a client, in no time, that it does not apply."""

    def check(self, observation: Observation) -> None:
        """Raise Unsupported where it does not; what shows only when it runs may be left to the run."""
        ...


ATTACKS: Registry[Attack] = Registry("attacks")


def check_applies(attack: Attack, observation: Observation) -> None:
    """Refuse an attack that cannot work on such a client, before any of it is run.

    Raises:
        Unsupported: the attacker lacks something that it needs, or it is not made for such a training.
    """
    if lacks := missing(observation, sorted(attack.needs)):
        raise Unsupported(f"the attacker does not have {', '.join(lacks)}.")
    if isinstance(attack, Selective):
        attack.check(observation)
