"""What a model brings beside weights: programs, pickles with code, bundles' configuration. Refused and never run."""

import ast
import io
import json
import os
import pickle
import shutil
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from fluoroscope.errors import BadInput, BringsCode, Refused
from fluoroscope.integrations.checkpoints import record_of_files
from fluoroscope.integrations.weights import tensors
from fluoroscope.models import Architecture
from fluoroscope.models.code_files import is_evaluated
from fluoroscope.models.state_files import read_state
from fluoroscope.types import LocalTraining, Sgd
from tests.cli.test_cli import fluoroscope

SOURCE = Path(__file__).parents[2] / "src/fluoroscope"
NETWORK = Architecture("lenet5", 1, 2, 28)
TRAIN = {
    "imports": ["$import glob"],
    "network": {"_target_": "UNet", "spatial_dims": 2},
    "run": ["$__import__('os').mkdir('harm')"],
}


class Harm:
    """Makes a folder when it is unpickled."""

    def __reduce__(self):
        return (os.mkdir, ("harm",))


def scripted(file):
    buffer = io.BytesIO()
    with warnings.catch_warnings(action="ignore"):  # TorchScript is deprecated, and still sent
        torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), buffer)
    file.write_bytes(buffer.getvalue())


def pickled(file):
    torch.save({"weight": torch.ones(2), "more": Harm()}, file)


def pickled_before_archives(file):
    torch.save({"weight": torch.ones(2), "more": Harm()}, file, _use_new_zipfile_serialization=False)


def pickled_plainly(file):
    file.write_bytes(pickle.dumps({"weight": Harm()}))


def whole_module(file):
    torch.save(torch.nn.Linear(2, 2), file)


def objects(file):
    with file.open("wb") as stream:
        np.savez(stream, weight=np.array([Harm()], dtype=object))


def configuration(file):
    file.write_text(json.dumps(TRAIN))


def yaml_configuration(file):
    file.write_text("network:\n  _target_: UNet\nrun:\n- $__import__('os').mkdir('harm')\n")


def script(file):
    file.write_text("import os\nos.mkdir('harm')\n")


def zipped_bundle(file):
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("bundle/configs/train.json", json.dumps(TRAIN))


BRINGING = [
    (scripted, "model.pt", "a TorchScript program"),
    (scripted, "model.pth", "a TorchScript program"),
    (scripted, "model.ts", "a TorchScript program"),
    (scripted, "model.npz", "a TorchScript program"),
    (scripted, "model.safetensors", "a TorchScript program"),
    (pickled, "model.pt", r"code to be run \(\w+\.mkdir\)"),
    (pickled_before_archives, "model.pt", r"\.mkdir"),
    (pickled_plainly, "model.pt", r"\.mkdir"),
    (pickled_plainly, "model.safetensors", r"\.mkdir"),
    (whole_module, "model.pt", r"torch\.nn\.modules\.linear\.Linear"),
    (objects, "model.npz", "never unpickled"),
    (configuration, "train.json", "MONAI runs as code"),
    (yaml_configuration, "train.yaml", "MONAI runs as code"),
    (script, "model.py", "is code, and was not run"),
    (zipped_bundle, "bundle.zip", "a MONAI bundle"),
]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Whatever ran would leave a folder here."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    assert not (tmp_path / "harm").exists(), "code was run"


def test_the_examples_would_do_harm(here):
    pickled_plainly(here / "model.pt")
    pickle.loads((here / "model.pt").read_bytes())
    assert (here / "harm").is_dir()
    (here / "harm").rmdir()


@pytest.mark.parametrize(("write", "name", "said"), BRINGING, ids=[f"{w.__name__} {n}" for w, n, _ in BRINGING])
def test_code_is_refused_by_name_and_not_run(here, write, name, said):
    write(here / name)
    with pytest.raises(BringsCode, match=rf"{name}.*{said}") as refused:
        read_state(here / name)
    assert "Ask for" in str(refused.value), "the remedy"
    save_file(NETWORK.build().state_dict(), here / "after.safetensors")
    with pytest.raises(BringsCode, match=name):
        record_of_files(NETWORK, here / name, here / "after.safetensors", LocalTraining(Sgd(0.1), 1, 1))


