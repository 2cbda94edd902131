"""Good files of every kind that is read, as small as they can be: what is mutated."""

import io
import json
from pathlib import Path

import nibabel
import numpy as np
import safetensors.torch
import torch
from PIL import Image
from pydicom.encaps import encapsulate
from pydicom.uid import JPEGBaseline8Bit
from safetensors.torch import save_file

from fluoroscope.attacks.common.checkpoint import Checkpoint
from fluoroscope.attacks.common.engine import DescentState
from fluoroscope.attacks.common.optimisers import Adam
from fluoroscope.calibration.kept import Tried
from fluoroscope.calibration.measured import Leak, Measured
from fluoroscope.cells.cell import Result
from fluoroscope.cells.store import CellStore
from fluoroscope.federation.plan import read_plan
from fluoroscope.federation.run import federate
from fluoroscope.federation.summary import federation_summary
from fluoroscope.federation.task import load_task
from fluoroscope.integrations.recorded import RecordedUpdates
from fluoroscope.models.architecture import Architecture
from fluoroscope.progress_file import progress_in
from fluoroscope.runs.manifest import write_manifest
from fluoroscope.scenarios.isolated_process import _arrays, _text
from fluoroscope.scenarios.rehearsed import Rehearsed
from fluoroscope.scores.intervals import Interval
from fluoroscope.site.learned import Learned, write_learned
from fluoroscope.site.ledger import Ledger
from fluoroscope.types import Reconstruction
from tests.data.pictures import pixels, save
from tests.data.test_dicom import dataset
from tests.data.test_dicom import save as save_dicom
from tests.report.audits import make_audit
from tests.site.test_ledger import clock, entry

PLAN = """seed = 3
rounds = 2
evaluate_every = 1
[data]
source = "images.npz"
size = 28
channels = 1
images = 60
skip_bad = false
[partition]
name = "iid"
clients = 3
validation = 0.1
test = 0.1
auxiliary = 0.2
[model]
name = "lenet5"
[training]
optimiser = "sgd"
lr = 0.1
momentum = 0.5
batch_size = 8
epochs = 1
normalisation = { mean = [0.5], std = [0.5] }
[strategy]
name = "fedavg"
fraction = 1.0
[[defence]]
name = "clip-and-noise"
clip_norm = 1.0
noise_multiplier = 0.1
[records]
rounds = "all"
[audit]
budget_minutes = 1.0
clients = ["client-1"]
"""
POLICY = """when_not_judged = "withhold"
[limits]
reconstruction = 0.02
label-counts = 0.5
warn_at = 0.8
[override.label-counts]
above_limit = "warn"
[privacy]
epsilon = 8.0
delta = 1e-5
[guard]
when_refused = "withhold"
[site]
images = "images.npz"
size = 28
channels = 1
classes = ["0", "1"]
ledger = "ledger.jsonl"
seconds = 10
[model]
name = "lenet5"
[training]
optimiser = "sgd"
lr = 0.1
batch_size = 8
[[defence]]
name = "clip-and-noise"
clip_norm = 1.0
noise_multiplier = 0.5
"""
ACCEPTED = """[[accepted]]
id = "curious-server-00000000"
level = "leaks"
owner = "Anna"
reason = "phantoms"
expires = 2099-01-31
"""
LIMITS = """defence = "none"
allow = ["unclear", "curious-client=leaks"]
may_lack = ["source-0"]
[most.reconstruction]
leak = 0.5
rdlv = 0.9
[least.federation]
accuracy = 0.1
"""
PRIVACY = {
    "scopes": [
        {
            "name": "public",
            "properties": {"train_dataset": "/data"},
            "task_data_filters": [{"name": "BadModelDetector"}],
            "task_result_filters": [{"name": "PercentilePrivacy", "args": {"gamma": 0.02, "percentile": 30}}],
        },
        {"name": "private", "task_result_filters": [{"name": "SVTPrivacy", "args": {"fraction": 0.2}}]},
    ],
    "default_scope": "public",
}
BUNDLE = {"network_def": {"_target_": "UNet", "channels": 3}, "lr": "$1 / 10", "epochs": 3}
SECRET = bytes(range(32))
INTERVAL = Interval(0.1, 0.0, 0.2, 8)
ROW = Rehearsed("ridge", True, "", INTERVAL, INTERVAL, 0.1, 0.01, 1.0)


def make(folder: Path) -> None:
    """Everything, below the folder."""
    for part in (_sources, _plans, _site, _states, _records, _audits, _kept, _words, _answers):
        part(folder)


