"""What files of images hold, as arrays: decoded in a process that may die, with limits on memory, time and pixels.

Nothing in here imports torch: the process starts in a fraction of a second.
"""

from fluoroscope.decoders.apart import decode_apart
from fluoroscope.decoders.decoded import Arrays

__all__ = ["Arrays", "decode_apart"]
