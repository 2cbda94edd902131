import random

import numpy as np
import torch

from fluoroscope.rng import derive, generator, numpy_generator, seeded_globals


def test_a_role_has_its_own_stream_everywhere():
    assert derive(0, "client", 1) == derive(0, "client", 1)
    assert len({derive(s, r, i) for s in range(5) for r in ("a", "b") for i in range(5)}) == 50
    assert derive(0, "1") != derive(0, 1)
    assert derive(0, "client", 1) == 1486508375574212374  # on every machine
    assert torch.equal(torch.rand(3, generator=generator(1, "x")), torch.rand(3, generator=generator(1, "x")))
    assert numpy_generator(1, "x").random() == numpy_generator(1, "x").random()


def test_global_generators_come_back_as_they_were():
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    expected = (random.random(), np.random.rand(), torch.rand(1))
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    with seeded_globals(5):
        first = (random.random(), np.random.rand(), torch.rand(1))
    assert (random.random(), np.random.rand(), torch.rand(1)) == expected
    with seeded_globals(5):
        assert (random.random(), np.random.rand(), torch.rand(1)) == first
