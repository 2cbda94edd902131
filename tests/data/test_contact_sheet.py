"""A contact sheet is written for grey and colour, shows every class, and leaves pyplot alone."""

import numpy as np
import pytest
import torch
from PIL import Image

from fluoroscope.data.contact_sheet import contact_sheet
from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.types import ImageSet, PrivateBatch


def _set(channels: int, labels: list[int]) -> ImageSet:
    n = len(labels)
    images = torch.linspace(0, 1, n)[:, None, None, None].expand(n, channels, 32, 32).contiguous()
    batch = PrivateBatch(
        images, torch.tensor(labels, dtype=torch.int64), tuple(f"a-long-folder/patient-{i}" for i in range(n))
    )
    return ImageSet("made/up", batch, ("a", "b", "c"), "none")


@pytest.mark.parametrize("channels", [1, 3])
def test_it_is_written_with_a_row_for_each_class_that_occurs(tmp_path, channels: int) -> None:
    images = _set(channels, [0, 2, 2, 0, 2])
    contact_sheet(images, tmp_path / "two.png", columns=3)
    contact_sheet(_set(channels, [0, 0]), tmp_path / "one.png", columns=3, title="one class")
    two, one = (np.asarray(Image.open(tmp_path / f"{name}.png").convert("L")) for name in ("two", "one"))
    assert two.shape[1] == one.shape[1]
    assert two.shape[0] > 1.5 * one.shape[0]
    assert (two < 40).any()


def test_pyplot_is_left_alone(tmp_path) -> None:
    import matplotlib.pyplot as plt

    contact_sheet(_set(1, [0, 1]), tmp_path / "sheet.png")
    assert plt.get_fignums() == []


def test_mistakes_are_refused(tmp_path) -> None:
    with pytest.raises(Misconfigured, match="at least 1 column"):
        contact_sheet(_set(1, [0]), tmp_path / "sheet.png", columns=0)
    with pytest.raises(BadInput, match="holds no images"):
        contact_sheet(_set(1, []), tmp_path / "sheet.png")
    with pytest.raises(Misconfigured, match=r"of .png, .pdf, .svg, not '.*sheet.`ng'"):
        contact_sheet(_set(1, [0]), tmp_path / "sheet.`ng")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("name", "begins"), [("a.PDF", b"%PDF"), ("b.svg", b"<?xml"), ("c", b"\x89PNG")])
def test_the_ending_says_what_it_is(tmp_path, name, begins) -> None:
    contact_sheet(_set(1, [0]), tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(begins)
