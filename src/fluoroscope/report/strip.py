"""The one picture of the first screen: three patients, each as known before, as recovered and as they are."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from fluoroscope.findings import NO_DEFENCE
from fluoroscope.report.embedded import data_uri
from fluoroscope.report.grades import gained
from fluoroscope.report.view import View

_PATIENTS = 3
_STAGES = ("prior", "reconstruction", "original")


@dataclass(frozen=True)
class Strip:
    """Rows of images under the names of their columns."""

    caption: Markup
    columns: Sequence[Markup]
    rows: Sequence[Sequence[tuple[str, str]]]
    """A row per patient: (data URI, words for those who do not see it)."""


def strip(view: View, label: str) -> Strip | None:
    """The first patients of the leakiest cell under a setting that has pictures of all three stages, if there is one.

    Which cell is chosen by its score; which patients is not.
    """
    cells = [
        (place, cell)
        for place, cell in view.done("reconstruction", "crafted-model")
        if cell.defence == label and cell.gallery and all(shown.prior for shown in cell.gallery)
    ]
    if not cells or not view.has_images:
        return None
    server = [placed for placed in cells if placed[1].kind == "reconstruction"]
    _, cell = max(server or cells, key=lambda placed: gained(placed[1]) or 0.0)
    words, alt = view.words, "picture.alt_blurred" if view.blur else "picture.alt"
    rows = []
    for number, shown in enumerate(cell.gallery[:_PATIENTS], 1):
        paths = (shown.prior or shown.original, shown.reconstruction, shown.original)
        rows.append(
            [
                (
                    data_uri(view.audit.folder, path, view.blur),
                    words.plain(alt, stage=words.plain(f"picture.{stage}"), number=number),
                )
                for stage, path in zip(_STAGES, paths, strict=True)
            ]
        )
    key = f"picture.{cell.threat}"
    setting = words.plain("setting.none") if label == NO_DEFENCE else f"“{label}”"
    caption = words.say(key if key in words else "picture.other", setting=setting)
    return Strip(caption, [words.say(f"picture.{stage}") for stage in _STAGES], rows)
