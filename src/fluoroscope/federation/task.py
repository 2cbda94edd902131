"""A plan made real: images, shares, network and each client's training. Loaded once a process."""

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import torch
from flwr.app import ConfigRecord
from torch import Tensor, nn

from fluoroscope.data import Request, Site, load, load_sites
from fluoroscope.data.multi_label import with_findings
from fluoroscope.data.partition import PARTITIONS, Partitioner
from fluoroscope.defences import Chain
from fluoroscope.errors import Misconfigured
from fluoroscope.federation.data_plan import DataPlan
from fluoroscope.federation.plan import OWN, Plan
from fluoroscope.federation.planned import planned_network, planned_normalisation, planned_training
from fluoroscope.federation.settings import build_defences, build_part
from fluoroscope.federation.strategies import build_strategy, proximal_mu
from fluoroscope.models.modes import moving_buffers
from fluoroscope.rng import derive, generator
from fluoroscope.types import (
    ClientSplit,
    ImageSet,
    LabelledImages,
    LocalTraining,
    Network,
    Normalisation,
    Partition,
    PrivateBatch,
    UpdateRecord,
)


@dataclass(frozen=True, eq=False)
class Task:
    """What clients and server both derive from the plan, so that they cannot disagree."""

    plan: Plan
    images: ImageSet
    partition: Partition

    @property
    def clients(self) -> tuple[ClientSplit, ...]:
        return self.partition.clients

    @cached_property
    def network(self) -> Network:
        images = self.images
        return planned_network(self.plan.model, images.shape, images.classes, images.name)

    @cached_property
    def model(self) -> nn.Module:
        """The network with its initial weights. Nobody trains it in place."""
        return self.network.build(self.plan.seed)

    @property
    def normalisation(self) -> Normalisation | None:
        return planned_normalisation(self.plan.training)

    @property
    def public_mean(self) -> Tensor | None:
        """What an attacker knows of such images: the mean of the public ones; None where there are none."""
        public = list(self.partition.auxiliary)
        return self.images.batch.images[public].mean(0) if public else None

    @property
    def public_images(self) -> LabelledImages | None:
        """The public images themselves, for attackers who rehearse; None where there are none."""
        public = list(self.partition.auxiliary)
        if not public:
            return None
        chosen = self.images.batch.subset(public)
        return LabelledImages(chosen.images, chosen.labels, chosen.patients)

    @cached_property
    def buffer_names(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.model.named_buffers() if name in self.model.state_dict())

    @cached_property
    def moving_buffers(self) -> frozenset[str]:
        """Those that a pass of training changes, such as BatchNorm's statistics; a constant is none of them."""
        training = self.training(2, 2, 1, self.plan.training.lr)
        shape = (2, *self.images.batch.images.shape[1:])
        return moving_buffers(self.model, training, torch.rand(shape, generator=generator(0, "probe")))

    @property
    def initial_state(self) -> dict[str, Tensor]:
        return {name: value.detach().clone() for name, value in self.model.state_dict().items()}

    @cached_property
    def defence(self) -> Chain:
        return build_defences([(part.name, part.settings) for part in self.plan.defence])

    @cached_property
    def sealed_names(self) -> list[str]:
        """What homomorphic encryption keeps from the server, in the order of the ciphertexts."""
        encryption, state = self.defence.encryption, self.initial_state
        if encryption is None:
            return []
        record = UpdateRecord.between(self.network, state, state, self.training(1, 1, 1, self.plan.training.lr))
        sent = self.defence.before_encryption().send(record, generator(0))
        return encryption.sealed(sent)

    @cached_property
    def sent_names(self) -> frozenset[str]:
        """What of the model leaves a client in the open, under the plan's defences."""
        state = self.initial_state
        record = UpdateRecord.between(self.network, state, state, self.training(1, 1, 1, self.plan.training.lr))
        left = self.defence.send(record, generator(0))
        return frozenset({**left.state_after, **(left.buffers_after or {})})

    def train_batch(self, client: int) -> PrivateBatch:
        return self.images.batch.subset(self.clients[client].train)

    def validation_batch(self, client: int) -> PrivateBatch:
        return self.images.batch.subset(self.clients[client].validation)

    def learning_rate(self, server_round: int) -> float:
        training = self.plan.training
        decays = 0 if training.lr_decay_every is None else (server_round - 1) // training.lr_decay_every
        return training.lr * training.lr_decay**decays

    def local_training(self, client: int, config: ConfigRecord) -> LocalTraining:
        """How this client trains in the round that the server's message configures."""
        settings, split = self.plan.training, self.clients[client]
        lr = self.learning_rate(_whole(config["server-round"]))
        usual = self.training(len(split.train), split.batch_size or settings.batch_size, settings.epochs, lr)
        mu = float(config.get("proximal-mu", 0.0))  # type: ignore[arg-type]  # FedProx sends a float
        return replace(usual, proximal_mu=mu)

    def round_config(self, server_round: int) -> ConfigRecord:
        """What the plan's strategy tells its clients in this round."""
        strategy, clients = self.plan.strategy, len(self.clients)
        built = build_strategy(strategy.name, strategy.settings, clients, strategy.fraction)
        return ConfigRecord({"server-round": server_round, "proximal-mu": proximal_mu(built)})

    def training(self, images: int, batch_size: int, epochs: int, lr: float) -> LocalTraining:
        """Training as the plan sets it, on so many images."""
        return planned_training(self.plan.training, images, batch_size, epochs, lr)

    @cached_property
    def digest(self) -> str:
        """Of the images, who holds them, and the weights to start from: what a plan only names."""
        seen, batch = hashlib.sha256(), self.images.batch
        for tensor in (batch.images, batch.labels, *self.initial_state.values()):
            seen.update(tensor.contiguous().numpy().tobytes())
        seen.update(repr((batch.patients, self.images.classes, self.partition)).encode())
        return seen.hexdigest()

    @cached_property
    def shares(self) -> str:
        """A digest of who holds what, by labels and patients: the same on every node that has the same images."""
        batch = self.images.batch
        said = (batch.labels.tolist(), batch.patients, self.images.classes, self.partition)
        return hashlib.sha256(repr(said).encode()).hexdigest()

    def training_rng(self, client: int, config: ConfigRecord) -> torch.Generator:
        """Derived, not carried on: a resumed round draws what the uninterrupted one drew."""
        return generator(self.plan.seed, "local training", client, "round", _whole(config["server-round"]))

    def defence_rng(self, client: int, config: ConfigRecord) -> torch.Generator:
        """Of what the client's defences draw."""
        return generator(self.plan.seed, "defence", client, "round", _whole(config["server-round"]))


