"""Cells between their run and the findings: typed when they are made, and typed again when they are read back."""

import logging
from collections.abc import Iterable, Mapping

from pydantic import ValidationError
from torch import Tensor

from fluoroscope.audit.gallery import check_images
from fluoroscope.cells import CellStore, Result
from fluoroscope.errors import BadInput
from fluoroscope.findings import Finding

_LOG = logging.getLogger(__name__)


def result_of(finding: Finding, images: Mapping[str, Tensor] | None = None) -> Result:
    """A finding as the cells' engine carries it and their store keeps it; `images` are those of its gallery."""
    return Result({}, images=images or {}, notes=finding.model_dump(mode="json", exclude_unset=True))


def finding_of(result: Result) -> Finding:
    """The finding that `result_of` was given.

    Raises:
        BadInput: where it is of another version, or damaged.
    """
    try:
        finding = Finding.model_validate(result.notes)
    except ValidationError as problem:
        first = problem.errors()[0]
        raise BadInput(f"its notes: {'.'.join(map(str, first['loc']))}: {first['msg']}.") from problem
    check_images(finding.gallery, result.images)
    return finding


def unreadable(store: CellStore, name: str) -> str | None:
    """Why the cell that is kept under this name cannot be used; None where it can, or where there is none."""
    try:
        if found := store.load(name):
            finding_of(found[0])
    except (BadInput, TypeError) as problem:  # TypeError: JSON, but not a cell's
        return str(problem).rstrip(".")
    return None


def discard_unreadable(store: CellStore, names: Iterable[str]) -> None:
    """Take what is damaged or of another version out of the store, so that it is run again; each is logged."""
    for name in names:
        if problem := unreadable(store, name):
            _LOG.warning("the finished cell %s cannot be read (%s): it is run again.", name, problem)
            for path in store.folder.glob(f"{name}.*"):
                path.unlink()
