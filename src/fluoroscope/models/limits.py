"""What every architecture of the house accepts: any channels, sides from 28 pixels, two classes or more."""

from fluoroscope.errors import Misconfigured
from fluoroscope.models.architecture import Architecture

SMALLEST = 28  # MedMNIST's size, and P2's: nothing in the papers is smaller


def check_limits(architecture: Architecture) -> None:
    """Refuses what no builder can make, before torch does with a message about shapes."""
    name = architecture.name
    if min(architecture.height, architecture.width) < SMALLEST:
        raise Misconfigured(f"{name} takes images of size {SMALLEST} or more, not {architecture.size}. Enlarge them.")
    if architecture.channels < 1:
        raise Misconfigured(f"{name} takes 1 channel or more, not {architecture.channels}.")
    if architecture.classes < 2:
        raise Misconfigured(f"{name} tells 2 classes or more apart, not {architecture.classes}.")
