"""Every random draw comes from a generator derived from a seed and the role it plays.

`generator(seed, "client", 3, "round", 7)` is the same stream on every machine, in every process
and in every order of evaluation, so results do not depend on how the work was spread.
"""

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

_WORDS = slice(3, 3 + 624)


def derive(seed: int, *role: str | int) -> int:
    """A 63 bit seed for this role; different roles give unrelated seeds."""
    text = "/".join(map(repr, (seed, *role)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *role: str | int) -> torch.Generator:
    """A CPU generator: draws are moved to the device, so that every device sees the same ones.

    Args:
        seed: of the whole.
        role: what it is for; other roles give unrelated streams.

    Example:
        >>> import torch
        >>> import fluoroscope as fl
        >>> a, b = fl.generator(0, "client", 3), fl.generator(0, "client", 3)
        >>> torch.equal(torch.rand(2, generator=a), torch.rand(2, generator=b))
        True
    """
    return torch.Generator().manual_seed(derive(seed, *role))


def secret_generator(key: bytes) -> torch.Generator:
    """A generator that nobody can guess who has not the key: its whole state is drawn from it.

    A seed would not do where noise must hide something: torch uses 32 bits of one, which are tried in minutes.

    Args:
        key: 32 secret bytes or more.
    """
    made = torch.Generator().manual_seed(0)
    state = made.get_state().numpy().view(np.uint64).copy()
    # As torch lays it out: seed, counters, next, then the 624 words of the Mersenne twister.
    state[_WORDS] = np.frombuffer(hashlib.shake_256(key).digest(4 * 624), dtype=np.uint32)
    made.set_state(torch.from_numpy(state.view(np.uint8)))
    return made


def numpy_generator(seed: int, *role: str | int) -> np.random.Generator:
    """The same for code that speaks numpy."""
    return np.random.default_rng(derive(seed, *role))


@contextmanager
def seeded_globals(seed: int) -> Iterator[None]:
    """Seeds the global generators for code that knows no other (dropout, Flower's sampling), then restores them."""
    python_state, numpy_state = random.getstate(), np.random.get_state()
    with torch.random.fork_rng():
        random.seed(seed)
        np.random.seed(seed % 2**32)
        torch.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)
