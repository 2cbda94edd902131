"""A fingerprint of settings and evidence: the same for the same content, in any process."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass

import torch
from torch import Tensor

from fluoroscope.types import Network


def digest(*content: object) -> str:
    """SHA-256 over dataclasses, mappings, sequences, sets, tensors and plain values."""
    fingerprint = hashlib.sha256()
    for piece in _pieces(content):
        fingerprint.update(len(piece).to_bytes(8, "big"))
        fingerprint.update(piece)
    return fingerprint.hexdigest()


def _pieces(value: object) -> Iterator[bytes]:
    """Each container with its length, so that no two contents share their pieces."""
    if isinstance(value, Tensor):
        yield f"{value.dtype} {tuple(value.shape)}".encode()
        yield value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    elif isinstance(value, Network):
        yield f"network {value.key}".encode()
    elif is_dataclass(value) and not isinstance(value, type):
        yield f"{type(value).__qualname__} {len(fields(value))}".encode()
        for f in fields(value):
            yield f.name.encode()
            yield from _pieces(getattr(value, f.name))
    elif isinstance(value, Mapping):
        yield f"mapping {len(value)}".encode()
        for key in sorted(value):
            yield from _pieces(key)
            yield from _pieces(value[key])
    elif isinstance(value, set | frozenset):
        yield from _pieces(sorted(value))
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        yield f"sequence {len(value)}".encode()
        for item in value:
            yield from _pieces(item)
    else:
        yield f"{type(value).__qualname__} {value!r}".encode()
