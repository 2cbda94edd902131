"""What files of others hold: decoded in a process that may die, with limits on memory, time and pixels.

Nothing in here imports torch: for images the process starts in a fraction of a second.
"""

from fluoroscope.decoders.apart import bytes_apart, decode_apart
from fluoroscope.decoders.decoded import Arrays

__all__ = ["Arrays", "bytes_apart", "decode_apart"]
