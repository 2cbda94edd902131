"""How large an image may be, and what decoding it may cost. A file far smaller than what it unpacks to is a bomb."""

from fluoroscope.errors import BadInput

MOST_PIXELS = 2**25
"""Of one image: 8192 x 4096. Mammograms have 23 million."""
MOST_VOXELS = 2**28
"""Of one volume: 512 x 512 x 1024."""
MOST_BYTES = 2**33
"""That a decoder may give back of one file."""
_MEMORY, _MEMORY_PER_BYTE = 3 * 2**29, 32
"""Bytes that any file may take, and those that each byte of it may take beside them."""
_SECONDS, _SECONDS_PER_MEGABYTE = 10.0, 1.0


def check_pixels(height: int, width: int) -> None:
    """Refuse an image before its pixels are unpacked."""
    if height < 1 or width < 1:
        raise BadInput(f"is {width} x {height} pixels, which is no image")
    if height * width > MOST_PIXELS:
        raise BadInput(f"is {width} x {height} pixels; at most {MOST_PIXELS:,} are read")


def check_voxels(shape: tuple[int, ...]) -> None:
    """The same of a volume; of a series, of each of its volumes."""
    voxels = 1
    for side in shape[:3]:
        voxels *= side
    if voxels > MOST_VOXELS:
        raise BadInput(f"is {' x '.join(map(str, shape[:3]))} voxels; at most {MOST_VOXELS:,} are read")


def most_memory(file_bytes: int) -> int:
    """Bytes that decoding a file of this size may take."""
    return _MEMORY + _MEMORY_PER_BYTE * file_bytes


def most_seconds(file_bytes: int) -> float:
    """Seconds that it may take."""
    return _SECONDS + _SECONDS_PER_MEGABYTE * file_bytes / 1e6
