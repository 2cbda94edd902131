"""From the options of `fluoroscope meter` to a record, the site's own images and public ones."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from fluoroscope.cli.training_options import TrainingOptions
from fluoroscope.data import Request, load
from fluoroscope.data.classes import in_classes
from fluoroscope.data.multi_label import with_findings
from fluoroscope.defences import Chain
from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.federation.described import described_model, described_training
from fluoroscope.federation.planned import planned_network, planned_training
from fluoroscope.federation.settings import build_defences
from fluoroscope.integrations.checkpoints import record_of_files
from fluoroscope.scenarios.public_set import public_set
from fluoroscope.types import ImageSet, LabelledImages, UpdateRecord


@dataclass(frozen=True, eq=False)
class Inputs:
    """What the meter is given."""

    record: UpdateRecord
    own: ImageSet
    public: LabelledImages | None
    defence: Chain


def read_inputs(
    before: Path,
    after: Path,
    model: str,
    images: str,
    public: str | None,
    trained: TrainingOptions,
    seed: int,
) -> Inputs:
    """Read all files; the first thing that is wrong is named."""
    importable_here()
    settings = described_training(trained.plain_training())
    own = load(images, Request(trained.size, seed=seed))
    if not len(own):
        raise BadInput(f"there is no image in {images}.")
    own = with_findings(own) if settings.loss == "multi-label" else own
    names = _class_names(own, public, trained.class_names, settings.loss == "multi-label", seed)
    own = in_classes(own, names)
    described = described_model(model, trained.arguments)
    try:
        network = planned_network(described, own.shape, names, own.name)
    except Misconfigured as problem:
        raise Misconfigured(f"{problem} --classes names all of them, --model-argument sets the others.") from problem
    local = planned_training(settings, len(own), settings.batch_size, settings.epochs, settings.lr)
    if local.normalisation is not None:
        local.normalisation.check_channels(own.channels)
    record = record_of_files(network, before, after, local)
    others = None if public is None else public_set(public, network, local, seed, names)
    return Inputs(record, own, others, build_defences(trained.defences))


def importable_here() -> None:
    """`package:function` is looked for in the working directory too, as `python -m` does."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)


def _class_names(
    own: ImageSet, public: str | None, classes: list[str] | None, multi_label: bool, seed: int
) -> list[str]:
    """As told, or those of the site's own images and of the public ones together, sorted."""
    if classes is not None:
        return classes
    if public is None or public.startswith("phantom/"):
        return list(own.classes)
    found = load(public, Request(own.size, seed=seed))
    return sorted({*own.classes, *(with_findings(found) if multi_label else found).classes})
