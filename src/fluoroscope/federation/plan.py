"""A federation written down: one TOML file, validated, with errors that name the key."""

import hashlib
import json
from pathlib import Path, PurePath
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Field, PositiveInt, SerializerFunctionWrapHandler, model_serializer, model_validator

from fluoroscope.federation.data_plan import DataPlan, shown_source
from fluoroscope.federation.sections import OpenSection, Section, parse_as, read_toml
from fluoroscope.federation.training_plan import TrainingPlan

Setting = bool | int | float | str | None
OWN = "own"
"""The partition of a deployment whose nodes have images of their own."""


class PartitionPlan(OpenSection):
    """Who holds which image."""

    name: str = "iid"
    without: tuple[str, ...] = ()
    """Clients that stay away; the others hold what they would hold with them."""


class ModelPlan(Section):
    """What is trained: a registered network, or one of your own."""

    name: str = "small-cnn"
    weights: str | None = None
    factory: str | None = None
    """`package.module:function` that makes a torch module, in the place of a registered name."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """What the factory is called with."""

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if self.arguments and self.factory is None:
            raise ValueError("model.arguments belong to model.factory; remove them or name a factory")
        if self.weights and self.factory is not None:
            raise ValueError("model.weights belong to a registered name; a factory loads its own")
        return self


class StrategyPlan(OpenSection):
    """How the server joins the updates; further keys are the strategy's own."""

    name: str = "fedavg"
    fraction: float = Field(default=1.0, gt=0, le=1)
    """Share of the clients that train in a round."""
    pretrain_epochs: int = Field(default=0, ge=0, le=10_000)
    """Epochs on the server's auxiliary images before round 1 (P3's initial parameters)."""
    min_clients: int | None = Field(default=None, ge=1)
    """Replies that a round needs: with fewer that are as agreed it is not used, and can be repeated. None: all."""

    round_minutes: float | None = Field(default=None, gt=0)
    """How long the server waits for a round's replies; who has not answered by then is refused. None: a day."""

    @model_serializer(mode="wrap")
    def _as_before(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A plan that does not say these is written as before they could be said: its runs and cells go on."""
        later = ("min_clients", "round_minutes")
        content: dict[str, Any] = handler(self)
        return {key: value for key, value in content.items() if key not in later or value is not None}


class DefencePlan(OpenSection):
    """A defence by name; further keys are its own. Several stand in the order in which an update meets them."""

    name: str


class PrivacyPlan(Section):
    """When to stop."""

    epsilon: float | None = Field(default=None, gt=0)
    """The most that any client may spend; no round is begun that would exceed it."""


class RecordsPlan(Section):
    """Which updates are kept: 100 rounds of 9 clients need not fill the disk."""

    rounds: Literal["all", "none"] | Annotated[list[PositiveInt], Field(min_length=1)] = "all"
    clients: Literal["all"] | Annotated[list[str], Field(min_length=1)] = "all"

    def keeps_round(self, server_round: int) -> bool:
        return self.rounds == "all" or (self.rounds != "none" and server_round in self.rounds)

    def keeps_client(self, client: str) -> bool:
        return self.clients == "all" or client in self.clients


class Plan(Section):
    """A whole federation."""

    seed: int = Field(default=0, ge=0)
    rounds: int = Field(default=5, ge=1, le=100_000)
    evaluate_every: int = Field(default=1, ge=1)
    """Rounds between two evaluations on the clients' validation images."""
    data: DataPlan = DataPlan()
    partition: PartitionPlan = PartitionPlan()
    model: ModelPlan = ModelPlan()
    training: TrainingPlan = TrainingPlan()
    strategy: StrategyPlan = StrategyPlan()
    defence: tuple[DefencePlan, ...] = ()
    privacy: PrivacyPlan = PrivacyPlan()
    records: RecordsPlan = RecordsPlan()

    @model_validator(mode="before")
    @classmethod
    def _sites_are_the_clients(cls, content: Any) -> Any:  # noqa: ANN401  # whatever stands in the file
        """Who names the sites has named the clients: the partition need not be named too."""
        data, partition = (content.get(key, {}) if isinstance(content, dict) else None for key in ("data", "partition"))
        if not isinstance(data, dict) or not isinstance(partition, dict):
            return content
        by_site = data.get("site") or data.get("folders") == "sites"
        return {**content, "partition": {"name": "sites", **partition}} if by_site else content

    @model_validator(mode="after")
    def _own_images_are_not_here(self) -> Self:
        if self.partition.name == OWN and (self.data.site or self.data.source != DataPlan().source):
            raise ValueError(
                "partition.name = 'own' says that the images are with the nodes, whose --node-config names them; leave "
                "data.source and [[data.site]] out"
            )
        return self

    @model_validator(mode="after")
    def _sites_keep_their_images(self) -> Self:
        if self.data.site and self.partition.name != "sites":
            raise ValueError(
                f"partition.name = {self.partition.name!r} would deal the images out anew, and [[data.site]] says who "
                "holds them; leave partition.name out, or give all images as one data.source"
            )
        if any(site.batch_size for site in self.data.site) and "batch_sizes" in self.partition.settings:
            raise ValueError("partition.batch_sizes and batch_size of [[data.site]] say the same; keep one of them")
        return self

    @model_validator(mode="after")
    def _records_something(self) -> Self:
        if isinstance(self.records.rounds, list) and min(self.records.rounds) > self.rounds:
            raise ValueError(f"records.rounds has none of the {self.rounds} rounds; use 'none' to record nothing")
        return self

    def shown(self) -> dict[str, Any]:
        """As data to be sent around: sources, weights and keys by their names, without the folders above them."""
        content = self.model_dump(mode="json")
        for table in (content["data"], *content["data"].get("site", ())):
            table["source"] = shown_source(table["source"])
        for part in content["defence"]:
            part.update(shown_defence(part))
        if isinstance(content["model"].get("weights"), str):
            content["model"]["weights"] = PurePath(content["model"]["weights"]).name
        return content

    @property
    def fingerprint(self) -> str:
        """Of all that decides a round's result. More rounds continue a run, so their number is left out; so is what to
        do without some of the clients, which the manifests tell."""
        patience = {"min_clients", "round_minutes"}
        decisive = self.model_dump(mode="json", exclude={"rounds": True, "strategy": patience})
        for section, keys in _LATER.items():  # a plan that does not say them is what it was before they could be said
            usual = type(getattr(self, section)).model_fields
            for key in keys:
                if getattr(getattr(self, section), key) == usual[key].get_default(call_default_factory=True):
                    del decisive[section][key]
        for part in decisive["defence"]:
            if part["name"] == "fed-bn":  # its default has changed: a run of a plan that did not say it is another's
                part.setdefault("parameters", True)
        return hashlib.sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()


_LATER = {
    "partition": ("without",),
    "model": ("factory", "arguments"),
    "training": (
        "nesterov", "betas", "eps", "steps", "loss", "class_weights", "label_smoothing", "normalisation", "clip_norm",
        "frozen",
    ),
}  # fmt: skip
"""Keys that plans did not have at first."""

P = TypeVar("P", bound=Plan)


def read_plan(path: Path) -> Plan:
    """The plan in a TOML file; paths in it are relative to the file. What it says of an audit is left aside."""
    return read_plan_as(Plan, path, without=("audit",))


def read_plan_as(kind: type[P], path: Path, without: tuple[str, ...] = ()) -> P:
    """The same, of a plan that says more than a federation's."""
    content = {key: value for key, value in read_toml(path, "plan").items() if key not in without}
    return _rooted(parse_plan_as(kind, content, str(path)), path.parent)


def parse_plan(content: dict[str, Any], origin: str = "plan") -> Plan:
    """A plan from plain data; the first thing that is wrong is named by its key."""
    return parse_plan_as(Plan, content, origin)


def parse_plan_as(kind: type[P], content: dict[str, Any], origin: str = "plan") -> P:
    """The same, of a plan that says more than a federation's."""
    return parse_as(kind, content, origin)


def rooted_defence(part: DefencePlan, folder: Path) -> DefencePlan:
    """With its path made absolute: the clients' secret key (homomorphic-encryption) is the one that a defence takes."""
    if not isinstance(part.settings.get("key"), str):
        return part
    return part.model_copy(update={"key": str((folder / part.settings["key"]).resolve())})


def shown_defence(part: dict[str, Any]) -> dict[str, Any]:
    """A defence as data to be sent around, with its key by the file's name."""
    return {**part, "key": PurePath(part["key"]).name} if isinstance(part.get("key"), str) else part


def rooted_model(model: ModelPlan, folder: Path) -> ModelPlan:
    """With the path of its weights made absolute."""
    if not model.weights or model.weights == "random":
        return model
    return model.model_copy(update={"weights": str((folder / model.weights).resolve())})


def _rooted(plan: P, folder: Path) -> P:
    """The plan with its relative paths made absolute, so that it means the same from anywhere."""
    return plan.model_copy(
        update={
            "defence": tuple(rooted_defence(part, folder) for part in plan.defence),
            "data": plan.data.rooted(folder),
            "model": rooted_model(plan.model, folder),
        }
    )
