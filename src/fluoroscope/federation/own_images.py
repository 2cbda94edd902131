"""`partition = "own"`: every deployed node has images of its own, and no other node or server ever reads them.

    [partition]
    name = "own"
    sites = ["north", "south"]
    classes = ["normal", "pneumonia"]

A node is told where its images are by its own configuration, `site="north" images="folder:/data/train"`. Before the
first round the server asks every node how many it holds; node and server must have agreed on the same plan.
"""

import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from logging import ERROR

import torch
from flwr.app import ConfigRecord, Error, Message, RecordDict
from flwr.common.logger import log
from flwr.serverapp import Grid

from fluoroscope.data import Request, load
from fluoroscope.data.classes import in_classes
from fluoroscope.data.multi_label import with_findings
from fluoroscope.data.partition import SitesSplit
from fluoroscope.data.site_names import client_names
from fluoroscope.errors import BadInput, FluoroscopeError, Misconfigured
from fluoroscope.federation.plan import OWN, Plan
from fluoroscope.federation.settings import build_part
from fluoroscope.federation.task import Task, check_training
from fluoroscope.rng import derive
from fluoroscope.types import ClientSplit, ImageSet, Partition, PrivateBatch

HOLDINGS = "query.holdings"
"""The type of the message that asks a node what it holds."""
RECORD = "holdings"
MOST_IMAGES = 10_000_000
"""That one node may say it has."""
WAIT = 600.0
"""Seconds that the server waits for all sites to be there."""


@dataclass(frozen=True)
class OwnImages:
    """Who takes part, and what was agreed; the images are the nodes' own."""

    sites: tuple[str, ...]
    classes: tuple[str, ...]
    validation: float = 0.2
    """Of every node's images."""
    test: str | None = None
    """A source that the server tests its models on."""
    auxiliary: str | None = None
    """A source of public images at the server."""

    def __post_init__(self) -> None:
        if not self.sites or len(set(self.sites)) < len(self.sites):
            raise Misconfigured(f"partition.sites names every site once, and not {list(self.sites)}.")
        if len(set(self.classes)) < max(len(self.classes), 1):
            raise Misconfigured(f"partition.classes names every class once, and not {list(self.classes)}.")
        if [*client_names(self.sites).values()] != [*self.sites]:
            raise Misconfigured(f"partition.sites are also names of files: write them as {client_names(self.sites)}.")


@dataclass(frozen=True)
class Holding:
    """How many images a node has."""

    node: int
    train: int
    validation: int

    def __post_init__(self) -> None:
        for key in ("train", "validation"):
            count = getattr(self, key)
            if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MOST_IMAGES:
                raise BadInput(
                    f"node {self.node} says that it has {str(count)[:40]!r} images to {key[:5]}; 0 to {MOST_IMAGES:,} "
                    "are possible."
                )


def is_own(plan: Plan) -> bool:
    """Whether the images of this plan are with its nodes."""
    return plan.partition.name == OWN


def agreement(plan: Plan) -> str:
    """A digest of all that node and server must have agreed on: the plan, and with it classes and shape."""
    return hashlib.sha256(f"{plan.fingerprint} {_said(plan).classes} {_shape(plan)}".encode()).hexdigest()


def node_task(plan: Plan, node_config: Mapping[str, object]) -> tuple[Task, int]:
    """What a node trains on, and which of the sites it is.

    Raises:
        Misconfigured: the node's configuration or its images are not what was agreed.
    """
    said = _said(plan)
    site, images = (str(node_config.get(key, "")) for key in ("site", "images"))
    if not site or not images:
        raise Misconfigured(
            "partition 'own' needs --node-config 'site=\"NAME\" images=\"folder:PATH\"' at every supernode."
        )
    if site not in said.sites:
        raise Misconfigured(f"this node says that it is the site {site!r}; the plan has {', '.join(said.sites)}.")
    return _node_task(plan.model_dump_json(), site, images), said.sites.index(site)


@lru_cache(maxsize=1)
def _node_task(plan_json: str, site: str, source: str) -> Task:
    plan = Plan.model_validate_json(plan_json)
    said, data = _said(plan), plan.data
    request = Request(data.size, data.channels, data.images, plan.seed, data.skip_bad, data.burn_in)
    found = _agreed_images(plan, source, request)
    held = ImageSet(found.name, found.batch, found.classes, found.licence, sites=(site,) * len(found))
    split = SitesSplit(said.validation, test=0.0).divide(held, derive(plan.seed, "partition")).clients[0]
    others = tuple(split if name == site else ClientSplit(name, (), ()) for name in said.sites)
    task = Task(plan, found, Partition(others, ()))
    check_training(task, said.sites.index(site))
    return task


