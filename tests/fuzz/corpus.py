"""Every defect that an input ever showed, made again: the reader, what is done to its good files, and the exit code.

The first ones are of the trials of the earliest version, the last ones were found by `python -m tests.fuzz`.
"""

import gzip
import io
import json
import os
import re
import struct
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import torch
from safetensors.torch import save_file

from tests.decoders.test_apart import deadly
from tests.fuzz.materials import archive

Spoil = Callable[[Path], object]


def text(name: str, change: Callable[[str], str]) -> Spoil:
    """The file with other words."""
    return lambda here: (here / name).write_text(change((here / name).read_text()), errors="surrogatepass")


def line(name: str, key: str, value: str) -> Spoil:
    """TOML with another value of a key."""
    return text(name, lambda said: re.sub(rf"(?m)^{re.escape(key)} = .*$", lambda _: f"{key} = {value}", said))


def tree(name: str, change: Callable[[Any], object]) -> Spoil:
    """JSON that was changed in place."""

    def spoil(here: Path) -> None:
        content = json.loads((here / name).read_text())
        change(content)
        (here / name).write_text(json.dumps(content))

    return spoil


def content(name: str, data: bytes) -> Spoil:
    return lambda here: (here / name).write_bytes(data)


def cut(name: str, left: int = -20) -> Spoil:
    return lambda here: (here / name).write_bytes((here / name).read_bytes()[:left])


def flip(name: str, place: int = -3) -> Spoil:
    def spoil(here: Path) -> None:
        data = bytearray((here / name).read_bytes())
        data[place] ^= 1
        (here / name).write_bytes(data)

    return spoil


def state(make: Callable[[], dict[str, torch.Tensor]]) -> Spoil:
    """A state dict of its own, the newest file."""
    return lambda here: save_file(make(), here / "zz.safetensors")


def pickled(make: Callable[[], object]) -> Spoil:
    """The same, as torch writes it."""
    return lambda here: torch.save(make(), here / "zz.pt")


def more(said: str) -> Callable[[str], str]:
    """A plan that says more; its last table is the audit's."""
    return lambda plan: plan + said


def arrays(**changes: np.ndarray) -> Spoil:
    return lambda here: np.savez_compressed(here / "images.npz", **(archive(8) | changes))


def pipe(name: str) -> Spoil:
    def spoil(here: Path) -> None:
        (here / name).unlink(missing_ok=True)
        os.mkfifo(here / name)

    return spoil


def picture(width: int, height: int) -> bytes:
    """A PNG that says it is so large, of zeros."""
    data = zlib.compress(bytes((width + 1) * min(height, 4000)), 9)
    parts = ((b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)), (b"IDAT", data), (b"IEND", b""))
    chunks = b"".join(struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in parts)
    return b"\x89PNG\r\n\x1a\n" + chunks


def bomb() -> bytes:
    """A volume of a gigabyte in a few bytes."""
    header = nibabel.Nifti1Header()
    header.set_data_shape((1024, 1024, 1024))
    header.set_data_dtype(np.float64)
    written = io.BytesIO()
    with gzip.GzipFile(fileobj=written, mode="wb", compresslevel=1) as file:
        file.write(header.binaryblock + bytes(4))
        file.write(bytes(2**22))
    return written.getvalue()


def million_classes() -> dict[str, torch.Tensor]:
    return {
        "conv.weight": torch.zeros(4, 1, 3, 3),
        "fc.weight": torch.zeros(1_000_000, 4),
        "fc.bias": torch.zeros(1_000_000),
    }


def quantised() -> dict[str, torch.Tensor]:
    with warnings.catch_warnings(action="ignore"):  # they will be gone some day
        return {"a": torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)}


def first_client(change: Callable[[dict[str, Any]], object]) -> Spoil:
    return tree("federation/rounds/0001/manifest.json", lambda said: change(said["clients"]["client-1"]["training"]))


def first_cell(change: Callable[[dict[str, Any]], object]) -> Spoil:
    return tree("audit/findings.json", lambda said: change(said["cells"][0]))


DEEP = "[" * 5000 + "]" * 5000
EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nshowpage\n"
LAST = "federation/rounds/0002/global.safetensors"

