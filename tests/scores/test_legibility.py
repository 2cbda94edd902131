"""Reading against the phantoms that were written on, numpy's correlation, and guessing."""

import math

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter

from fluoroscope.data.phantoms import BRAIN, CHEST, FUNDUS, burned_label, phantoms
from fluoroscope.data.phantoms.burn_in import stamp
from fluoroscope.data.phantoms.font import glyph
from fluoroscope.data.sources import Request
from fluoroscope.errors import BadInput
from fluoroscope.scores.intervals import wilson
from fluoroscope.scores.legibility import Reading, Writing, cells, dot_size, legibility, read

KINDS = {kind.name: kind for kind in (CHEST, FUNDUS, BRAIN)}


def writing(kind, index, size):
    label = burned_label(kind, 0, index)
    mark = stamp(label, size)
    return Writing(label.lines(size), mark.top, mark.left, mark.ink.shape[0])


def burned(n=12, size=64, kind=CHEST):
    images = phantoms(kind, range(n), Request(size=size, burn_in=True)).batch.images
    return images, [writing(kind, i, size) for i in range(n)]


def share(images, writings):
    return legibility([read(image, w, glyph) for image, w in zip(images, writings, strict=True)]).share.mean


@pytest.mark.parametrize("size", [28, 51, 52, 64, 120, 200, 256])
def test_the_cells_are_where_the_stamp_put_them(size):
    for index in range(40):
        mark, where = stamp(burned_label(CHEST, 0, index), size), writing(CHEST, index, size)
        ink, dot = np.zeros_like(mark.ink), dot_size(where, glyph)
        for cell in cells(where, glyph):
            bitmap = glyph(cell.character).repeat(dot, 0).repeat(dot, 1)
            top, left = cell.top - where.top, cell.left - where.left
            ink[top : top + bitmap.shape[0], left : left + bitmap.shape[1]] |= bitmap
        assert np.array_equal(ink, mark.ink)


@pytest.mark.parametrize("size", [28, 64, 128])
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_an_original_is_read_in_full(kind, size):
    images, writings = burned(size=size, kind=kind)
    for i, (image, where) in enumerate(zip(images, writings, strict=True)):
        reading = read(image, where, glyph)
        assert reading.read == reading.truth
        lines = "".join(burned_label(kind, 0, i).lines(size))
        assert reading.truth == "".join(c for c in lines if c.isalnum())


@pytest.mark.slow
def test_more_noise_and_more_blur_leave_less():
    images, writings = burned(30)
    noise = torch.randn(images.shape, generator=torch.Generator().manual_seed(0))
    noisy = [share(images + s * noise, writings) for s in (0, 0.3, 0.8, 3)]
    blurred = [share(torch.from_numpy(gaussian_filter(images, (0, 0, s, s))), writings) for s in (0.5, 1, 3)]
    for shares in (noisy, blurred):
        assert shares[0] == 1
        assert shares == sorted(shares, reverse=True)
        assert shares[-1] < 0.2


@pytest.mark.parametrize("light", ["noise", "the plain image"])
def test_where_nothing_was_written_it_reads_as_much_as_chance(light):
    images, writings = burned(60)
    g = torch.Generator().manual_seed(4)
    plain = phantoms(CHEST, range(60), Request(size=64)).batch.images
    given = torch.randn(images.shape, generator=g) if light == "noise" else plain
    result = legibility([read(image, w, glyph) for image, w in zip(given, writings, strict=True)])
    assert result.share.mean == pytest.approx(result.chance, abs=0.03)


def test_the_best_glyph_is_numpys():
    image = torch.rand(1, 20, 20, generator=torch.Generator().manual_seed(2))
    where = Writing(("7",), top=3, left=4, height=7)
    best = {}
    for digit in "0123456789":
        template = np.pad(glyph(digit), 1).astype(float)
        pixels = image[0, 3 : 3 + template.shape[0], 4 : 4 + template.shape[1]].numpy()
        best[digit] = np.corrcoef(pixels.ravel(), template.ravel())[0, 1]
    assert read(image, where, glyph).read == max(best, key=best.get)


@pytest.mark.parametrize("value", [0.0, 0.5, math.nan])
def test_no_contrast_reads_nothing(value):
    """Not even the letter that comes first, which a tie would favour."""
    images, writings = burned(3)
    reading = read(torch.full_like(images[0], value), writings[0], glyph)
    assert set(reading.read) == {"?"}
    assert reading.correct == 0


def test_dark_on_light_and_brightness():
    images, writings = burned(3)
    assert share(0.1 + 0.05 * images, writings) == 1
    assert share(1 - images, writings) < 0.2


def test_the_share_and_its_chance_by_hand():
    result = legibility([Reading("AB12", "AX1?"), Reading("C", "C")])
    assert result.share == wilson(3, 5)
    assert result.chance == pytest.approx((3 / 26 + 2 / 10) / 5)


def test_what_cannot_be_read_is_named():
    images, writings = burned(3)
    with pytest.raises(BadInput, match=r"not shape \(3, 1, 64, 64\)"):
        read(images, writings[0], glyph)
    with pytest.raises(BadInput, match=r"'X' at row 31, column 61 .* 64 x 64"):
        read(images[0], Writing(("X",), top=30, left=60, height=7), glyph)
    with pytest.raises(BadInput, match="1 lines has 7 rows of dots, not 8 pixels"):
        read(images[0], Writing(("X",), top=0, left=0, height=8), glyph)
    with pytest.raises(BadInput, match="no letter or digit"):
        legibility([Reading("", "")])
