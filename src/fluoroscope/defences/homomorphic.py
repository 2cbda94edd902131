"""Homomorphic encryption of all or of chosen layers: the server adds what it cannot read (CKKS, by TenSEAL)."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fluoroscope.atomic_write import write_new
from fluoroscope.defences.contract import Participation
from fluoroscope.defences.hidden_layers import chosen
from fluoroscope.defences.registry import DEFENCES
from fluoroscope.errors import BadInput, Unsupported
from fluoroscope.types import PrivacyClaim, State, UpdateRecord

SLOTS = 4096
"""Values in a ciphertext: half of the ring's 8192."""


@DEFENCES.register("homomorphic-encryption")
@dataclass(frozen=True)
class HomomorphicEncryption:
    """Clients share a secret key; the server has the public one, which stands in every ciphertext's context.

    What is encrypted is each client's weighted change, so the sum of the ciphertexts is the weighted mean.
    """

    key: str
    """The clients' secret key: a file, made at the first use where it does not exist. The server must not have it."""
    layers: tuple[str, ...] = ()
    """Which ones; none means all."""

    def claim(self, participation: Participation) -> PrivacyClaim:
        return PrivacyClaim(statement="not differential privacy: the sum is exact, and every client can read it")

    def send(self, record: UpdateRecord, rng: torch.Generator) -> UpdateRecord:
        """What of it the server can read: the other layers."""
        sealed = self.sealed(record)

        def open_part(state: State) -> dict[str, Tensor]:
            return {name: value for name, value in state.items() if name not in sealed}

        buffers = None if record.buffers_after is None else open_part(record.buffers_after)
        return replace(
            record,
            state_after=open_part(record.state_after),
            buffers_after=buffers if buffers or not record.buffers_before else None,
        )

    def sealed(self, record: UpdateRecord) -> list[str]:
        """The names that are encrypted, in their order; BatchNorm's counters are no secret."""
        known = {**record.state_before, **record.buffers_before}
        names = chosen(self.layers, known) if self.layers else set(known)
        sent = {**record.state_after, **(record.buffers_after or {})}
        return [name for name, value in sent.items() if name in names and value.is_floating_point()]

    def encrypt(self, record: UpdateRecord, weight: float) -> list[bytes]:
        """The weighted change of the sealed names."""
        before = {**record.state_before, **record.buffers_before}
        after = {**record.state_after, **(record.buffers_after or {})}
        names = self.sealed(record)
        change = torch.cat([(after[name] - before[name]).flatten().double() for name in names]) * weight
        context = _secret(self.key)
        return [_tenseal().ckks_vector(context, part.tolist()).serialize() for part in torch.split(change.cpu(), SLOTS)]

    def decrypt(self, ciphertexts: Sequence[bytes], state: State, names: Iterable[str]) -> dict[str, Tensor]:
        """The state with the sum of all changes so far added to the sealed names."""
        context = _secret(self.key)
        values = [x for part in ciphertexts for x in _tenseal().ckks_vector_from(context, part).decrypt()]
        left = torch.tensor(values, dtype=torch.float64)
        moved, place = dict(state), 0
        for name in names:
            count = state[name].numel()
            change = left[place : place + count].reshape(state[name].shape)
            moved[name] = (state[name].double() + change.to(state[name].device)).to(state[name].dtype)
            place += count
        return moved

    def public_context(self) -> bytes:
        """What the server may have: it can add ciphertexts, and decrypt none."""
        context = _secret(self.key).copy()
        context.make_context_public()
        return bytes(context.serialize(save_secret_key=False))

    def add(self, context: bytes, sums: Sequence[Sequence[bytes]]) -> list[bytes]:
        """Ciphertext by ciphertext, on the server's side; the key is not read."""
        opened = _public(context)
        return [_add(opened, parts) for parts in _aligned(sums)]


def _add(context: Any, parts: Sequence[bytes]) -> bytes:  # noqa: ANN401  # TenSEAL has no types
    total = _tenseal().ckks_vector_from(context, parts[0])
    for part in parts[1:]:
        total += _tenseal().ckks_vector_from(context, part)
    return bytes(total.serialize())


def _aligned(sums: Sequence[Sequence[bytes]]) -> Iterator[tuple[bytes, ...]]:
    if len({len(parts) for parts in sums}) > 1:
        raise BadInput("clients sent different numbers of ciphertexts: they do not encrypt the same layers.")
    return zip(*sums, strict=True)


@lru_cache(maxsize=4)
def _secret(key: str) -> Any:  # noqa: ANN401
    path = Path(key)
    if not path.exists():
        ts = _tenseal()
        # 1 M floats err by 2e-8 with these; a smaller ring would err by 1e-2.
        context = ts.context(ts.SCHEME_TYPE.CKKS, poly_modulus_degree=2 * SLOTS, coeff_mod_bit_sizes=[60, 40, 60])
        context.global_scale = 2**40
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):  # another client of this machine was quicker
            write_new(path, context.serialize(save_secret_key=True), private=True)
    try:
        return _tenseal().context_from(path.read_bytes())
    except (OSError, ValueError, RuntimeError) as problem:
        raise BadInput(f"{path} is no secret key ({problem}): delete it, and a new one is made.") from problem


@lru_cache(maxsize=4)
def _public(context: bytes) -> Any:  # noqa: ANN401
    return _tenseal().context_from(context)


def _tenseal() -> Any:  # noqa: ANN401
    try:
        import tenseal
    except ImportError as problem:
        raise Unsupported(
            "homomorphic-encryption needs TenSEAL, which is not installed: pip install fluoroscope[he]."
        ) from problem
    return tenseal
