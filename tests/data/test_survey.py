"""A look at images before anything is planned."""

import pytest

from fluoroscope.data.survey import survey
from fluoroscope.errors import BadInput
from tests.data.pictures import pixels, save


def draw(path, side=40, colour=False):
    """A picture that no other name gives."""
    seed = int.from_bytes(path.as_posix().encode()[-24:])
    save(path, pixels(seed, side, side, 3) if colour else pixels(seed, side, side))


def test_size_channels_classes_and_patients(tmp_path):
    for i in range(6):
        draw(tmp_path / f"{'ill' if i % 3 else 'well'}/{i}.png")
    (tmp_path / "images.csv").write_text(
        "file,label,patient\n"
        + "".join(f"{k}/{i}.png,{k},p{i // 2}\n" for i in range(6) for k in ["ill" if i % 3 else "well"])
    )
    seen = survey(str(tmp_path))
    assert (seen.images, seen.sides, seen.channels, seen.patients) == (6, (40,), 1, 3)
    assert seen.classes == {"ill": 4, "well": 2}
    assert not seen.sites
    assert not seen.one_image_per_patient


def test_several_sizes_and_one_colour_image(tmp_path):
    for i, side in enumerate((50, 40, 60, 40)):
        draw(tmp_path / f"{'ab'[i % 2]}/{i}.png", side, colour=i == 3)
    seen = survey(f"folder:{tmp_path}")
    assert (seen.sides, seen.channels, seen.one_image_per_patient) == ((40, 50, 60), 3, True)


def test_folders_that_look_like_sites_are_taken_for_them(tmp_path):
    for site, count in (("hospital-a", 3), ("hospital b", 2)):
        for label in ("ill", "well"):
            for i in range(count):
                draw(tmp_path / site / label / f"{site}{label}{i}.png", colour=site == "hospital b")
    seen = survey(f"folder:{tmp_path}")
    assert seen.sites == {"hospital-a": 6, "hospital-b": 4}
    assert [(site.name, site.source) for site in seen.tables] == [
        ("hospital-b", f"folder:{tmp_path}/hospital b"),
        ("hospital-a", f"folder:{tmp_path}/hospital-a"),
    ]
    assert (seen.channels, seen.classes) == (3, {"ill": 5, "well": 5})


def test_what_cannot_be_read_is_named(tmp_path):
    draw(tmp_path / "a/1.png")
    (tmp_path / "b").mkdir()
    (tmp_path / "b/2.png").write_text("no picture")
    with pytest.raises(BadInput, match=r"2\.png"):
        survey(f"folder:{tmp_path}")
