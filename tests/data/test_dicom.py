"""DICOM: each photometric interpretation, depth, window and compression, written here and read back."""

import io
from pathlib import Path

import gdcm
import numpy as np
import pytest
import torch
from PIL import Image
from pydicom import Dataset
from pydicom.dataset import FileMetaDataset
from pydicom.encaps import encapsulate
from pydicom.pixels.utils import pixel_array
from pydicom.uid import (
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
    JPEG2000Lossless,
    JPEGBaseline8Bit,
    JPEGLSLossless,
    RLELossless,
    SecondaryCaptureImageStorage,
    generate_uid,
)

from fluoroscope.data import Request
from fluoroscope.data.dicom import load_dicom, read_dicom
from fluoroscope.errors import BadInput

from .pictures import pixels, write_table

REQUEST = Request()


def dataset(stored: np.ndarray, bits: int = 0, photometric: str = "MONOCHROME2", **tags) -> Dataset:
    made = Dataset()
    made.file_meta = FileMetaDataset()
    made.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    made.file_meta.MediaStorageSOPClassUID = made.SOPClassUID = SecondaryCaptureImageStorage
    made.file_meta.MediaStorageSOPInstanceUID = made.SOPInstanceUID = generate_uid()
    made.Modality = "OT"
    made.PatientID = "anna"
    made.SamplesPerPixel = 3 if stored.ndim == 3 and stored.shape[-1] == 3 else 1
    if made.SamplesPerPixel == 3:
        made.PlanarConfiguration = 0
    elif stored.ndim == 3:
        made.NumberOfFrames = len(stored)
    made.Rows, made.Columns = stored.shape[-3:-1] if made.SamplesPerPixel == 3 else stored.shape[-2:]
    made.PhotometricInterpretation = photometric
    made.BitsAllocated = stored.dtype.itemsize * 8
    made.BitsStored = bits or made.BitsAllocated
    made.HighBit = made.BitsStored - 1
    made.PixelRepresentation = int(stored.dtype.kind == "i")
    made.PixelData = stored.tobytes()
    made["PixelData"].VR = "OB" if made.BitsAllocated == 8 else "OW"
    for name, value in tags.items():
        setattr(made, name, value)
    return made


def save(path: Path, made: Dataset) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    made.save_as(path, enforce_file_format=True)
    return path


def shown(tmp_path: Path, made: Dataset) -> np.ndarray:
    (image,) = read_dicom(save(tmp_path / "x.dcm", made)).images
    assert image.dtype == torch.float32
    return image.numpy()


def transcode(source: Path, syntax: int, target: Path) -> None:
    """By gdcm, which writes what pydicom cannot without more packages."""
    reader, writer = gdcm.ImageReader(), gdcm.ImageWriter()
    reader.SetFileName(str(source))
    assert reader.Read()
    change = gdcm.ImageChangeTransferSyntax()
    change.SetTransferSyntax(gdcm.TransferSyntax(syntax))
    change.SetInput(reader.GetImage())
    assert change.Change()
    writer.SetFile(reader.GetFile())
    writer.SetImage(change.GetOutput())
    writer.SetFileName(str(target))
    assert writer.Write()


RAMP8 = np.arange(256, dtype=np.uint8).reshape(16, 16)
RAMP12 = (np.arange(256, dtype=np.uint16) * 16).reshape(16, 16)
RAMP = np.linspace(0, 1, 256).reshape(16, 16)


