"""The pictures of a cell: where each lies in the audit's folder, and how it is written there."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from PIL import Image
from torch import Tensor

from fluoroscope.atomic_write import make_folder, write_bytes
from fluoroscope.audit.scored import finite
from fluoroscope.errors import BadInput
from fluoroscope.findings import Shown


def shown(cell: str, captions: Sequence[str], scores: Sequence[Mapping[str, float]]) -> tuple[Shown, ...]:
    """The pictures of the cell of this id, in order; the prior is one for all of them."""
    return tuple(
        Shown(
            original=f"gallery/{cell}-{i}-original.png",
            reconstruction=f"gallery/{cell}-{i}-reconstruction.png",
            prior=f"gallery/{cell}-prior.png",
            caption=caption,
            scores={name: finite(value) for name, value in measured.items()},
        )
        for i, (caption, measured) in enumerate(zip(captions, scores, strict=True))
    )


def check_images(gallery: Sequence[Shown], images: Mapping[str, Tensor]) -> None:
    """Refuse a gallery of which an image is missing."""
    if gallery and not {"original", "reconstruction", "prior"} <= set(images):
        raise BadInput(f"the images of {gallery[0].caption!r} are missing: only {', '.join(images) or 'none'} there.")
    for name in ("original", "reconstruction") if gallery else ():
        if len(images[name]) < len(gallery):
            raise BadInput(f"{len(gallery)} images are to be shown, and there are {len(images[name])} of {name!r}.")


def write_gallery(gallery: Sequence[Shown], images: Mapping[str, Tensor], out: Path) -> None:
    """Each picture as a PNG in the folder."""
    for i, each in enumerate(gallery):
        _write(images["original"][i], out / each.original)
        _write(images["reconstruction"][i], out / each.reconstruction)
        if each.prior is not None:
            _write(images["prior"], out / each.prior)


def _write(image: Tensor, path: Path) -> None:
    make_folder(path.parent)
    written, pixels = io.BytesIO(), (image.nan_to_num().clamp(0, 1) * 255).round().byte().permute(1, 2, 0).numpy()
    Image.fromarray(pixels if pixels.shape[2] == 3 else pixels[:, :, 0]).save(written, "PNG")
    write_bytes(path, written.getvalue())
