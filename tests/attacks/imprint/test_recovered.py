"""Recovered images: the surest of those that are the same, and those above a confidence."""

import torch

from fluoroscope.attacks.imprint import Recovered, merged

from .victims import rng


def recovered(images, confidence):
    return Recovered(images, torch.tensor(confidence))


def test_of_the_same_image_the_surest_is_kept():
    a, b, c = torch.rand((3, 1, 1, 8, 8), generator=rng())
    close = a + 0.01
    found = merged([recovered(torch.cat([a, b]), [0.5, 0.9]), recovered(torch.cat([close, c, b]), [0.7, 0.2, 0.1])])
    assert torch.equal(found.images, torch.cat([b, close, c]))
    torch.testing.assert_close(found.confidence, torch.tensor([0.9, 0.7, 0.2]))


def test_how_near_is_the_same_is_the_mean_square():
    a = torch.rand((1, 1, 8, 8), generator=rng())
    for gap, kept in ((0.09, 1), (0.11, 2)):
        assert len(merged([recovered(torch.cat([a, a + gap]), [1.0, 0.9])], apart=0.01)) == kept
    assert len(merged([recovered(torch.cat([a, a, a + 1e-3]), [1.0, 0.9, 0.8])], apart=0.0)) == 2


def test_equally_sure_copies_leave_the_first():
    a = torch.rand((1, 1, 8, 8), generator=rng())
    found = merged([recovered(torch.cat([a, a + 1e-4]), [0.5, 0.5])])
    assert torch.equal(found.images, a)


def test_merging_nothing_gives_nothing():
    nothing = recovered(torch.empty(0, 1, 8, 8), [])
    assert len(merged([nothing, nothing])) == 0
    assert merged([nothing]).images.shape == (0, 1, 8, 8)


def test_merging_changes_no_part():
    part = recovered(torch.rand((2, 1, 8, 8), generator=rng()), [0.1, 0.9])
    before = part.images.clone()
    merged([part, part])
    assert torch.equal(part.images, before)


def test_above_keeps_a_confidence_and_what_exceeds_it():
    images = torch.rand((3, 1, 8, 8), generator=rng())
    found = recovered(images, [0.5, 0.25, 0.75]).above(0.5)
    assert torch.equal(found.images, images[[0, 2]])
    assert found.confidence.tolist() == [0.5, 0.75]
    assert len(found) == 2
    assert len(found.above(1.0)) == 0
