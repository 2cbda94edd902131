"""A site's door from one file: its policy, and what the site knows of the federation and of its own images."""

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor

from fluoroscope.data import Request, load
from fluoroscope.data.classes import in_classes
from fluoroscope.data.multi_label import with_findings
from fluoroscope.defences import NO_DEFENCE, Chain
from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.federation.planned import planned_network, planned_training
from fluoroscope.federation.settings import build_defences
from fluoroscope.rng import generator
from fluoroscope.scenarios.public_set import public_set
from fluoroscope.site.control import SiteControl
from fluoroscope.site.ledger import Ledger
from fluoroscope.site.policy import Policy, SiteTable, read_policy
from fluoroscope.site.subject import Subject
from fluoroscope.types import (
    ImageSet,
    LabelledImages,
    LocalTraining,
    Network,
    PrivateBatch,
    UpdateRecord,
    blueprint,
)


def open_site(policy_path: Path | str, ledger: Path | str | None = None) -> SiteControl:
    """The door that an `appetite.toml` describes.

    Args:
        policy_path: the file.
        ledger: in the place of the one that the file names.

    Raises:
        BadInput: the file, the images or the model cannot be read.
        Misconfigured: a key is wrong, or what it asks for cannot be done at a site's door.
    """
    policy = read_policy(Path(policy_path))
    kept = None if policy.site.kept is None else Path(policy.site.kept)
    return SiteControl(policy, Ledger(Path(ledger or policy.site.ledger)), subject_of(policy), kept)


def subject_of(policy: Policy) -> Subject:
    """What the policy's tables [site], [model], [training] and [[defence]] tell of what passes."""
    multi_label = policy.training is not None and policy.training.loss == "multi-label"
    own = None if policy.site.images is None else OwnImages(policy.site.model_dump_json(), multi_label)
    images = None if own is None else own.image_set()
    network = _network(policy, images)
    training = _training(policy, images)
    subject = Subject(network, training, own, _public(policy, network, training, images), _defence(policy))
    _try_defence(subject)
    return subject


@dataclass(frozen=True)
class OwnImages:
    """The site's own images, read once per process."""

    site: str
    """The table [site], as JSON."""
    multi_label: bool

    def __call__(self) -> PrivateBatch:
        return self.image_set().batch

    def image_set(self) -> ImageSet:
        return _own_images(self.site, self.multi_label)


@dataclass(frozen=True, eq=False)
class PublicImages:
    """Public images as the network takes them, read when they are first asked for."""

    source: str
    """A folder, or what `data show` takes."""
    network: Network
    training: LocalTraining
    classes: tuple[str, ...]
    transposed: bool = False

    def __call__(self) -> LabelledImages:
        return _public_images(self)


@lru_cache(maxsize=2)
def _own_images(site: str, multi_label: bool) -> ImageSet:
    said = SiteTable.model_validate_json(site)
    assert said.images is not None
    found = load(said.images, Request(said.size, said.channels))
    if not len(found):
        raise BadInput(f"site.images: there is no image in {said.images}.")
    if said.transposed:
        found = replace(found, batch=replace(found.batch, images=_turned(found.batch.images)))
    found = with_findings(found) if multi_label else found
    return found if said.classes is None else in_classes(found, said.classes)


@lru_cache(maxsize=2)
def _public_images(public: PublicImages) -> LabelledImages:
    found = public_set(public.source, public.network, public.training, seed=0, classes=public.classes)
    return replace(found, images=_turned(found.images)) if public.transposed else found


def _turned(images: Tensor) -> Tensor:
    if images.shape[2] != images.shape[3]:
        raise Misconfigured(f"site.transposed is for square images, not {tuple(images.shape[2:])}: set site.size.")
    return images.transpose(2, 3).contiguous()


def _network(policy: Policy, images: ImageSet | None) -> Network | None:
    if policy.model is None:
        return None
    if images is not None:
        return planned_network(policy.model, images.shape, images.classes, images.name)
    site = policy.site
    if site.size is None or site.classes is None:
        raise Misconfigured("[model] needs site.images, or site.size and site.classes: what goes in, what comes out.")
    return planned_network(policy.model, (site.channels or 1, site.size, site.size), site.classes, "site.classes")


def _training(policy: Policy, images: ImageSet | None) -> LocalTraining | None:
    said = policy.training
    if said is None or images is None:
        return None
    if said.lr_decay != 1:
        raise Misconfigured("training.lr_decay is not for a site's policy: give the learning rate of the rounds here.")
    training = planned_training(said, len(images), said.batch_size, said.epochs, said.lr)
    training.loss(torch.zeros(len(images.batch.labels[:2]), len(images.classes)), images.batch.labels[:2])
    if training.normalisation is not None:
        training.normalisation.check_channels(images.channels)
    return training


def _public(
    policy: Policy, network: Network | None, training: LocalTraining | None, images: ImageSet | None
) -> PublicImages | None:
    if policy.site.public is None or network is None or training is None or images is None:
        return None
    return PublicImages(policy.site.public, network, training, images.classes, policy.site.transposed)


def _defence(policy: Policy) -> Chain:
    if not policy.defence:
        return NO_DEFENCE
    built = build_defences([(part.name, part.settings) for part in policy.defence])
    names = ", ".join(part.name for part in policy.defence)
    if built.training is not None or built.cohort is not None or built.encryption is not None:
        raise Misconfigured(
            f"[[defence]] {names}: at a site's door stands what changes an update before it leaves, such as "
            "clip-and-noise, pruning or fed-bn; training, encryption and noise at the server are the application's."
        )
    return built


def _try_defence(subject: Subject) -> None:
    """What cannot work is said here, and not when the first update is withheld."""
    if subject.network is None or subject.training is None:
        if subject.defence.parts:
            raise Misconfigured("[[defence]] needs [model], [training] and site.images, to know what it defends.")
        return
    state = blueprint(subject.network).state_dict()
    record = UpdateRecord.between(subject.network, state, state, subject.training)
    subject.defence.send(record, generator(0))
