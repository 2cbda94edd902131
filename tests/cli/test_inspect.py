"""`fluoroscope inspect` as a person and as a machine call it."""

import json
import pickle

import pytest
import torch
from safetensors.torch import save_file

from fluoroscope.models import Architecture
from fluoroscope.models.front import Front, FrontedNetwork
from fluoroscope.models.names import unwrapped
from fluoroscope.models.recognition import recognised
from tests.cli.test_cli import fluoroscope


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inspect")
    model = Architecture("small-cnn", 1, 4, 28).build()
    save_file(model.state_dict(), folder / "honest.safetensors")
    torch.save({f"module.{k}": v for k, v in model.state_dict().items()}, folder / "wrapped.pt")
    torch.save(
        FrontedNetwork(Architecture("small-cnn", 1, 4, 28), Front(30)).build().state_dict(), folder / "fronted.pth"
    )
    (folder / "broken.pt").write_bytes(b"nothing")
    (folder / "code.pt").write_bytes(pickle.dumps(print))
    return folder


def test_an_honest_file_is_accepted_and_its_digest_printed(files):
    done = fluoroscope("inspect", "honest.safetensors", "--json", cwd=files)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["refused"], found["recognised"], found["ran"]) == (False, "small-cnn", True)
    again = fluoroscope(
        "inspect",
        "wrapped.pt",
        "--agreed",
        "small-cnn",
        "--images",
        "phantom/chest",
        "--digest",
        found["digest"],
        cwd=files,
    )
    assert again.returncode == 0, again.stdout + again.stderr
    assert "accepted" in again.stdout


def test_a_front_is_refused_in_plain_words(files):
    done = fluoroscope("inspect", "fronted.pth", "--agreed", "small-cnn", cwd=files)
    assert done.returncode == 3
    assert "not agreed" in done.stdout
    assert "dense layer that reads a whole picture" in done.stdout
    alone = fluoroscope("inspect", "fronted.pth", "--agreed", "honest.safetensors", "--json", cwd=files)
    assert alone.returncode == 3
    assert {r["check"] for r in json.loads(alone.stdout)["reasons"]} >= {"drift", "placement"}


def test_another_digest_refuses(files):
    assert fluoroscope("inspect", "honest.safetensors", "--digest", "0" * 64, cwd=files).returncode == 3


@pytest.mark.parametrize(("name", "exit_code"), [("broken.pt", 2), ("code.pt", 3), ("missing.pt", 2)])
def test_what_cannot_be_read_is_one_sentence(files, name, exit_code):
    done = fluoroscope("inspect", name, cwd=files)
    assert done.returncode == exit_code
    assert "Traceback" not in done.stderr
    assert name in done.stderr


def test_an_unknown_agreed_name_is_said(files):
    done = fluoroscope("inspect", "honest.safetensors", "--agreed", "resnet81", cwd=files)
    assert done.returncode == 2
    assert "resnet18" in done.stderr


@pytest.mark.parametrize(("name", "size"), [("lenet5", 45), ("p3-cnn", 32), ("vit-small", 40), ("resnet18-gn", 32)])
def test_files_are_recognised_whatever_wraps_them(name, size):
    model = Architecture(name, 3, 7, size).build(seed=3)
    state = {f"_module.{key}": value for key, value in model.state_dict().items()}
    found = recognised(state)
    assert found.name == name
    assert found.channels == 3
    assert all(torch.equal(found.network.state_dict()[key], value) for key, value in unwrapped(state).items())


def test_an_unknown_file_is_left_as_it_is():
    found = recognised({"a.weight": torch.zeros(3, 3)})
    assert (found.name, found.network) == (None, None)