def archive(count: int = 60) -> dict[str, np.ndarray]:
    made = {}
    for i, (split, n) in enumerate({"train": count, "val": 2, "test": 2}.items()):
        made[f"{split}_images"] = pixels(i, n, 28, 28)
        made[f"{split}_labels"] = (np.arange(n) % 2).astype(np.uint8)[:, None]
    return made


def _sources(folder: Path) -> None:
    for label in ("normal", "sick"):
        for i in range(2):
            number = i + 10 * (label == "sick")
            save(folder / f"pictures/{label}/{i}.png", pixels(number, 28, 28))
            save(folder / f"colour/{label}/{i}.jpg", pixels(number, 28, 28, 3))
            save(folder / f"tabled/{label}/{i}.png", pixels(number, 28, 28))
            save_dicom(folder / f"dicom/{label}/{i}.dcm", dataset(pixels(number, 28, 28), PatientID=f"p{number}"))
            (folder / f"volumes/{label}").mkdir(parents=True, exist_ok=True)
            volume = np.random.default_rng(number).normal(100, 20, (8, 8, 5)).astype(np.float32)
            nibabel.save(nibabel.Nifti1Image(volume, np.eye(4)), folder / f"volumes/{label}/{i}.nii.gz")
    jpeg = io.BytesIO()
    Image.fromarray(pixels(0, 32, 32, 3)).save(jpeg, "JPEG")
    packed = dataset(pixels(0, 32, 32, 3), photometric="YBR_FULL_422")
    packed.file_meta.TransferSyntaxUID = JPEGBaseline8Bit
    packed.PixelData = encapsulate([jpeg.getvalue()])
    save_dicom(folder / "dicom/sick/packed.dcm", packed)
    rows = [f"{label}/{i}.png,{label},p{i},CC0,site-{i}" for label in ("normal", "sick") for i in range(2)]
    (folder / "tabled/images.csv").write_text("file,label,patient,licence,site\n" + "\n".join(rows) + "\n")
    (folder / "npz").mkdir()
    np.savez_compressed(folder / "npz/images.npz", **archive(8))


def _plans(folder: Path) -> None:
    (folder / "plan").mkdir()
    (folder / "plan/plan.toml").write_text(PLAN)
    np.savez_compressed(folder / "plan/images.npz", **archive())


def _site(folder: Path) -> None:
    (folder / "site").mkdir()
    (folder / "site/appetite.toml").write_text(POLICY)
    np.savez_compressed(folder / "site/images.npz", **archive(8))
    ledger = Ledger(folder / "site/ledger.jsonl", clock)
    for number in range(1, 4):
        ledger.append(entry(number, decision="warn", reasons=("reconstruction could not be judged.",)))
    (folder / "site/ledger.jsonl.guard.json").write_text(json.dumps({"rounds": [{"images": 8.0, "share": 0.5}]}))
    (folder / "site/ledger.jsonl.secret").write_bytes(SECRET)
    (folder / "site/ledger.jsonl.secret").chmod(0o600)
    for place in ("workspace/local", "workspace/startup"):
        (folder / place).mkdir(parents=True)
    (folder / "workspace/local/privacy.json").write_text(json.dumps(PRIVACY))


def _states(folder: Path) -> None:
    (folder / "states").mkdir()
    state = Architecture("lenet5", 1, 2, 28).build(0).state_dict()
    save_file(state, folder / "states/model.safetensors")
    torch.save({"epoch": 3, "model": state}, folder / "states/model.pt")
    torch.save(state, folder / "states/old.pth", _use_new_zipfile_serialization=False)
    np.savez(folder / "states/model.npz", **{name: value.numpy() for name, value in state.items()})
    (folder / "states/train.json").write_text(json.dumps(BUNDLE))
    (folder / "states/train.yaml").write_text("network_def:\n  _target_: UNet\nlr: $1 / 10\n")
    after = {name: value + 0.01 if value.is_floating_point() else value for name, value in state.items()}
    network = Architecture("lenet5", 1, 2, 28)
    RecordedUpdates(folder / "updates/recorded").write("north", 1, state, after, network=network)
    np.savez_compressed(folder / "updates/public.npz", **archive())


def _records(folder: Path) -> None:
    (folder / "run").mkdir()
    (folder / "run/plan.toml").write_text(
        PLAN.replace("images.npz", "phantom/chest")
    )  # no path, which would be another
    plan = read_plan(folder / "run/plan.toml")
    store = federate(plan, folder / "run/federation")
    store.write_text("summary.json", json.dumps(federation_summary(load_task(plan), store)))
    write_manifest(folder / "run/federation", "federate", store.tensor_checksums())
    (folder / "run/secret").write_bytes(SECRET)


