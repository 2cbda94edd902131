"""Public images that somebody brings along, in the place of the plan's auxiliary ones."""

from collections.abc import Sequence

from fluoroscope.data import Request, load
from fluoroscope.data.classes import in_classes
from fluoroscope.data.multi_label import with_findings
from fluoroscope.errors import BadInput
from fluoroscope.types import LabelledImages, LocalTraining, Network

MOST = 2000
"""Images of a public source that are used; a stratified sample of a larger one."""


def public_set(
    source: str, network: Network, training: LocalTraining, seed: int, classes: Sequence[str] = ()
) -> LabelledImages:
    """The images of a source such as `folder:PATH`, as the network takes them.

    With `classes`, labels are told by their names, in this order; several findings per image need them.

    Raises:
        BadInput: they cannot be brought into that shape, or their labels are not the network's.
    """
    channels, height, width = network.input_shape
    known = channels if channels in (1, 3) else None
    # Phantoms are made to order, and so many do for a rehearsal.
    most = MOST // 4 if source.startswith("phantom/") else MOST
    found = load(source, Request(size=max(height, width), channels=known, images=most, seed=seed))
    if found.shape != network.input_shape:
        raise BadInput(
            f"{source} gives images of the shape {found.shape}, and {network.name} takes {network.input_shape}."
        )
    if classes:
        found = in_classes(with_findings(found) if training.loss.multi_label else found, classes)
    elif training.loss.multi_label or len(found.classes) > network.outputs:
        raise BadInput(
            f"{source} has the classes {', '.join(found.classes)}, and {network.name} is trained on others: sort the "
            "public images into its classes."
        )
    batch = found.batch
    return LabelledImages(batch.images, batch.labels, batch.patients)
