"""Folders of pictures: layouts, formats, tables, and every kind of bad file."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from fluoroscope.data import Request, load
from fluoroscope.data.image_folder import load_folder, read_picture
from fluoroscope.errors import BadInput

from .pictures import class_folders, pixels, save, write_table

REQUEST = Request()
SKIP = Request(skip_bad=True)


def only_image(path: Path) -> torch.Tensor:
    (image,) = read_picture(path).images
    return image


class TestLayout:
    def test_a_subfolder_is_a_class(self, tmp_path):
        loaded = load_folder(class_folders(tmp_path), REQUEST)
        assert loaded.classes == ("normal", "sick")
        assert loaded.batch.labels.tolist() == [0, 0, 0, 1, 1, 1]
        assert loaded.batch.images.shape == (6, 1, 8, 8)
        assert loaded.batch.images.dtype == torch.float32
        assert loaded.batch.patients[0] == "normal/0.png"
        assert len(set(loaded.batch.patients)) == 6
        assert loaded.licence == "not stated"
        assert not loaded.skipped

    def test_pixels_arrive_unchanged(self, tmp_path):
        loaded = load_folder(class_folders(tmp_path), REQUEST)
        assert np.array_equal((loaded.batch.images[4, 0] * 255).round().numpy(), pixels(101, 8, 8))

    def test_hidden_files_and_litter_are_ignored(self, tmp_path):
        class_folders(tmp_path)
        (tmp_path / "normal" / ".DS_Store").write_bytes(b"x")
        (tmp_path / "sick" / "Thumbs.db").write_bytes(b"x")
        (tmp_path / ".git").mkdir()
        (tmp_path / "__MACOSX").mkdir()
        (tmp_path / "README.md").write_text("about")
        assert len(load_folder(tmp_path, REQUEST)) == 6

    def test_deeper_folders_belong_to_the_class(self, tmp_path):
        class_folders(tmp_path)
        save(tmp_path / "sick" / "ward" / "9.png", pixels(9, 8, 8))
        assert load_folder(tmp_path, REQUEST).batch.labels.tolist() == [0, 0, 0, 1, 1, 1, 1]

    def test_published_splits_are_joined(self, tmp_path):
        class_folders(tmp_path / "train")
        class_folders(tmp_path / "Test", count=1, classes=("normal",))
        loaded = load_folder(tmp_path, REQUEST)
        assert loaded.classes == ("normal", "sick")
        assert len(loaded) == 7
        assert loaded.batch.patients.count("Test/normal/0.png") == 2, "the same image in train and test is one patient"

    def test_splits_beside_other_folders_say_where_to_point(self, tmp_path):
        class_folders(tmp_path / "train")
        class_folders(tmp_path / "test")
        class_folders(tmp_path / "copy")
        with pytest.raises(BadInput, match=r"copy.*point at one of them.*test"):
            load_folder(tmp_path, REQUEST)

    def test_one_folder_too_high_says_where_to_point(self, tmp_path):
        class_folders(tmp_path / "set" / "train")
        with pytest.raises(BadInput, match=f"point at {tmp_path / 'set'}"):
            load_folder(tmp_path, REQUEST)

    def test_classes_may_be_called_train_when_they_hold_files(self, tmp_path):
        assert load_folder(class_folders(tmp_path, classes=("test", "train")), REQUEST).classes == ("test", "train")

    def test_empty_folder(self, tmp_path):
        with pytest.raises(BadInput, match="no class folders"):
            load_folder(tmp_path, REQUEST)

    def test_empty_class(self, tmp_path):
        (class_folders(tmp_path) / "void").mkdir()
        with pytest.raises(BadInput, match="'void' is empty"):
            load_folder(tmp_path, REQUEST)

    def test_a_picture_outside_the_classes(self, tmp_path):
        save(class_folders(tmp_path) / "stray.png", pixels(1, 8, 8))
        with pytest.raises(BadInput, match=r"stray.png: lies in no class folder"):
            load_folder(tmp_path, REQUEST)
        assert [Path(s.file).name for s in load_folder(tmp_path, SKIP).skipped] == ["stray.png"]

    def test_a_file_instead_of_a_folder(self, tmp_path):
        with pytest.raises(BadInput, match="is a file"):
            load_folder(save(tmp_path / "a.png", pixels(1, 8, 8)), REQUEST)

    def test_identical_images_share_a_patient(self, tmp_path):
        class_folders(tmp_path)
        shutil.copy(tmp_path / "normal" / "1.png", tmp_path / "sick" / "copy.png")
        patients = load_folder(tmp_path, REQUEST).batch.patients
        assert patients.count("normal/1.png") == 2


class TestTable:
    ROWS = (
        "normal/0.png,normal,anna,CC BY",
        'normal/1.png,normal,anna,"CC0, free"',
        "normal/2.png,normal,ben,CC BY",
        "sick/0.png,sick,cleo,CC BY",
        "sick/1.png,sick,cleo,CC BY",
        "sick/2.png,sick,dora,CC BY",
    )

    def test_patients_and_licences(self, tmp_path):
        write_table(class_folders(tmp_path), list(self.ROWS))
        loaded = load_folder(tmp_path, REQUEST)
        assert loaded.batch.patients == ("anna", "anna", "ben", "cleo", "cleo", "dora")
        assert loaded.licence == "CC BY; CC0, free"

    def test_as_excel_writes_it(self, tmp_path):
        write_table(class_folders(tmp_path), list(self.ROWS))
        text = (tmp_path / "images.csv").read_text().replace("/", "\\").replace("\n", "\r\n")
        (tmp_path / "images.csv").write_bytes(b"\xef\xbb\xbf" + text.encode())
        assert load_folder(tmp_path, REQUEST).batch.patients[0] == "anna"

    def test_it_labels_files_without_class_folders(self, tmp_path):
        for i in range(2):
            save(tmp_path / f"{i}.png", pixels(i, 8, 8))
            save(tmp_path / "anna" / f"{i}.png", pixels(10 + i, 8, 8))
        write_table(tmp_path, ["0.png,a,x,", "1.png,b,x,", "anna/0.png,a,anna,", "anna/1.png,b,anna,"])
        loaded = load_folder(tmp_path, REQUEST)
        assert loaded.classes == ("a", "b")
        assert loaded.batch.labels.tolist() == [0, 1, 0, 1]

    @pytest.mark.parametrize("column", ["file", "label", "patient"])
    def test_missing_column(self, tmp_path, column):
        header = ",".join(c for c in ("file", "label", "patient", "licence") if c != column)
        write_table(class_folders(tmp_path), ["normal/0.png,normal,anna"], header)
        with pytest.raises(BadInput, match=f"line 1: no column '{column}'"):
            load_folder(tmp_path, REQUEST)

    def test_missing_file(self, tmp_path):
        write_table(class_folders(tmp_path), [*self.ROWS, "sick/9.png,sick,dora,CC BY"])
        with pytest.raises(BadInput, match=r"9.png: is missing, but line 8 of images.csv names it.*delete the line"):
            load_folder(tmp_path, REQUEST)
        loaded = load_folder(tmp_path, SKIP)
        assert len(loaded) == 6
        assert "line 8" in loaded.skipped[0].reason

    def test_file_not_in_the_table(self, tmp_path):
        write_table(class_folders(tmp_path), list(self.ROWS[:-1]))
        with pytest.raises(BadInput, match=r"2.png: is not in images.csv. Add a line"):
            load_folder(tmp_path, REQUEST)
        assert len(load_folder(tmp_path, SKIP)) == 5

    def test_mislabelled(self, tmp_path):
        write_table(class_folders(tmp_path), [*self.ROWS[:-1], "sick/2.png,normal,dora,CC BY"])
        with pytest.raises(BadInput, match=r"2.png: is mislabelled.*'sick'.*line 7 .*'normal'"):
            load_folder(tmp_path, REQUEST)
        assert len(load_folder(tmp_path, SKIP)) == 5

    @pytest.mark.parametrize(
        ("row", "message"),
        [
            ("sick/2.png,sick,,CC BY", "line 7: patient is empty"),
            ("sick/2.png,sick", "line 7: 2 cells for 4 columns"),
            ("../2.png,sick,dora,CC BY", "line 7: .* must be a path inside"),
            ("/etc/hosts,sick,dora,CC BY", "line 7: .* must be a path inside"),
            ("sick/1.png,sick,dora,CC BY", "line 7: sick/1.png was already on line 6"),
            ('sick/2.png,"sick,dora,CC BY', "not a readable table"),
        ],
    )
    def test_bad_rows(self, tmp_path, row, message):
        write_table(class_folders(tmp_path), [*self.ROWS[:-1], row])
        with pytest.raises(BadInput, match=message):
            load_folder(tmp_path, REQUEST)

    def test_not_utf8(self, tmp_path):
        (class_folders(tmp_path) / "images.csv").write_bytes(b"file,label,patient\nnormal/0.png,normal,Ren\xe9\n")
        with pytest.raises(BadInput, match="save it as CSV in UTF-8"):
            load_folder(tmp_path, REQUEST)

    def test_two_tables(self, tmp_path):
        shutil.copy(write_table(class_folders(tmp_path), list(self.ROWS)), tmp_path / "labels.csv")
        with pytest.raises(BadInput, match="keep one of them"):
            load_folder(tmp_path, REQUEST)


class TestFormats:
    @pytest.mark.parametrize("suffix", ["png", "tif", "bmp"])
    def test_eight_bit_grey(self, tmp_path, suffix):
        array = pixels(1, 8, 8)
        image = only_image(save(tmp_path / f"a.{suffix}", array))
        assert torch.equal(image[0], torch.from_numpy(array) / 255)

    @pytest.mark.parametrize("suffix", ["png", "tif"])
    def test_sixteen_bit(self, tmp_path, suffix):
        array = np.arange(64, dtype=np.uint16).reshape(8, 8) * 1040
        image = only_image(save(tmp_path / f"a.{suffix}", array))
        assert torch.allclose(image[0], torch.from_numpy(array.astype(np.float32)) / 65535)

    def test_sixteen_bit_tiff_with_white_zero(self, tmp_path):
        array = np.arange(64, dtype=np.uint16).reshape(8, 8) * 1040
        path = save(tmp_path / "a.tif", array, tiffinfo={262: 0})
        with Image.open(path) as image:
            assert image.tag_v2[262] == 0
        assert torch.allclose(only_image(path)[0], 1 - torch.from_numpy(array.astype(np.float32)) / 65535)

    def test_jpeg(self, tmp_path):
        array = np.full((8, 8), 100, np.uint8)
        assert torch.allclose(only_image(save(tmp_path / "a.jpg", array)), torch.tensor(100 / 255), atol=0.01)

    def test_colour_has_three_channels(self, tmp_path):
        array = pixels(1, 8, 8, 3)
        image = only_image(save(tmp_path / "a.png", array))
        assert torch.equal(image, torch.from_numpy(array).permute(2, 0, 1) / 255)

    def test_grey_saved_as_colour_is_grey(self, tmp_path):
        array = np.repeat(pixels(1, 8, 8)[..., None], 3, axis=2)
        assert only_image(save(tmp_path / "a.png", array)).shape == (1, 8, 8)

    def test_bilevel(self, tmp_path):
        image = only_image(save(tmp_path / "a.png", np.eye(8, dtype=bool)))
        assert torch.equal(image[0], torch.eye(8))

    def test_palette(self, tmp_path):
        picture = Image.new("P", (4, 4), 1)
        picture.putpalette([0, 0, 0, 255, 0, 51])
        picture.save(tmp_path / "a.png")
        assert only_image(tmp_path / "a.png")[:, 0, 0].tolist() == pytest.approx([1, 0, 0.2])

    def test_palette_with_a_transparent_entry(self, tmp_path):
        picture = Image.new("P", (4, 4), 1)
        picture.putpixel((0, 0), 0)
        picture.putpalette([255, 255, 255, 255, 0, 51])
        picture.save(tmp_path / "a.png", transparency=0)
        image = only_image(tmp_path / "a.png")
        assert image[:, 0, 0].tolist() == [0, 0, 0]
        assert image[:, 1, 1].tolist() == pytest.approx([1, 0, 0.2])

    def test_transparent_pixels_are_black(self, tmp_path):
        array = np.full((4, 4, 4), 255, np.uint8)
        array[0, 0, 3] = 0
        image = only_image(save(tmp_path / "a.png", array))
        assert image[0, 0, 0] == 0
        assert image[0, 1, 1] == 1

    def test_exif_orientation(self, tmp_path):
        array = np.zeros((4, 8), np.uint8)
        array[:, :4] = 255  # white at the left
        exif = Image.Exif()
        exif[0x0112] = 6  # turn clockwise to view
        image = only_image(save(tmp_path / "a.jpg", array, exif=exif, quality=100))
        assert image.shape == (1, 8, 4)
        assert image[0, 0, 0] > 0.9, "white at the top"
        assert image[0, -1, 0] < 0.1

    def test_float_tiff(self, tmp_path):
        array = np.linspace(0, 1, 64, dtype=np.float32).reshape(8, 8)
        assert torch.equal(only_image(save(tmp_path / "a.tif", array))[0], torch.from_numpy(array))
        with pytest.raises(BadInput, match="values from 0 to 300"):
            read_picture(save(tmp_path / "b.tif", array * 300))


class TestSizeAndChannels:
    def test_one_colour_image_makes_a_colour_set(self, tmp_path):
        class_folders(tmp_path)
        save(tmp_path / "sick" / "c.png", pixels(1, 8, 8, 3))
        assert load_folder(tmp_path, REQUEST).channels == 3
        assert load_folder(tmp_path, Request(channels=1)).channels == 1

    def test_grey_to_colour_repeats(self, tmp_path):
        images = load_folder(class_folders(tmp_path), Request(channels=3)).batch.images
        assert torch.equal(images[:, 0], images[:, 2])

    def test_luma_as_pillow(self, tmp_path):
        array = pixels(1, 8, 8, 3)
        class_folders(tmp_path)
        save(tmp_path / "sick" / "z.png", array)
        ours = load_folder(tmp_path, Request(channels=1)).batch.images[-1, 0]
        pillow = np.asarray(Image.fromarray(array).convert("L"))
        assert np.abs(ours.numpy() * 255 - pillow).max() < 1.01

    def test_different_sizes_need_a_size(self, tmp_path):
        class_folders(tmp_path)
        save(tmp_path / "sick" / "z.png", pixels(1, 16, 16))
        with pytest.raises(BadInput, match=r"differ in size: .*z.png.*--size 8"):
            load_folder(tmp_path, REQUEST)
        assert load_folder(tmp_path, Request(size=12)).size == 12

    def test_an_oblong_image_is_padded_with_black(self, tmp_path):
        for name in ("a", "b"):
            save(tmp_path / name / "0.png", np.full((4, 8), 255, np.uint8))
        as_stored = load_folder(tmp_path, REQUEST).batch.images
        assert as_stored.shape == (2, 1, 8, 8)
        assert as_stored[0, 0, :, 0].tolist() == [0, 0, 1, 1, 1, 1, 0, 0]
        halved = load_folder(tmp_path, Request(size=4)).batch.images
        assert halved[0, 0, 0, 0] < 0.2
        assert halved[0, 0, 2, 2] > 0.8

    def test_shrinking_is_anti_aliased(self, tmp_path):
        stripes = np.tile(np.array([0, 255], np.uint8), (32, 16))
        for name in ("a", "b"):
            save(tmp_path / name / "0.png", stripes)
        small = load_folder(tmp_path, Request(size=8)).batch.images
        assert small.min() > 0.35
        assert small.max() < 0.65


class TestSample:
    def test_at_most_that_many_in_proportion(self, tmp_path):
        class_folders(tmp_path, count=30, classes=("a",))
        class_folders(tmp_path, count=10, classes=("b", "c"))
        loaded = load_folder(tmp_path, Request(images=10))
        assert loaded.batch.labels.bincount().tolist() == [6, 2, 2]

    def test_seeded(self, tmp_path):
        class_folders(tmp_path, count=30)

        def patients(seed: int) -> tuple[str, ...]:
            return load_folder(tmp_path, Request(images=10, seed=seed)).batch.patients

        assert patients(1) == patients(1)
        assert patients(1) != patients(2)

    def test_rare_classes_stay(self, tmp_path):
        class_folders(tmp_path, count=30, classes=("a",))
        class_folders(tmp_path, count=1, classes=("b", "c"))
        assert load_folder(tmp_path, Request(images=3)).batch.labels.tolist() == [0, 1, 2]

    def test_more_than_there_are(self, tmp_path):
        assert len(load_folder(class_folders(tmp_path), Request(images=100))) == 6


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


BAD = {
    "empty.png": (lambda path: path.write_bytes(b""), "is empty"),
    "note.txt": (lambda path: path.write_text("hello"), "is not an image"),
    "page.png": (lambda path: path.write_text("<html>not found</html>"), "is not an image"),
    "cut.png": (lambda path: _truncate(save(path, pixels(1, 64, 64))), "cannot be read"),
    "cut.jpg": (lambda path: _truncate(save(path, pixels(1, 64, 64))), "cannot be read"),
    "cut.tif": (lambda path: path.write_bytes(save(path, pixels(1, 64, 64)).read_bytes()[:2000]), "cannot be read|not"),
    "nan.tif": (lambda path: save(path, np.full((8, 8), np.nan, np.float32)), "not numbers"),
    "vector.eps": (
        lambda path: path.write_text("%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n"),
        "is not an image",
    ),
    "stack.tif": (
        lambda path: save(path, pixels(1, 8, 8), save_all=True, append_images=[Image.new("L", (8, 8))]),
        "stack",
    ),
}


class TestBadFiles:
    @pytest.mark.parametrize("name", BAD)
    def test_named_with_reason_and_remedy_or_skipped(self, tmp_path, name):
        make, reason = BAD[name]
        path = class_folders(tmp_path) / "sick" / name
        make(path)
        with pytest.raises(BadInput, match=f"{name}: .*({reason}).* Remove it, or pass --skip-bad to leave it out"):
            load_folder(tmp_path, REQUEST)
        loaded = load_folder(tmp_path, SKIP)
        assert len(loaded) == 6
        (skipped,) = loaded.skipped
        assert skipped.file == str(path)
        assert skipped.reason

    def test_decompression_bomb(self, tmp_path):
        bomb = Image.new("1", (20_000, 4_000))
        bomb.save(class_folders(tmp_path) / "sick" / "bomb.png")
        with pytest.raises(BadInput, match=r"bomb.png: is 20000 x 4000 pixels; at most 33,554,432 are read"):
            load_folder(tmp_path, REQUEST)

    def test_nothing_left_of_a_class(self, tmp_path):
        class_folders(tmp_path)
        for path in (tmp_path / "sick").iterdir():
            path.write_bytes(b"")
        with pytest.raises(BadInput, match="no readable image is left in class 'sick'"):
            load_folder(tmp_path, SKIP)


class TestLinks:
    def test_a_link_out_of_the_folder_is_said(self, tmp_path):
        class_folders(tmp_path / "images")
        elsewhere = save(tmp_path / "elsewhere" / "x.png", pixels(9, 8, 8))
        (tmp_path / "images/sick/x.png").symlink_to(elsewhere)
        (tmp_path / "images/sick/inside.png").symlink_to(tmp_path / "images/sick/0.png")
        with pytest.raises(BadInput, match=r"x.png: is a link out of the folder. Copy the file"):
            load_folder(tmp_path / "images", REQUEST)
        loaded = load_folder(tmp_path / "images", SKIP)
        assert [Path(each.file).name for each in loaded.skipped] == ["x.png"]
        assert len(loaded) == 7, "one within the folder is followed"

    def test_in_a_table_too(self, tmp_path):
        class_folders(tmp_path / "images", count=1)
        (tmp_path / "images/sick/x.png").symlink_to(save(tmp_path / "elsewhere" / "x.png", pixels(9, 8, 8)))
        rows = [f"{name}/0.png,{name},{name}," for name in ("normal", "sick")]
        write_table(tmp_path / "images", [*rows, "sick/x.png,sick,eve,"])
        loaded = load_folder(tmp_path / "images", SKIP)
        assert len(loaded) == 2
        assert len(loaded.skipped) == 1

    def test_a_linked_folder_is_said(self, tmp_path):
        class_folders(tmp_path / "images")
        class_folders(tmp_path / "other")
        (tmp_path / "images/third").symlink_to(tmp_path / "other/sick")
        with pytest.raises(BadInput, match="third is a link to a folder, which is not followed"):
            load_folder(tmp_path / "images", REQUEST)

    def test_a_pipe_is_not_waited_for(self, tmp_path):
        os.mkfifo(class_folders(tmp_path) / "sick" / "pipe")
        assert [each.reason for each in load(str(tmp_path), SKIP).skipped] == ["is empty"]

    def test_a_name_that_is_no_text_is_said(self, tmp_path):
        class_folders(tmp_path)
        shutil.copy(tmp_path / "sick/0.png", os.fsdecode(os.fsencode(tmp_path / "sick") + b"/\xff.png"))
        with pytest.raises(BadInput, match=r"has a name that is not UTF-8. Rename it"):
            load_folder(tmp_path, REQUEST)
        (skipped,) = load_folder(tmp_path, SKIP).skipped
        assert skipped.file.endswith("sick/\\udcff.png")