class TestValues:
    @pytest.mark.parametrize(
        ("stored", "bits"),
        [(RAMP8, 8), (RAMP12, 12), ((RAMP8.astype(np.uint16) * 257), 16), (RAMP8.astype(np.int16) - 100, 16)],
        ids=["8 bit", "12 bit", "16 bit", "signed"],
    )
    def test_without_a_window_the_image_spans_its_range(self, tmp_path, stored, bits):
        assert np.allclose(shown(tmp_path, dataset(stored, bits))[0], RAMP, atol=1e-6)

    def test_monochrome1_is_inverted(self, tmp_path):
        assert np.allclose(shown(tmp_path, dataset(RAMP8, photometric="MONOCHROME1"))[0], 1 - RAMP, atol=1e-6)

    def test_window(self, tmp_path):
        image = shown(tmp_path, dataset(RAMP12, 12, WindowCenter=2048, WindowWidth=1024))[0]
        expected = np.clip((RAMP12 - 2047.5) / 1023 + 0.5, 0, 1)  # PS3.3 C.11.2.1.2.1
        assert np.allclose(image, expected, atol=1e-6)

    def test_a_window_wider_than_the_image_is_kept(self, tmp_path):
        image = shown(tmp_path, dataset(RAMP8.astype(np.uint16), 12, WindowCenter=2048, WindowWidth=4096))[0]
        assert image.max() < 0.07, "not stretched to 1"

    def test_the_first_of_several_windows(self, tmp_path):
        one = shown(tmp_path, dataset(RAMP12, 12, WindowCenter=2048, WindowWidth=1024))
        two = shown(tmp_path, dataset(RAMP12, 12, WindowCenter=[2048, 100], WindowWidth=[1024, 50]))
        assert np.array_equal(one, two)

    def test_sigmoid_window(self, tmp_path):
        made = dataset(RAMP12, 12, WindowCenter=2048, WindowWidth=1024, VOILUTFunction="SIGMOID")
        assert np.allclose(shown(tmp_path, made)[0], 1 / (1 + np.exp(-4 * (RAMP12 - 2048.0) / 1024)), atol=1e-6)

    @pytest.mark.parametrize("width", ["", 0])
    def test_an_unusable_window_counts_as_none(self, tmp_path, width):
        made = dataset(RAMP8, WindowCenter=10, WindowWidth=width)
        assert np.allclose(shown(tmp_path, made)[0], RAMP, atol=1e-6)

    def test_rescale_comes_before_the_window(self, tmp_path):
        made = dataset(RAMP12, 12, RescaleSlope=2, RescaleIntercept=-1024, WindowCenter=40, WindowWidth=400)
        expected = np.clip((RAMP12 * 2.0 - 1024 - 39.5) / 399 + 0.5, 0, 1)
        assert np.allclose(shown(tmp_path, made)[0], expected, atol=1e-6)

    def test_negative_slope(self, tmp_path):
        made = dataset(RAMP8, RescaleSlope=-1, RescaleIntercept=255, WindowCenter=128, WindowWidth=256)
        assert np.allclose(shown(tmp_path, made)[0], 1 - RAMP, atol=1e-6)

    def test_modality_table(self, tmp_path):
        table = Dataset()
        table.LUTDescriptor = [256, 0, 16]
        table.LUTData = [i * i for i in range(256)]
        table["LUTData"].VR = table["LUTDescriptor"].VR = "US"
        made = dataset(RAMP8, ModalityLUTSequence=[table])
        assert np.allclose(shown(tmp_path, made)[0], RAMP**2, atol=1e-6)

    def test_voi_table(self, tmp_path):
        table = Dataset()
        table.LUTDescriptor = [256, 100, 12]
        table.LUTData = [i * 16 for i in range(256)]
        table["LUTData"].VR = table["LUTDescriptor"].VR = "US"
        made = dataset(RAMP12, 12, VOILUTSequence=[table])
        assert np.allclose(shown(tmp_path, made)[0], np.clip((RAMP12 - 100.0) / 255, 0, 1), atol=1e-6)

    @pytest.mark.parametrize("photometric", ["MONOCHROME1", "MONOCHROME2"])
    def test_padding_is_black_and_does_not_count(self, tmp_path, photometric):
        stored = RAMP8.astype(np.int16)
        stored[0, 0] = -2000
        made = dataset(stored, photometric=photometric, PixelPaddingValue=-2000)
        made["PixelPaddingValue"].VR = "SS"
        image = shown(tmp_path, made)[0]
        assert image[0, 0] == 0
        spread = image[0, 1] - image[-1, -1]
        assert abs(spread) == pytest.approx(1.0)

    def test_a_blank_image(self, tmp_path):
        assert not shown(tmp_path, dataset(np.full((8, 8), 7, np.uint8))).any()

    def test_nan(self, tmp_path):
        save(tmp_path / "a" / "x.dcm", dataset(RAMP8, RescaleSlope="1e400", RescaleIntercept="0"))
        with pytest.raises(BadInput, match=r"x.dcm: .*not numbers"):
            load_dicom(tmp_path, REQUEST)

    def test_multi_frame_gives_the_middle(self, tmp_path):
        frames = np.stack([np.full((16, 16), 9, np.uint8), RAMP8, np.zeros((16, 16), np.uint8)])
        assert np.allclose(shown(tmp_path, dataset(frames))[0], RAMP, atol=1e-6)

    def test_enhanced_files_keep_the_window_in_sequences(self, tmp_path):
        window, rescale, shared, frame = Dataset(), Dataset(), Dataset(), Dataset()
        window.WindowCenter, window.WindowWidth = 40, 400
        rescale.RescaleSlope, rescale.RescaleIntercept = 2, -1024
        shared.PixelValueTransformationSequence = [rescale]
        frame.FrameVOILUTSequence = [window]
        made = dataset(np.stack([RAMP12, RAMP12]), 12)
        made.SharedFunctionalGroupsSequence = [shared]
        made.PerFrameFunctionalGroupsSequence = [Dataset(), frame]
        expected = np.clip((RAMP12 * 2.0 - 1024 - 39.5) / 399 + 0.5, 0, 1)
        assert np.allclose(shown(tmp_path, made)[0], expected, atol=1e-6)