CORPUS: dict[str, tuple[str, Spoil, set[int]]] = {
    # trials, section A
    "D1: a setting that was half written": ("settings that were tried", cut(f"tried/{'b' * 24}.json"), {0}),
    "D1: a score that is null": (
        "settings that were tried",
        tree(f"tried/{'b' * 24}.json", lambda said: said["played"][0].update(p_value=None)),
        {0},
    ),
    "D2: a DICOM that kills its decoder": ("DICOM", lambda here: deadly(here / "sick/0.dcm"), {0}),
    "D3: a label that is another's": (
        "plan, audited",
        text("plan.toml", more('[[audit.compare]]\nlabel = "None"\n[[audit.compare.defence]]\nname = "fed-bn"\n')),
        {2},
    ),
    "D3: an attack twice": ("plan, audited", text("plan.toml", more('attacks = ["span", "span"]\n')), {2}),
    "D3: a round twice": ("plan, audited", text("plan.toml", more("rounds = [1, 1]\n")), {2}),
    "D6: a thousand million clients": ("plan, shown", line("plan.toml", "clients", "1000000000"), {2}),
    "D6: a label of 200000000": (
        "archive of images", arrays(train_labels=np.array([[0]] * 7 + [[200_000_000]])), {2}
    ),
    "D6: a volume that unpacks to gigabytes": ("NIfTI", content("sick/0.nii.gz", bomb()), {0}),
    "D6: a picture of 80 million pixels": ("pictures", content("sick/0.png", picture(20_000, 4_000)), {0}),
    "D6: a number's format": (
        "findings, on a page",
        tree("audit/findings.json", lambda said: said["verdicts"][0].update(text="{/cells/0/scores/x/value:200000}")),
        {2},
    ),
    "D6: a pipe in the gallery": ("gallery", lambda here: pipe(str(next(here.glob("audit/gallery/*.png"))))(here), {2}),
    "D6: a head of a million classes": ("state, inspected", state(million_classes), {3}),
    "D7: EPS that says it is PNG": (
        "gallery", lambda here: next(here.glob("audit/gallery/*.png")).write_bytes(EPS), {2}
    ),
    "D8: a byte of the last model": ("records, verified", flip(LAST), {2}),
    "D8: an edited result": ("records, verified", text("federation/result.json", lambda said: said + " "), {2}),
    "D8: an edited manifest": (
        "records, verified", tree("federation/rounds/0001/manifest.json", lambda said: said.update(round=7)), {2}
    ),
    "D9: a seed of 5000 digits": ("plan, shown", line("plan.toml", "seed", "9" * 5000), {2}),
    "D9: lists 5000 deep": ("plan, shown", line("plan.toml", "seed", DEEP), {2}),
    "D9: NUL in a path": ("plan, shown", line("plan.toml", "source", '"a\\u0000b"'), {2}),
    "D9: a cut archive": ("archive of images", cut("images.npz", 40), {2}),
    "D9: somebody's copy of a round": (
        "records, shown", lambda here: (here / "federation/rounds/0001.bak").mkdir(), {0}
    ),
    "D9: a result that is a list": ("records, gone on with", content("federation/result.json", b"[1]"), {0, 2}),
    "D9: half a character": ("findings, exported", first_cell(lambda cell: cell.update(id="\ud800")), {2}),
    "D9: a tensor of no dimension": ("state, inspected", state(lambda: {"a": torch.tensor(1.0)}), {0}),
    "D9: an empty tensor": ("state, inspected", state(lambda: {"a": torch.zeros(0, 3)}), {2}),
    "D9: float8": ("state, inspected", state(lambda: {"a": torch.zeros(3).to(torch.float8_e4m3fn)}), {2}),
    "D9: a sparse tensor": ("state, inspected", pickled(lambda: {"a": torch.eye(3).to_sparse()}), {2}),
    "D9: a quantised tensor": ("state, inspected", pickled(quantised), {2}),
    "D9: a tensor without numbers": ("state, inspected", pickled(lambda: {"a": torch.zeros(3, device="meta")}), {2}),
    "D12: a hidden file": ("pictures", content(".DS_Store", b"\0\0\0\1Bud1"), {0}),
    "D12: a hidden link to nowhere": ("pictures", lambda here: (here / ".x").symlink_to("nowhere"), {0}),
    "D14: a link out of the folder": ("pictures", lambda here: (here / "sick/z.png").symlink_to("/etc/hostname"), {0}),
    "D17: FedProx below nothing": (
        "plan, federated", text("plan.toml", lambda said: said.replace('"fedavg"', '"fedprox"\nproximal_mu = -5')), {2}
    ),
    "D17: 2 to the 70 rounds": ("plan, shown", line("plan.toml", "rounds", str(2**70)), {2}),
    "D17: a byte order mark": ("plan, shown", text("plan.toml", lambda said: "\ufeff" + said), {0}),
    # trials, section D
    "F4: folders that are hospitals": (
        "pictures", lambda here: [(here / old).rename(here / f"hospital-{old}") for old in ("normal", "sick")], {2}
    ),
    "door: weights in a checkpoint": ("state, inspected", pickled(lambda: {"net": {"a.b": torch.ones(2, 2)}}), {0}),
    # found by mutated inputs
    "a row of a rehearsal that is a number": (
        "what a meter learned", tree("rehearsed.json", lambda said: said["rows"][0].update(leak=0.5)), {0}
    ),
    "a rehearsal of infinitely many": (
        "what a meter learned",
        tree("rehearsed.json", lambda said: said.update(learning=float("inf"))),
        {0},
    ),
    "a rehearsal nested too deeply": ("what a meter learned", content("rehearsed.json", DEEP.encode()), {0}),
    "a setting nested too deeply": ("settings that were tried", content(f"tried/{'b' * 24}.json", DEEP.encode()), {0}),
    "a cell nested too deeply": ("cells", content(f"cells/{'a' * 24}.json", DEEP.encode()), {2}),
    "a guard's history nested too deeply": (
        "a site's own files", content("ledger.jsonl.guard.json", DEEP.encode()), {2}
    ),
    "filters of NVFlare nested too deeply": (
        "NVFlare's privacy.json, checked", content("local/privacy.json", DEEP.encode()), {2}
    ),
    "a class that clears the terminal": (
        "table of images", text("images.csv", lambda said: said.replace("site-0", "\x1b[2J")), {0, 2}
    ),
    "a column of 5000 letters": ("table of images", text("images.csv", lambda said: "9" * 5000 + said), {2}),
    "a result without scores": (
        "records, gone on with", content("federation/result.json", b'{"best": {}, "last": 3}'), {0, 2}
    ),
    "a result without its loss": (
        "records, gone on with", tree("federation/result.json", lambda said: said["best"].pop("loss")), {2}
    ),
    "a result of less than no image": (
        "records, gone on with", tree("federation/result.json", lambda said: said["best"].update(images=-1)), {2}
    ),
    "an attack that says nonsense": ("an attack's answer", content("attack.bin", b'{"bytes": -1}\n'), {1}),
    "an attack without images": (
        "an attack's answer", content("attack.bin", b'{"guesses": [{}], "bytes": 2}\n{}'), {1}
    ),
    "a guard's history that is no text": ("a site's own files", content("ledger.jsonl.guard.json", b"\xff"), {2}),
    "a cell that is a list": ("cells", content(f"cells/{'a' * 24}.json", b"[]"), {2}),
    "steps that are no number": ("records, shown", first_client(lambda training: training.update(max_steps="a")), {2}),
    "frozen layers that are a number": ("records, shown", first_client(lambda told: told.update(frozen=1)), {2}),
    "an optimiser that is missing": ("records, shown", first_client(lambda training: training.pop("optimiser")), {2}),
    "a validation without accuracy": (
        "records, shown",
        tree("federation/rounds/0001/manifest.json", lambda said: said["validation"]["client-1"].pop("accuracy")),
        {2},
    ),
    "a training without an optimiser": (
        "recorded updates", tree("recorded/rounds/0001/north/update.json", lambda said: said.update(training={})), {2}
    ),
    "a filter whose arguments are a text": (
        "NVFlare's privacy.json, imported",
        tree("local/privacy.json", lambda said: said["scopes"][0]["task_result_filters"][0].update(args="a")),
        {2},
    ),
    "a setting whose leak is beyond any number": (
        "settings that were tried",
        tree(f"tried/{'b' * 24}.json", lambda said: said["played"][0]["leak"].update(mean=10**400)),
        {0},
    ),
    "a network of terabytes": (
        "recorded updates",
        tree("recorded/rounds/0001/north/update.json", lambda said: said["network"].update(size=10**8)),
        {2},
    ),
    "a patient whose name no font has": (
        "table of images",
        text("images.csv", lambda said: said.replace(",p1,", ",\0,")),
        {0},
    ),
    "NUL in a table of images": ("table of images", text("images.csv", lambda said: said.replace("1.png", "\0")), {2}),
    "a decoder that names a patient by a number": (
        "a decoder's answer", content("decoder.bin", b'{"shapes": [], "patient": 7, "site": null}\n'), {0}
    ),
    "a picture that would be this folder": (
        "words of a command", content("03.json", b'["data", "show", "phantom/chest", "--out", "."]'), {2}
    ),
    "a picture of a kind that nobody knows": (
        "words of a command",
        content("03.json", b'["data", "show", "phantom/fundus", "--size", "28", "--images", "4", "--out", "HERE.`ng"]'),
        {2},
    ),
}  # fmt: skip

SLOW = {
    name for name, (target, _, _) in CORPUS.items() if target in ("gallery", "findings, on a page", "plan, federated")
}
SLOW |= {"D6: a head of a million classes", "D9: a tensor of no dimension"}
SLOW |= {name for name, (_, spoil, _) in CORPUS.items() if "pickled" in spoil.__qualname__}  # a process that has torch