def test_an_exported_program_is_refused(here):
    program = torch.export.export(torch.nn.Linear(2, 2), (torch.ones(1, 2),))
    torch.export.save(program, here / "model.pt2")
    shutil.copy(here / "model.pt2", here / "model.pt")
    for name in ("model.pt2", "model.pt"):
        with pytest.raises(BringsCode, match=rf"{name} .*an exported program"):
            read_state(here / name)


def test_a_bundle_s_folder_is_refused_and_the_weights_in_it_are_read(here):
    (here / "bundle/configs").mkdir(parents=True)
    (here / "bundle/models").mkdir()
    configuration(here / "bundle/configs/train.json")
    torch.save({"weight": torch.ones(2)}, here / "bundle/models/model.pt")
    with pytest.raises(BringsCode, match=r"bundle is a bundle.*models/model\.pt"):
        read_state(here / "bundle")
    assert list(read_state(here / "bundle/models/model.pt")) == ["weight"]


def test_a_configuration_without_code_is_no_model_either(here):
    (here / "plain.json").write_text('{"lr": 0.1}')
    with pytest.raises(BadInput, match=r"plain\.json ends in '\.json'") as problem:
        read_state(here / "plain.json")
    assert not isinstance(problem.value, BringsCode)


def empty_dict(file):
    if file.suffix == ".safetensors":
        save_file({}, file)
    elif file.suffix == ".npz":
        np.savez(file)
    else:
        torch.save({}, file)


def arrays_of_nothing(file):
    if file.suffix == ".safetensors":
        save_file({"weight": torch.zeros(0, 3)}, file)
    elif file.suffix == ".npz":
        np.savez(file, weight=np.zeros((0, 3)))
    else:
        torch.save({"weight": torch.zeros(0, 3)}, file)


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".npz", ".safetensors"])
@pytest.mark.parametrize(
    ("write", "said"),
    [
        (Path.touch, r"is empty \(0 bytes\)"),
        (empty_dict, "no array|an empty state dict"),
        (arrays_of_nothing, "1 arrays without a number"),
    ],
)
def test_nothing_is_no_model(here, write, said, suffix):
    write(here / f"nothing{suffix}")
    with pytest.raises(BadInput, match=rf"nothing{suffix}.*({said}).*no model"):
        read_state(here / f"nothing{suffix}")


def test_the_commands_say_it_in_one_sentence(here):
    scripted(here / "script.pt")
    configuration(here / "train.json")
    (here / "empty.pt").touch()
    for name, code in (("script.pt", 3), ("train.json", 3), ("empty.pt", 2)):
        done = fluoroscope("inspect", name, cwd=here)
        assert done.returncode == code
        assert done.stderr.startswith(f"error: {name} ")
        assert "Traceback" not in done.stderr


def test_weights_in_a_message_bring_no_code_either():
    for carried in ({"network": {"_target_": "UNet"}}, {"weight": np.ones(2), "run": "$import os"}, {"a": ["$1"]}):
        with pytest.raises(Refused, match="run as code"):
            tensors(carried)
    with pytest.raises(Refused, match="no number"):
        tensors({"weight": np.zeros((0, 2))})
    with pytest.raises(Refused, match="not made of numbers"):
        tensors({"weight": torch.nn.Linear(1, 1)})


def test_dollars_and_targets_are_found_wherever_they_stand():
    assert is_evaluated(TRAIN)
    assert is_evaluated([{"a": ({"b": " $x"},)}])
    assert not is_evaluated({"price": "5 $", "target": 3, "_target": [1, "a"]})


OWN_PICKLES = {"scenarios/isolated_process.py", "cells/work.py", "cells/on_ray.py", "cells/local.py"}
"""Between our own processes: nothing in them came from elsewhere."""


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_path_runs_what_a_file_brings(path):
    """Every call that could: pickle, torch.load, np.load, TorchScript, YAML, eval and exec."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        given = {word.arg: ast.unparse(word.value) for word in node.keywords}
        assert called not in ("eval", "exec", "torch.jit.load", "yaml.load", "joblib.load", "torch.export.load")
        if called == "torch.load":
            assert given["weights_only"] == "True"
        if called == "np.load":
            assert given["allow_pickle"] == "False"
        if called in ("pickle.load", "pickle.loads", "pickle.Unpickler"):
            assert str(path.relative_to(SOURCE)) in OWN_PICKLES
