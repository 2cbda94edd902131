"""Masks between two clients that cancel where both were sent the same: 256 bits that nobody can try out.

Flower draws its own masks from seeds of 32 bits. A server that knows a part of the sum can try them all, so what must
stay noise gets these on top.
"""

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

Ints = np.ndarray[Any, Any]


def with_pair_masks(
    arrays: Sequence[Ints], own: int, secrets: Mapping[int, bytes], digest: bytes, modulus: int
) -> list[Ints]:
    """Masked arrays with a mask more per neighbour.

    Args:
        arrays: whole numbers below the modulus.
        own: this client's id; of two, the larger adds and the other subtracts.
        secrets: by neighbour's id, what the two share and the server never sees.
        digest: of what this client was sent.
        modulus: that sums are taken by.
    """
    total = [np.asarray(array, dtype=np.int64).copy() for array in arrays]
    for neighbour, secret in secrets.items():
        key = hmac.digest(secret, b"fluoroscope pair mask" + digest, hashlib.sha256)
        sign = 1 if own > neighbour else -1
        stream = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()  # a key is used once: no nonce is needed
        for array in total:
            drawn = np.frombuffer(stream.update(bytes(8 * array.size)), dtype="<u8") % np.uint64(modulus)
            array += sign * drawn.astype(np.int64).reshape(array.shape)
            array %= modulus
    return total
