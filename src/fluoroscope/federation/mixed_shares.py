"""A secret whose shares open only for those who hold the same digest.

Instead of a seed, a client deals a straight line: seed(digest) = first + digest * second, in the field of Shamir's
shares. A holder sends one point of the line, at its own digest; sharing is linear, so that equal digests combine to the
seed at that digest, with Flower's own `combine_shares`. A point at one digest says nothing of the seed at another:
`second` is drawn anew each time, and each line is asked for once.
"""

from flwr.common.secure_aggregation.crypto.shamir import create_shares

_BLOCK = 16
_BLOCKS = 2
SECRET = _BLOCK * _BLOCKS
"""Bytes of a seed, of a slope and of a digest."""
_INDEX = 4
_SHARE = _INDEX + SECRET + _BLOCK
"""Bytes of Flower's share of a seed: the holder's number, the seed's blocks, a block of padding."""
_FIELD = (1 << 128) + 0b10000111
"""GF(2^128) by x^128 + x^7 + x^2 + x + 1, as PyCryptodome's shares, which Flower takes."""


def mixed_seed(first: bytes, second: bytes, digest: bytes) -> bytes:
    """The line's value at the digest; all three are 32 bytes.

    Example:
        >>> two = (2).to_bytes(16, "big") * 2
        >>> three = (3).to_bytes(16, "big") * 2
        >>> mixed_seed(bytes(32), two, three) == (6).to_bytes(16, "big") * 2
        True
    """
    return b"".join(
        (_number(first, i) ^ _times(_number(second, i), _number(digest, i))).to_bytes(_BLOCK, "big")
        for i in range(_BLOCKS)
    )


def dealt(first_shares: dict[int, bytes], second: bytes, threshold: int, number: int) -> dict[int, bytes]:
    """Flower's shares of `first`, by holder, each with the same holder's share of `second` behind it."""
    slopes = create_shares(second, threshold, number)
    return {
        holder: share + slopes[int.from_bytes(share[:_INDEX], "little") - 1][_INDEX : _INDEX + SECRET]
        for holder, share in first_shares.items()
    }


def is_mixed(share: bytes) -> bool:
    """Whether a share has both parts."""
    return len(share) == _SHARE + SECRET


def opened(share: bytes, digest: bytes) -> bytes:
    """A dealt share at the holder's digest: a share of the seed, in Flower's own form."""
    first, second = share[:_SHARE], share[_SHARE:]
    seed = mixed_seed(first[_INDEX : _INDEX + SECRET], second, digest)
    return first[:_INDEX] + seed + first[_INDEX + SECRET :]


def _number(value: bytes, block: int) -> int:
    return int.from_bytes(value[block * _BLOCK : (block + 1) * _BLOCK], "big")


def _times(a: int, b: int) -> int:
    product = 0
    while b:
        if b & 1:
            product ^= a
        a <<= 1
        if a >> 128:
            a ^= _FIELD
        b >>= 1
    return product
