"""The sum of the fewest parts, against parts that are known."""

import pytest
import torch

from fluoroscope.attacks.imprint.fewest import fewest

from .victims import rng


def example(bins, images, decoys, seed):
    """Images in one bin of each of three features; decoys are triples that images' own triples add up to."""
    draw = rng(seed)
    true = torch.unique(torch.randint(bins, (images, 3), generator=draw), dim=0)
    false = torch.unique(torch.randint(bins, (decoys, 3), generator=draw), dim=0)
    false = false[~(false[:, None] == true[None]).all(2).any(1)]
    triples = torch.cat([true, false]) + bins * torch.arange(3)
    design = torch.zeros(3 * bins, len(triples), dtype=torch.float64)
    design[triples, torch.arange(len(triples))[:, None]] = 1
    parts = torch.zeros(len(triples), 400, dtype=torch.float64)
    parts[: len(true)] = torch.randn((len(true), 400), generator=draw, dtype=torch.float64)
    return design, design @ parts, parts.norm(dim=1) > 0


@pytest.mark.parametrize("seed", range(5))
def test_more_parts_than_equations_are_told_by_their_number(seed):
    design, seen, true = example(bins=12, images=18, decoys=40, seed=seed)
    assert design.shape[1] > len(design)
    assert torch.equal(fewest(design, seen, 1e-6), true)


def test_nothing_seen_needs_no_part():
    design, seen, _ = example(bins=12, images=18, decoys=40, seed=0)
    assert not fewest(design, torch.zeros_like(seen), 1e-6).any()


def test_the_arguments_are_left_as_they_were():
    design, seen, _ = example(bins=12, images=18, decoys=40, seed=0)
    before = design.clone(), seen.clone()
    fewest(design, seen, 1e-6)
    assert torch.equal(design, before[0])
    assert torch.equal(seen, before[1])