def _audits(folder: Path) -> None:
    for name in ("audit/audit", "audit/other"):
        (folder / name).mkdir(parents=True)
        make_audit(folder / name, synthetic=name == "audit/other")
        with progress_in(folder / name, "audit"):
            pass
    write_manifest(folder / "audit/audit", "audit")
    (folder / "audit/accepted.toml").write_text(ACCEPTED)
    (folder / "audit/gate.toml").write_text(LIMITS)
    study = folder / "audit/studies/p4/table-2"
    with progress_in(study, "study"):
        pass
    (study / "findings.json").write_text('{"study": "p4/table-2", "rows": [{"a": 1}]}')
    calibration = folder / "audit/calibration"
    calibration.mkdir()
    point = {"noise_multiplier": 0.5, "leak": 0.01, "safe": True, "rehearsed": {}}
    content = {"target": "holds", "leaks_without": True, "defences": [{"defence": "dp-sgd", "tried": [point]}]}
    (calibration / "calibration.json").write_text(json.dumps(content))


def _kept(folder: Path) -> None:
    """What our own runs leave for the next one."""
    here = folder / "kept"
    result = Result({"ssim": [0.1, 0.2]}, {"roc": [[0.0, 1.0]]}, {"guess": torch.zeros(1, 8, 8)}, {"why": "x"})
    CellStore(here / "cells").save("a" * 24, {"attack": "x"}, result, 1.5)
    Checkpoint(here / "checkpoint", 0.0).keeper(0, "key").keep(midway(), ended=False)
    leak = Leak("ridge", INTERVAL, 0.01, INTERVAL, INTERVAL, INTERVAL, 0.1, INTERVAL, 0.25, 0, 8)
    Tried(here / "tried").keep("b" * 24, Measured((leak,), {"ridge": "played"}))
    write_learned(here, Learned((ROW,), 60, 8, 1.0, ("span: too long",)))


WORDS = (
    ("defences", "claim", "clip-and-noise:clip_norm=1,noise_multiplier=0.5", "--rounds", "3"),
    ("defences", "claim", "svt-privacy", "--weights", "700"),
    ("data", "show", "phantom/chest", "--images", "8", "--partition", "iid", "--set", "clients=2", "--out", "HERE.png"),
    ("data", "show", "phantom/fundus", "--size", "28", "--images", "4", "--channels", "3", "--out", "HERE.png"),
    ("study", "run", "p9/table-1", "--size", "small", "--seed", "3", "--out", "HERE/out"),
    ("audit", "--updates", "HERE", "--public", "phantom/chest", "--holds", "north=8", "--normalise", ".5,.5"),
    ("inspect", "HERE/none.pt", "--agreed", "resnet18", "--digest", "3fa0c1d2"),
    ("ledger", "verify", "HERE/none.jsonl", "--head", "3fa0c1d2e4b5"),
    ("init", "HERE/plan.toml", "--preset", "p1", "--clients", "3", "--budget", "5", "--model", "resnet18"),
    ("gate", "HERE", "--max-leak", "0.1", "--allow", "curious-client=unclear", "--defence", "none"),
    ("calibrate", "HERE/none", "--defence", "fed-bn+clip-and-noise:clip_norm=0.5", "--target", "leak<=.05"),
)


def _words(folder: Path) -> None:
    (folder / "words").mkdir()
    for number, words in enumerate(WORDS):
        (folder / f"words/{number:02d}.json").write_text(json.dumps(words))


def _answers(folder: Path) -> None:
    """What processes of ours say to one another."""
    (folder / "answers").mkdir()
    said = {"shapes": [[1, 4, 4]], "patient": "p1", "site": None}
    (folder / "answers/decoder.bin").write_bytes(json.dumps(said).encode() + b"\n" + bytes(64))
    guess = Reconstruction(torch.zeros(1, 1, 4, 4), torch.zeros(1, dtype=torch.long), 0.5)
    arrays = safetensors.torch.save(_arrays([guess]))
    told = {"guesses": [_text(guess)], "bytes": len(arrays)}
    lines = (json.dumps({"iteration": [0, 3]}), json.dumps(told))
    (folder / "answers/attack.bin").write_bytes("\n".join(lines).encode() + b"\n" + arrays)


def midway() -> DescentState:
    """A descent of two problems, on its way."""
    x = torch.zeros(2, 4)
    return DescentState(x, x.clone(), Adam(0.1).init(x), torch.zeros(2, dtype=torch.long), 1, 0.5, (torch.zeros(2),))
