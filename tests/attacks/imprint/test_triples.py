"""Bins that belong together are found in the span of all bins, against sets that are known to belong together."""

import pytest
import torch

from fluoroscope.attacks.imprint.triples import find_triples

from .victims import rng

WIDTH, IMAGES, PIXELS = 40, 60, 200


def bins_of(members, seed=1):
    """The bins' sums of random images in the given bins (images, 3)."""
    rows = torch.zeros(3 * WIDTH, PIXELS, dtype=torch.float64)
    images = torch.randn(len(members), PIXELS, generator=rng(seed), dtype=torch.float64)
    for held in members.T:
        rows.index_add_(0, held, images)
    return rows


def scattered(images=IMAGES, seed=0):
    return torch.randint(0, WIDTH, (images, 3), generator=rng(seed)) + WIDTH * torch.arange(3)


@pytest.mark.parametrize("noise", [0.0, 1e-3])
def test_every_image_s_own_triple_is_found_and_hardly_another(noise):
    members = scattered()
    rows = bins_of(members)
    rows = rows + noise * torch.randn(rows.shape, generator=rng(3), dtype=torch.float64)
    found = {tuple(each) for each in find_triples(rows, WIDTH, IMAGES, 1e-3).members.tolist()}
    own = {tuple(each) for each in members.tolist()}
    assert own <= found
    assert len(found - own) <= 8, "of 64 000: sums of others that happen to be a triple again"


def test_a_misfit_equals_the_slow_projection():
    """Without noise: what is left of the triple's indicator beside the span of the bins' columns."""
    members = scattered()
    rows = bins_of(members)
    found = find_triples(rows, WIDTH, IMAGES, 0.5)
    span = torch.linalg.qr(torch.linalg.svd(rows)[0][:, :IMAGES])[0]
    for triple, misfit in zip(found.members[::50], found.misfits[::50].tolist(), strict=True):
        indicator = torch.zeros(3 * WIDTH, dtype=torch.float64)
        indicator[triple] = 1
        outside = indicator - span @ (span.T @ indicator)
        assert misfit == pytest.approx(float(outside.square().sum()), abs=2e-3)


def test_the_noise_is_read_from_the_spectrum():
    rows = bins_of(scattered())
    rows = rows + 1e-3 * torch.randn(rows.shape, generator=rng(3), dtype=torch.float64)
    assert 0.5e-3 < find_triples(rows, WIDTH, IMAGES, 1e-3).noise < 3e-3


@pytest.mark.parametrize(("images", "claimed"), [(IMAGES, 3 * WIDTH), (IMAGES, PIXELS), (0, 0)])
def test_where_the_span_excludes_nothing_it_says_so(images, claimed):
    assert find_triples(bins_of(scattered(images)), WIDTH, claimed, 1e-3) is None


def test_noise_alone_holds_no_triple():
    rows = torch.randn(3 * WIDTH, PIXELS, generator=rng(), dtype=torch.float64)
    assert not len(find_triples(rows, WIDTH, IMAGES, 1e-2).members)
