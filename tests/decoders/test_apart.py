"""Files that kill, stall or swell their decoder: each costs one line, and no other file."""

import gzip
import io
import os
import struct
import time
import zlib
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from PIL import Image
from pydicom.encaps import encapsulate
from pydicom.uid import DeflatedExplicitVRLittleEndian, JPEGBaseline8Bit

from fluoroscope.data import Request
from fluoroscope.data.dicom import load_dicom
from fluoroscope.decoders import apart, decode_apart, limits
from fluoroscope.errors import BadInput

from ..data.pictures import pixels, save
from ..data.test_dicom import dataset
from ..data.test_dicom import save as save_dicom


def deadly(path: Path) -> Path:
    """A JPEG in DICOM with one byte too many in its header: gdcm ends the process that decodes it."""
    written = io.BytesIO()
    Image.fromarray(pixels(0, 32, 32, 3)).save(written, "JPEG")
    content = bytearray(written.getvalue())
    content.insert(7, 0x77)
    made = dataset(pixels(0, 32, 32, 3), photometric="YBR_FULL_422")
    made.file_meta.TransferSyntaxUID = JPEGBaseline8Bit
    made.PixelData = encapsulate([bytes(content)])
    return save_dicom(path, made)


def test_a_file_that_kills_its_decoder_costs_one_line(tmp_path):
    for i in range(6):
        save_dicom(tmp_path / "sick" / f"{i}.dcm", dataset(pixels(i, 8, 8)))
    deadly(tmp_path / "sick" / "3-deadly.dcm")
    loaded = load_dicom(tmp_path, Request(skip_bad=True))
    assert len(loaded) == 6
    (skipped,) = loaded.skipped
    assert Path(skipped.file).name == "3-deadly.dcm"
    assert "its decoder died by SIGABRT" in skipped.reason
    with pytest.raises(BadInput, match=r"3-deadly.dcm: cannot be read .its decoder died by SIGABRT"):
        load_dicom(tmp_path, Request())


def test_a_process_that_was_killed_between_two_files_is_no_fault_of_the_next(tmp_path):
    path = save(tmp_path / "x.png", pixels(0, 8, 8))
    decode_apart("picture", path)
    for worker in apart._PROCESSES._idle:
        worker._process.kill()
        worker._process.wait()
    (image,) = decode_apart("picture", path).images
    assert np.array_equal(image[0], pixels(0, 8, 8).astype(np.float32) / np.float32(255))


def test_one_process_reads_many_files(tmp_path):
    paths = [save(tmp_path / f"{i}.png", pixels(i, 8, 8)) for i in range(5)]
    seen = set()
    for path in paths:
        decode_apart("picture", path)
        seen.add(apart._PROCESSES._idle[-1]._process.pid)
    assert len(seen) == 1


ZEROS = bytes(2**24)


def test_a_bomb_is_stopped_by_its_memory(tmp_path):
    """2 GB of zeros in 2 MB, as a volume that would be small enough."""
    header = nib.Nifti1Header()
    header.set_data_shape((1024, 512, 512))
    header.set_data_dtype(np.float64)
    path = tmp_path / "bomb.nii.gz"
    # Parts that were compressed one by one are one file to gzip.
    path.write_bytes(gzip.compress(header.binaryblock + bytes(4)) + gzip.compress(ZEROS) * 128)
    with pytest.raises(BadInput, match=r"takes more than 1\.\d GB to unpack, the most for its size"):
        decode_apart("nifti", path)


@pytest.mark.slow
def test_a_deflated_bomb_is_stopped_by_its_memory(tmp_path):
    """The same behind the header of a deflated DICOM file."""
    made = dataset(pixels(0, 8, 8))
    made.file_meta.TransferSyntaxUID = DeflatedExplicitVRLittleEndian
    start = save_dicom(tmp_path / "bomb.dcm", made).read_bytes()
    head = 132 + 12 + struct.unpack("<I", start[140:144])[0]
    squeezed = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    block = squeezed.compress(ZEROS) + squeezed.flush(zlib.Z_FULL_FLUSH)
    (tmp_path / "bomb.dcm").write_bytes(start[:head] + block * 128 + squeezed.flush())
    with pytest.raises(BadInput, match=r"takes more than 1\.\d GB to unpack, the most for its size"):
        decode_apart("dicom", tmp_path / "bomb.dcm")


@pytest.mark.parametrize("shape", [(2**15 - 1, 2**15 - 1, 3), (70, 2**15 - 1, 2**15 - 1, 1)])
def test_volumes_have_a_limit(tmp_path, shape):
    header = nib.Nifti1Header()
    header.set_data_shape(shape)
    path = tmp_path / "x.nii"
    path.write_bytes(header.binaryblock + bytes(1000))
    with pytest.raises(BadInput, match="voxels; at most 268,435,456 are read"):
        decode_apart("nifti", path)


def test_dicom_images_have_a_limit(tmp_path):
    made = dataset(pixels(0, 8, 8))
    made.Rows = made.Columns = 65535
    save_dicom(tmp_path / "x.dcm", made)
    with pytest.raises(BadInput, match="65535 x 65535 pixels; at most 33,554,432 are read"):
        decode_apart("dicom", tmp_path / "x.dcm")


def test_a_file_that_takes_too_long_is_given_up(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "x.png")  # nobody ever writes into it
    monkeypatch.setattr(limits, "_SECONDS", 0.5)
    began = time.monotonic()
    with pytest.raises(BadInput, match=r"takes more than \d seconds to unpack"):
        decode_apart("picture", tmp_path / "x.png")
    assert time.monotonic() - began < 20


def test_only_what_it_works_itself_counts_as_long(tmp_path, monkeypatch):
    """On a machine that is busy with other things a good file takes many times its seconds, and is read."""
    monkeypatch.setattr(apart, "processor_seconds", lambda pid: 0.0)
    path = save(tmp_path / "x.png", pixels(0, 8, 8))
    worker = apart._Worker()
    assert len(worker.ask({"kind": "picture", "path": str(path), "options": {}}, 30.0).images) == 1
    monkeypatch.setattr(apart, "_LOOK", 0.001)
    ready = worker._within(1.0, {"kind": "picture", "path": None})
    assert (ready, worker.late) == ("ready", False)
    worker.end()


def test_what_the_process_says_is_not_believed(tmp_path, monkeypatch):
    """A decoder that was taken over may answer anything: it is bounded before anything is made of it."""
    worker = apart._Worker()
    worker._ready.add("picture")
    for said in (
        b'{"shapes": [[1, 99999999, 99999999]], "patient": null, "site": null}\n',
        b"[]\n",
        b"{}\n",
        b"\xff\n",
    ):
        reader = io.BufferedReader(io.BytesIO(said))  # type: ignore[arg-type]
        monkeypatch.setattr(worker._process, "stdout", reader)
        assert worker.ask({"kind": "picture", "path": "x", "options": {}}, 5.0) is None
    monkeypatch.undo()
    worker.end()


def test_nothing_is_imported_from_among_the_images(tmp_path, monkeypatch):
    """The process starts where the user is, who may be in a folder that somebody else filled."""
    path = save(tmp_path / "x.png", pixels(0, 8, 8))
    (tmp_path / "numpy.py").write_text("raise SystemExit('taken over')")
    monkeypatch.chdir(tmp_path)
    worker = apart._Worker()
    found = worker.ask({"kind": "picture", "path": str(path), "options": {}}, 10.0)
    worker.end()
    assert len(found.images) == 1