class TestColour:
    RGB = pixels(1, 16, 16, 3)

    def test_rgb(self, tmp_path):
        image = shown(tmp_path, dataset(self.RGB, photometric="RGB"))
        assert np.allclose(image, self.RGB.transpose(2, 0, 1) / 255, atol=1e-6)

    def test_planar(self, tmp_path):
        made = dataset(self.RGB, photometric="RGB", PlanarConfiguration=1)
        made.PixelData = self.RGB.transpose(2, 0, 1).tobytes()
        made["PixelData"].VR = "OB"
        assert np.allclose(shown(tmp_path, made), self.RGB.transpose(2, 0, 1) / 255, atol=1e-6)

    def test_ybr(self, tmp_path):
        ybr = np.asarray(Image.fromarray(self.RGB).convert("YCbCr"))
        image = shown(tmp_path, dataset(ybr, photometric="YBR_FULL"))
        assert np.abs(image - self.RGB.transpose(2, 0, 1) / 255).max() < 0.02

    def test_sixteen_bit(self, tmp_path):
        made = dataset(self.RGB.astype(np.uint16) * 257, photometric="RGB")
        assert np.allclose(shown(tmp_path, made), self.RGB.transpose(2, 0, 1) / 255, atol=1e-6)

    def test_grey_in_colour_is_grey(self, tmp_path):
        made = dataset(np.repeat(RAMP8[..., None], 3, axis=2), photometric="RGB")
        assert shown(tmp_path, made).shape == (1, 16, 16)

    def test_palette(self, tmp_path):
        made = dataset(RAMP8, photometric="PALETTE COLOR")
        for colour, table in {"Red": RAMP8.ravel(), "Green": 255 - RAMP8.ravel(), "Blue": RAMP8.ravel() // 2}.items():
            setattr(made, f"{colour}PaletteColorLookupTableDescriptor", [256, 0, 8])
            setattr(made, f"{colour}PaletteColorLookupTableData", table.tobytes())
            made[f"{colour}PaletteColorLookupTableDescriptor"].VR = "US"
            made[f"{colour}PaletteColorLookupTableData"].VR = "OW"
        image = shown(tmp_path, made)
        assert np.allclose(image[0], RAMP, atol=1e-6)
        assert np.allclose(image[1], 1 - RAMP, atol=1e-6)


class TestCompression:
    @pytest.mark.parametrize("syntax", [RLELossless, JPEGLSLossless], ids=lambda s: s.name)
    @pytest.mark.parametrize(("stored", "bits"), [(RAMP8, 8), (RAMP12, 12)], ids=["8 bit", "12 bit"])
    def test_lossless(self, tmp_path, syntax, stored, bits):
        made = dataset(stored, bits)
        made.compress(syntax)
        assert made.file_meta.TransferSyntaxUID == syntax
        assert np.allclose(shown(tmp_path, made)[0], RAMP, atol=1e-6)

    def test_colour(self, tmp_path):
        made = dataset(TestColour.RGB, photometric="RGB")
        made.compress(RLELossless)
        assert np.allclose(shown(tmp_path, made), TestColour.RGB.transpose(2, 0, 1) / 255, atol=1e-6)

    @pytest.mark.parametrize("syntax", ["JPEGLosslessProcess14_1", "JPEGLSLossless", "JPEG2000Lossless"])
    @pytest.mark.parametrize(
        ("made", "expected"),
        [
            (dataset(RAMP8), RAMP),
            (dataset(RAMP12, 12), RAMP),
            (dataset(RAMP8.astype(np.int16) - 100), RAMP),
        ],
        ids=["8 bit", "12 bit", "signed"],
    )
    def test_as_gdcm_writes_it(self, tmp_path, syntax, made, expected):
        transcode(save(tmp_path / "plain.dcm", made), getattr(gdcm.TransferSyntax, syntax), tmp_path / "x.dcm")
        (image,) = read_dicom(tmp_path / "x.dcm").images
        assert np.allclose(image.squeeze(0).numpy(), expected, atol=1e-6)

    def test_jpeg_2000_colour(self, tmp_path):
        stream = io.BytesIO()
        options = {"irreversible": False, "no_jp2": True, "mct": 1}
        Image.fromarray(TestColour.RGB).save(stream, format="JPEG2000", **options)
        made = dataset(TestColour.RGB, photometric="YBR_RCT")
        made.PixelData = encapsulate([stream.getvalue()])
        made["PixelData"].VR = "OB"
        made.file_meta.TransferSyntaxUID = JPEG2000Lossless
        assert np.allclose(shown(tmp_path, made), TestColour.RGB.transpose(2, 0, 1) / 255, atol=1e-6)

    @pytest.mark.parametrize("colour", [False, True])
    def test_jpeg_baseline(self, tmp_path, colour):
        smooth = np.add.outer(np.arange(16), np.arange(16)).astype(np.uint8) * 8
        source = np.stack([smooth, 255 - smooth, smooth // 2], axis=-1) if colour else smooth
        stream = io.BytesIO()
        Image.fromarray(source).save(stream, format="JPEG", quality=100, subsampling=0)
        made = dataset(source, photometric="YBR_FULL_422" if colour else "MONOCHROME2")
        if not colour:
            made.WindowCenter, made.WindowWidth = 128, 256
        made.PixelData = encapsulate([stream.getvalue()])
        made["PixelData"].VR = "OB"
        made.file_meta.TransferSyntaxUID = JPEGBaseline8Bit
        expected = source.transpose(2, 0, 1) if colour else source[None]
        assert np.abs(shown(tmp_path, made) - expected / 255).max() < 0.03


def class_folders(root: Path) -> Path:
    """Two classes, with and without extension, deeper folders, three patients."""
    save(root / "normal" / "1.dcm", dataset(pixels(1, 8, 8), PatientID="anna"))
    save(root / "normal" / "study" / "series" / "IM0001", dataset(pixels(2, 8, 8), PatientID="anna"))
    save(root / "sick" / "1.2.840.113", dataset(pixels(3, 8, 8), PatientID="ben"))
    save(root / "sick" / "4.dcm", dataset(pixels(4, 8, 8), PatientID=""))
    return root


class TestFolder:
    def test_classes_and_patients(self, tmp_path):
        (class_folders(tmp_path) / "DICOMDIR").write_bytes(b"index")
        loaded = load_dicom(tmp_path, REQUEST)
        assert loaded.classes == ("normal", "sick")
        assert loaded.batch.patients == ("anna", "anna", "ben", "sick/4.dcm")
        assert loaded.batch.images.shape == (4, 1, 8, 8)

    def test_labels_from_a_table(self, tmp_path):
        for i in range(4):
            save(tmp_path / f"patient{i % 2}" / f"{i}", dataset(pixels(i, 8, 8), PatientID=f"p{i % 2}"))
        write_table(tmp_path, [f"patient{i % 2}/{i},{'ab'[i // 2]}" for i in range(4)], "file,label").rename(
            tmp_path / "labels.csv"
        )
        loaded = load_dicom(tmp_path, REQUEST)
        assert loaded.classes == ("a", "b")
        assert sorted(zip(loaded.batch.labels.tolist(), loaded.batch.patients, strict=True)) == [
            (0, "p0"), (0, "p1"), (1, "p0"), (1, "p1"),
        ]  # fmt: skip

    def test_implicit_little_endian(self, tmp_path):
        made = dataset(RAMP8)
        made.file_meta.TransferSyntaxUID = ImplicitVRLittleEndian
        assert np.allclose(shown(tmp_path, made)[0], RAMP, atol=1e-6)

    @pytest.mark.parametrize(
        ("name", "reason"),
        [("text", "is not a DICOM file"), ("void", "is empty"), ("cut", "cannot be read"), ("report", "modality SR"),
         ("garbled", "cannot be read"), ("headless", "cannot be read")],
    )  # fmt: skip
    def test_bad_files(self, tmp_path, name, reason):
        path = class_folders(tmp_path) / "sick" / name
        if name == "text":
            path.write_text("hello")
        elif name == "void":
            path.write_bytes(b"")
        elif name == "cut":
            path.write_bytes(save(path, dataset(pixels(1, 32, 32))).read_bytes()[:-500])
        elif name == "report":
            made = dataset(RAMP8, Modality="SR")
            del made.PixelData
            save(path, made)
        elif name == "garbled":
            made = dataset(pixels(1, 32, 32))
            made.file_meta.TransferSyntaxUID = JPEG2000Lossless
            made.PixelData = encapsulate([b"\xff\x4f\xff\x51" + b"\0" * 60])
            save(path, made)
        else:
            made = dataset(RAMP8)
            del made.Rows
            save(path, made)
        with pytest.raises(BadInput, match=f"{name}: .*{reason}.* Remove it, or pass --skip-bad"):
            load_dicom(tmp_path, REQUEST)
        loaded = load_dicom(tmp_path, Request(skip_bad=True))
        assert len(loaded) == 4
        assert [Path(s.file).name for s in loaded.skipped] == [name]

    def test_what_was_written_is_what_pydicom_reads(self, tmp_path):
        """The oracle of this file's own writer."""
        assert np.array_equal(pixel_array(save(tmp_path / "x.dcm", dataset(RAMP12, 12))), RAMP12)
