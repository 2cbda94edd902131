"""What is told about one recorded update, and what is made of it: the record, and the images that are there."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fluoroscope.data import Request, load
from fluoroscope.data.classes import in_classes
from fluoroscope.data.multi_label import with_findings
from fluoroscope.defences import Chain
from fluoroscope.errors import BadInput, Unsupported
from fluoroscope.federation.plan import ModelPlan
from fluoroscope.federation.planned import planned_network, planned_training
from fluoroscope.federation.settings import build_defences
from fluoroscope.federation.training_plan import TrainingPlan
from fluoroscope.integrations.checkpoints import record_of_states
from fluoroscope.integrations.pairs import open_updates
from fluoroscope.integrations.recorded import RecordedUpdate
from fluoroscope.scenarios.public_set import public_set
from fluoroscope.site.meter import check_own, unreadable
from fluoroscope.site.simulated import Simulated, simulated, without_own
from fluoroscope.site.time_left import TimeLeft
from fluoroscope.types import LabelledImages, LocalTraining, Network, PrivateBatch, UpdateRecord
from fluoroscope.types.network import Shape


@dataclass(frozen=True)
class Told:
    """One update: where it lies, and what is told about it beside its record. Plain values, as cells are."""

    folder: str
    client: str
    round: int
    public: str
    """The source of public images."""
    shape: Shape
    """Of an image, where the record does not say what was trained."""
    classes: tuple[str, ...]
    model: str | None = None
    """A plan's [model] as JSON, where the record names no network."""
    training: str = "{}"
    """A plan's [training] as JSON, where the record does not say how the client trained."""
    images: str | None = None
    """The source of the client's own images; None: they are not here."""
    holds: int | None = None
    """How many images it trained on, where neither its record nor its images say."""
    defences: str = "[]"
    """(name, settings) of what stood before the update, as JSON."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """An update that can be attacked."""

    record: UpdateRecord
    public: LabelledImages
    defence: Chain
    own: PrivateBatch | None
    """Only what scores a guess asks for it."""

    def ground(self, seed: int, time_left: TimeLeft) -> Simulated:
        """Simulated clients of public images that train and are defended as this one."""
        if why := unreadable(self.record):
            raise Unsupported(f"{why}.")
        return simulated(self.record, self.public, self.defence, seed, time_left)


def prepare(told: Told, seed: int) -> Prepared:
    """Read the update and the images.

    Raises:
        BadInput: a file is damaged, or images or arrays do not fit.
        Unsupported: it is not known what was trained, or on how many images.
    """
    updates = open_updates(Path(told.folder))
    about = updates.about(told.round, told.client)
    network = network_of(told, about)
    own = None if told.images is None else _own(told, network, _multi_label(told, about), seed)
    training = _training(told, about, own)
    states = updates.load(told.round, told.client)
    record = record_of_states(network, *states, training, round=told.round, client=told.client)
    if own is not None:
        check_own(record, own)
    named = told.classes if len(told.classes) == network.outputs else ()
    public = public_set(told.public, network, training, seed, named)
    public = public if own is None else without_own(public, own)
    return Prepared(record, public, build_defences([(name, said) for name, said in json.loads(told.defences)]), own)


def network_of(told: Told, about: RecordedUpdate) -> Network:
    """What the record names; otherwise what was told."""
    if told.model is not None:
        return planned_network(ModelPlan.model_validate_json(told.model), told.shape, told.classes, "the audit")
    if about.network is not None:
        return about.network.network()
    raise Unsupported("its record does not name a network: say what was trained with --model.")


def _training(told: Told, about: RecordedUpdate, own: PrivateBatch | None) -> LocalTraining:
    if about.training is not None:
        return about.training
    images = len(own) if own is not None else told.holds
    if images is None:
        raise Unsupported(
            f"on how many images {told.client} trained is not known: give its images, or --holds {told.client}=NUMBER."
        )
    plan = TrainingPlan.model_validate_json(told.training)
    return planned_training(plan, images, plan.batch_size, plan.epochs, plan.lr)


def _multi_label(told: Told, about: RecordedUpdate) -> bool:
    said: dict[str, Any] = json.loads(told.training)
    return about.training.loss.multi_label if about.training is not None else said.get("loss") == "multi-label"


def _own(told: Told, network: Network, multi_label: bool, seed: int) -> PrivateBatch:
    assert told.images is not None
    channels, height, width = network.input_shape
    wanted = Request(max(height, width), channels if channels in (1, 3) else None, seed=seed)
    found = load(told.images, wanted)
    if not len(found):
        raise BadInput(f"there is no image in {told.images}.")
    return in_classes(with_findings(found) if multi_label else found, told.classes).batch