def partitioner(name: str, settings: dict[str, Any]) -> Partitioner:
    """The named way to split, with settings from a plan or a command line."""
    clients = settings.get("clients")
    most = 10_000
    if isinstance(clients, int) and clients > most:
        raise Misconfigured(f"partition {name}: at most {most:,} clients are simulated, not {clients:,}.")
    return build_part(PARTITIONS.get(name), f"partition {name}", settings)


def divide(images: ImageSet, name: str, settings: dict[str, Any], seed: int) -> Partition:
    """The split that a federation of this seed trains on."""
    return partitioner(name, settings).divide(images, derive(seed, "partition"))


def load_task(plan: Plan) -> Task:
    """The task of a plan; loading it again in the same process costs nothing, until `forget_tasks`."""
    if plan.partition.name == OWN:
        raise Misconfigured(
            "partition 'own' is for deployed nodes, whose images are nowhere else: run it with Flower's superlink "
            "(docs/flower.md), or choose another partition to simulate it."
        )
    return _load_task(plan.model_dump_json())


def forget_tasks() -> None:
    """Load again next time: the images behind a plan may have changed."""
    _load_task.cache_clear()
    _load_images.cache_clear()


@lru_cache(maxsize=4)
def _load_task(plan_json: str) -> Task:
    plan = Plan.model_validate_json(plan_json)
    images = _load_images(plan.data.model_dump_json(), plan.seed if plan.data.seed is None else plan.data.seed)
    settings, own = plan.partition.settings, {site.name: site.batch_size for site in plan.data.site if site.batch_size}
    partition = divide(images, plan.partition.name, {**settings, "batch_sizes": own} if own else settings, plan.seed)
    if plan.training.loss == "multi-label":  # after the split, which balances labels as they are written
        images = with_findings(images)
    task = Task(plan, images, _without(partition, plan.partition.without))
    names = {client.name for client in task.clients}
    if plan.records.clients != "all" and (unknown := set(plan.records.clients) - names):
        raise Misconfigured(f"records.clients names {sorted(unknown)}; the partition has {sorted(names)}.")
    check_training(task, *range(len(task.clients)))
    return task


def check_training(task: Task, *clients: int) -> None:
    """What does not fit the images or the network is named here, and not when the first client trains: by then a run
    has written its first files."""
    config, labels = ConfigRecord({"server-round": 1}), task.images.batch.labels[:2]
    for client in clients:
        training = task.local_training(client, config)
    training.loss(torch.zeros(len(labels), len(task.images.classes)), labels)
    if training.normalisation is not None:
        training.normalisation.check_channels(task.images.shape[0])
    if training.frozen:
        training.check_frozen(name for name, _ in task.model.named_parameters())


@lru_cache(maxsize=1)  # an audit has many federations of one set of images
def _load_images(data_json: str, seed: int) -> ImageSet:
    data = DataPlan.model_validate_json(data_json)
    request = Request(data.size, data.channels, data.images, seed, data.skip_bad, data.burn_in, data.folders)
    if not data.site:
        return load(data.source, request)
    sites = [Site(site.name, site.source) for site in data.site]
    return load_sites(", ".join(site.name for site in sites), sites, request)


def _without(partition: Partition, absent: tuple[str, ...]) -> Partition:
    names = [client.name for client in partition.clients]
    if unknown := sorted(set(absent) - set(names)):
        raise Misconfigured(f"partition.without names {unknown}; the partition has {names}.")
    kept = tuple(client for client in partition.clients if client.name not in absent)
    if not kept:
        raise Misconfigured(f"partition.without = {list(absent)} leaves no client.")
    return replace(partition, clients=kept)


def _whole(value: object) -> int:
    assert isinstance(value, int)
    return value
