"""An audit written down: a federation's plan, and what to try on it."""

from pathlib import Path
from typing import Any, Literal, Self

import torch
from pydantic import Field, PositiveInt, field_validator, model_validator

from fluoroscope.attacks import ATTACKS
from fluoroscope.attacks.inference import INFERENCE_ATTACKS
from fluoroscope.audit.cell import plain
from fluoroscope.errors import Misconfigured
from fluoroscope.federation.plan import DefencePlan, Plan, read_plan_as, shown_defence
from fluoroscope.federation.sections import Section
from fluoroscope.federation.settings import build_defences
from fluoroscope.federation.task import Task, load_task
from fluoroscope.findings import NO_DEFENCE
from fluoroscope.scenarios.auto_attacks import AUTO
from fluoroscope.scenarios.shadow_set import Shadow
from fluoroscope.types import ClientSplit

Threat = Literal["curious-server", "malicious-server", "curious-client"]
Inference = Literal["label-counts", "membership", "source", "metrics"]
PLANNED = "as planned"
"""Label of the defences that the federation's plan has itself."""


class ComparedPlan(Section):
    """Defences to try together, under a name."""

    label: str = Field(min_length=1, max_length=80)
    defence: tuple[DefencePlan, ...] = Field(min_length=1)


class AuditSettings(Section):
    """Who attacks, how, how long, and what is tried against it."""

    preset: str | None = None
    threats: tuple[Threat, ...] = Field(default=("curious-server", "malicious-server", "curious-client"), min_length=1)
    budget_minutes: float = Field(default=30.0, gt=0)
    attacks: tuple[str, ...] = Field(default=(AUTO,), min_length=1)
    """The curious server's: names, or `auto` for the best of all that apply, chosen by rehearsal."""
    rehearse: tuple[str, ...] = ()
    """The attacks among which `auto` chooses; none takes all that there are."""
    client: str | None = None
    """Whom both servers attack; None takes the client with the fewest images, and for a crafted model the one with
    most that trains in a single step."""
    clients: Literal["all"] | tuple[str, ...] | None = None
    """Whom the curious server looks at, all or by name; None takes `client`, or a sample of at most four: the one with
    fewest images, with most, with the median, and the one whose classes differ most."""
    rounds: tuple[PositiveInt, ...] = ()
    """Rounds that the curious server attacks; none takes the first and the last."""
    inference: tuple[Inference, ...] = ("label-counts", "membership", "source", "metrics")
    """What the curious server infers beside images."""
    membership: tuple[str, ...] = ("loss", "lira-offline", "rmia")
    """Attacks of membership inference."""
    shadows: int = Field(default=8, ge=2)
    """Rounds that an attack of these simulates per client."""
    simulations: int = Field(default=64, ge=4)
    """Rounds that the attack on label counts learns from, per client."""
    victims: int = Field(default=8, ge=2)
    """Patients who stand in the place of a small client, one after another."""
    games: int = Field(default=10, ge=3)
    """Federations with the target, and as many without."""
    game_rounds: int = Field(default=1, ge=1)
    target: str | None = None
    """Whom the curious client looks for; None takes the one whose classes differ most from the others'."""
    shadow: Shadow = "overlapping"
    compare: tuple[ComparedPlan, ...] = ()

    @field_validator("attacks", mode="before")
    @classmethod
    def _one_or_several(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _can_be_told_apart(self) -> Self:
        labels = [NO_DEFENCE, PLANNED, *(each.label for each in self.compare)]
        taken: dict[str, str] = {}
        for label in labels:  # cells and files are called after them
            if not (name := plain(label)):
                raise ValueError(f"audit.compare: the label {label!r} has no letter or digit; give it a name")
            if name in taken:
                raise ValueError(
                    f"audit.compare: the label {label!r} is taken by {taken[name]!r}, as case and punctuation do not "
                    "count; give each setting its own"
                )
            taken[name] = label
        for key in ("threats", "attacks", "rehearse", "clients", "rounds", "inference", "membership"):
            said = getattr(self, key)
            if isinstance(said, tuple) and (doubled := [each for each in said if said.count(each) > 1]):
                raise ValueError(f"audit.{key} names {doubled[0]!r} twice; name it once")
        for each in self.compare:  # what cannot be built is found before anything is run
            build_defences([(part.name, part.settings) for part in each.defence])
        for name in {*self.attacks, *self.rehearse} - {AUTO}:
            ATTACKS.get(name)
        for name in self.membership:
            INFERENCE_ATTACKS.get(name)
        return self


class AuditPlan(Plan):
    """A federation, and its audit."""

    audit: AuditSettings = AuditSettings()

    @model_validator(mode="after")
    def _rounds_exist(self) -> Self:
        if late := [r for r in self.audit.rounds if r > self.rounds]:
            raise ValueError(f"audit.rounds has round {late[0]}, and the federation has {self.rounds}")
        return self

    @property
    def labels(self) -> dict[str, tuple[DefencePlan, ...]]:
        """The settings to compare: without any defence first, then the plan's own, then the others."""
        own = {PLANNED: self.defence} if self.defence else {}
        return {NO_DEFENCE: (), **own, **{each.label: each.defence for each in self.audit.compare}}

    def shown(self) -> dict[str, Any]:
        content = super().shown()
        for each in content["audit"]["compare"]:
            each["defence"] = [shown_defence(part) for part in each["defence"]]
        return content

    @property
    def threats(self) -> tuple[Threat, ...]:
        return self.audit.threats

    @property
    def own(self) -> str | None:
        """The setting with the plan's own defences; None where it has none."""
        return PLANNED if self.defence else None

    @property
    def synthetic(self) -> bool:
        return self.task.images.synthetic

    @property
    def attacked_rounds(self) -> tuple[int, ...]:
        """The last first: by then a model knows most of whom it was trained on."""
        return tuple(sorted(set(self.audit.rounds or (1, self.rounds)), reverse=True))

    def federation(self, label: str) -> Plan:
        """The federation under a setting, with what the audit needs of it recorded."""
        clients = [split.name for split in self.audited_clients]
        return self._plan(label, records={"rounds": sorted(self.attacked_rounds), "clients": clients})

    def game(self, label: str, attacker: str) -> Plan:
        """The federation of a game: on the same images, for as many rounds as the attacker watches."""
        data = {**self.data.model_dump(mode="json"), "seed": self.seed if self.data.seed is None else self.data.seed}
        # The global model of every round is kept where a record starts from it.
        records = {"rounds": "all", "clients": [attacker]}
        return self._plan(label, records=records, rounds=self.audit.game_rounds, data=data)

    def _plan(self, label: str, **changes: Any) -> Plan:  # noqa: ANN401  # tables of the plan
        parts = [part.model_dump(mode="json") for part in self.labels[label]]
        content = {**self.model_dump(mode="json", exclude={"audit"}), "defence": parts, **changes}
        return Plan.model_validate(content)

    @property
    def audited_clients(self) -> tuple[ClientSplit, ...]:
        """Whom the curious server looks at: those with fewest images first, whose updates show most of each."""
        said, ordered = self.audit.clients, sorted(self._clients, key=lambda split: len(split.train))
        if said is None and (chosen := self._chosen(self.audit.client)):
            return (chosen,)
        if said is None:
            found = [ordered[0], ordered[-1], ordered[len(ordered) // 2], self.inference_target]
        else:
            found = ordered if said == "all" else [split for name in said if (split := self._chosen(name))]
        return tuple(split for split in ordered if split in found)

    @property
    def imprint_target(self) -> ClientSplit:
        """With most images in one step, as a crafted model reads the first one best; else with most images."""
        if chosen := self._chosen(self.audit.client):
            return chosen
        one_step = [c for c in self._clients if len(c.train) <= (c.batch_size or self.training.batch_size)]
        return max(one_step or self._clients, key=lambda split: len(split.train))

    @property
    def inference_target(self) -> ClientSplit:
        """The client whose classes differ most from the others', among those with a fair share of the images."""
        if chosen := self._chosen(self.audit.target):
            return chosen
        images = self.task.images
        fair = 0.5 * sum(len(split.train) for split in self._clients) / len(self._clients)

        def mix(indices: list[int]) -> Any:  # noqa: ANN401  # a tensor of shares
            return torch.tensor(list(images.counts(indices).values())).double() / len(indices)

        def oddness(split: ClientSplit) -> float:
            others = [i for other in self._clients if other is not split for i in other.train]
            return float((mix(list(split.train)) - mix(others)).abs().sum()) / 2 if others else 0.0

        return max((split for split in self._clients if len(split.train) >= fair), key=oddness)

    @property
    def task(self) -> Task:
        """Of the federation without any defence."""
        return load_task(self._plan(NO_DEFENCE))

    @property
    def _clients(self) -> tuple[ClientSplit, ...]:
        return self.task.clients

    def _chosen(self, name: str | None) -> ClientSplit | None:
        if name is None:
            return None
        found = {split.name: split for split in self._clients}
        if name not in found:
            raise Misconfigured(f"audit names the client {name!r}; the partition has {', '.join(found)}.")
        return found[name]


def read_audit_plan(path: Path) -> AuditPlan:
    """The plan in a TOML file; without a table [audit] everything in it is as usual."""
    return read_plan_as(AuditPlan, path)
