"""A place for the meter: until it is there, nothing can be judged."""

from pathlib import Path

from fluoroscope.defences import Defence
from fluoroscope.site.reading import Metered, not_judged
from fluoroscope.types import LabelledImages, PrivateBatch, UpdateRecord


def meter(
    record: UpdateRecord,
    own: PrivateBatch,
    *,
    public: LabelledImages | None = None,
    defence: Defence | None = None,
    seed: int = 0,
    seconds: float | None = None,
    kept: Path | None = None,
) -> Metered:
    """What a curious server could read of this update."""
    return not_judged("There is no meter yet.")