def holdings_reply(message: Message, plan: Plan, node_config: Mapping[str, object]) -> Message:
    """A node's answer to the server's question: counts, and nothing else of the images.

    Why a node cannot take part stands in its own log: the reason may name a folder.
    """
    try:
        check_agreement(message, plan)
        task, client = node_task(plan, node_config)
    except FluoroscopeError as problem:
        log(ERROR, "fluoroscope: this node cannot take part: %s", problem)
        return Message(Error(problem.exit_code, "its log says why."), reply_to=message)
    split = task.clients[client]
    held = ConfigRecord({"site": split.name, "train": len(split.train), "validation": len(split.validation)})
    return Message(RecordDict({RECORD: held}), reply_to=message)


def check_agreement(message: Message, plan: Plan) -> None:
    """Refuse a server that has another plan than this node.

    Raises:
        Misconfigured: the digests differ.
    """
    told = message.content.config_records[RECORD]["agreement"]
    if told != agreement(plan):
        raise Misconfigured("this node's plan is not the server's: model, classes, shape or training differ.")


def server_task(plan: Plan, grid: Grid) -> tuple[Task, dict[int, int]]:
    """What the server knows: the counts that its nodes say, and images of its own where it has some. And which client
    each node is, by the site that it said."""
    said = _said(plan)
    held = _holdings(plan, grid)
    clients = tuple(
        ClientSplit(site, tuple(range(held[site].train)), tuple(range(held[site].validation))) for site in said.sites
    )
    images, test, auxiliary = _server_images(plan)
    task = Task(plan, images, Partition(clients, test, auxiliary))
    if task.defence.encryption is not None:
        raise Misconfigured("partition 'own' does not go with homomorphic-encryption: a node does not know its weight.")
    return task, {held[site].node: client for client, site in enumerate(said.sites)}


def _holdings(plan: Plan, grid: Grid) -> dict[str, Holding]:
    said, patience = _said(plan), time.monotonic() + WAIT
    while len(nodes := list(grid.get_node_ids())) < len(said.sites):
        if time.monotonic() > patience:
            raise BadInput(f"{len(nodes)} of {len(said.sites)} nodes have come: {', '.join(said.sites)} are expected.")
        time.sleep(1.0)
    question = ConfigRecord({"agreement": agreement(plan)})
    asked = [Message(RecordDict({RECORD: question}), node, HOLDINGS) for node in nodes]
    found: dict[str, Holding] = {}
    for reply in grid.send_and_receive(asked, timeout=WAIT):
        if reply.has_error():
            raise BadInput(f"node {reply.metadata.src_node_id} cannot take part as it is set up: {reply.error.reason}")
        node, held = reply.metadata.src_node_id, reply.content.config_records.get(RECORD, ConfigRecord())
        site = str(held.get("site"))[:60]
        if site not in said.sites:
            raise BadInput(f"node {node} says that it is the site {site!r}; the plan has {', '.join(said.sites)}.")
        if site in found:
            raise BadInput(f"two nodes say that they are the site {site!r}: give each its own --node-config.")
        found[site] = Holding(node, held.get("train"), held.get("validation"))  # type: ignore[arg-type]  # checked there
    if missing := [site for site in said.sites if site not in found]:
        raise BadInput(f"no node is the site {missing[0]!r}; there are {', '.join(found) or 'none'}.")
    return found


def _server_images(plan: Plan) -> tuple[ImageSet, tuple[int, ...], tuple[int, ...]]:
    """The server's own images, and which of them are for what; without any, a set of none."""
    said, shape = _said(plan), _shape(plan)
    request = Request(plan.data.size, plan.data.channels, None, plan.seed)
    sets = [None if source is None else _agreed_images(plan, source, request) for source in (said.test, said.auxiliary)]
    batches = [each.batch for each in sets if each is not None]
    none = PrivateBatch(torch.zeros(0, *shape), torch.zeros(0, dtype=torch.int64), ())
    whole = PrivateBatch(
        torch.cat([b.images for b in batches] or [none.images]),
        torch.cat([b.labels for b in batches] or [none.labels]),
        tuple(patient for b in batches for patient in b.patients),
    )
    tests = 0 if sets[0] is None else len(sets[0])
    images = ImageSet("the server's images", whole, said.classes, "the server's own")
    return images, tuple(range(tests)), tuple(range(tests, len(whole)))


def _agreed_images(plan: Plan, source: str, request: Request) -> ImageSet:
    found = load(source, request)
    found = with_findings(found) if plan.training.loss == "multi-label" else found
    if found.shape != _shape(plan):
        raise Misconfigured(f"the images are {found.shape} here, and {_shape(plan)} was agreed: data.size, channels.")
    return in_classes(found, _said(plan).classes)


def _said(plan: Plan) -> OwnImages:
    return build_part(OwnImages, "partition own", plan.partition.settings)


def _shape(plan: Plan) -> tuple[int, int, int]:
    size, channels = plan.data.size, plan.data.channels
    if size is None or channels is None:
        raise Misconfigured("partition 'own' needs data.size and data.channels: no image tells them to the server.")
    return channels, size, size
