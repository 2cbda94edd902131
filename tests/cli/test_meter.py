"""`fluoroscope meter` as a hospital's engineer types it: two checkpoints, own images, public images."""

import json
import os
import stat
import sys
from importlib.util import find_spec

import pytest
import torch
from PIL import Image

from fluoroscope.attacks import ATTACKS
from fluoroscope.cli.training_options import normalisation
from fluoroscope.data import Request, load
from fluoroscope.errors import Misconfigured
from fluoroscope.site import trials
from tests.cli.test_cli import fluoroscope

TASK = """
from torch import nn

def make(width=24):
    return nn.Sequential(
        nn.Conv2d(1, width, 3, 2, 1), nn.BatchNorm2d(width), nn.ReLU(),
        nn.Conv2d(width, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Flatten(), nn.Linear(32 * 64, 2),
    )
"""
TOLD = (
    "--before", "global.pt", "--after", "client.pt", "--model", "hospital_task:make", "--images", "own",
    "--public", "public", "--lr", "0.05", "--batch-size", "1",
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def one_attack():
    """All of them take a minute, and each starts a process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trials, "candidates", lambda: {"ridge": ATTACKS.get("ridge")})
        patch.setattr(sys, "path", [*sys.path])  # the command adds its working directory
        yield


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A client with one image of the second class, trained by torch alone."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "hospital_task.py").write_text(TASK)
    held = load("phantom/chest", Request(size=32, channels=1, images=150, seed=1)).batch
    mine = int((held.labels == 1).nonzero()[2])
    for i, (image, label) in enumerate(zip(held.images, held.labels.tolist(), strict=True)):
        place = folder / ("own" if i == mine else "public") / ("opacity" if label else "normal")
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray((image[0] * 255).round().byte().numpy()).save(place / f"{i:04d}.png")
    names: dict[str, object] = {}
    exec(TASK, names)
    torch.manual_seed(0)
    model = names["make"]()
    torch.save({"model": model.state_dict(), "round": 3}, folder / "global.pt")
    optimiser = torch.optim.SGD(model.parameters(), 0.05)
    image = (held.images[[mine]] * 255).round() / 255
    torch.nn.functional.cross_entropy(model(image), torch.tensor([1])).backward()
    optimiser.step()
    torch.save({f"module.{name}": value for name, value in model.state_dict().items()}, folder / "client.pt")
    (folder / "broken.pt").write_bytes(b"nothing")
    return folder


def test_the_leak_is_found_from_two_files(site):
    done = fluoroscope("meter", *TOLD, "--seconds", "60", "--show-images", "out.png", "--json", cwd=site)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    pictures, counts = found["readings"]
    assert pictures["value"] > 0
    assert pictures["p_value"] <= 0.05
    assert counts["value"] == pytest.approx(1.0)  # though the site's own folder has one class alone
    assert (site / "out.png").read_bytes().startswith(b"\x89PNG")
    assert stat.S_IMODE(os.stat(site / "out.png").st_mode) == 0o600
    assert str(site) not in done.stdout


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (("--after", "broken.pt"), "broken.pt was not read"),
        (("--before", "absent.pt"), "there is no weights file absent.pt"),
        (("--model", "hospital_task:absent"), "cannot be imported"),
        (("--classes", "normal"), "none of normal"),
        (("--training", "lr=0.1"), "lr is given twice"),
        (("--optimizer", "lion"), "'lion'"),
    ],
)
def test_wrong_input_is_one_sentence(site, changed, said):
    done = fluoroscope("meter", *TOLD, *changed, cwd=site)
    assert done.returncode == 2, done.stdout + done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_without_public_images_it_says_what_is_missing(site):
    told = [each for each in TOLD if each not in ("--public", "public")]
    done = fluoroscope("meter", *told, "--classes", "normal,opacity", cwd=site)
    assert done.returncode == 0, done.stderr
    assert "not judged" in done.stdout
    assert "public images" in done.stdout


def test_normalisation_is_means_then_deviations():
    assert normalisation(".48,.24") == {"mean": (0.48,), "std": (0.24,)}
    assert normalisation(".1,.2,.3,.4,.5,.6") == {"mean": (0.1, 0.2, 0.3), "std": (0.4, 0.5, 0.6)}
    for wrong in ("", ".48", "a,b", "1,2,3"):
        with pytest.raises(Misconfigured, match="--normalise"):
            normalisation(wrong)


@pytest.mark.skipif(find_spec("fluoroscope.site.policy") is None, reason="there is no policy here")
def test_a_policy_decides_the_exit_code(site):
    (site / "appetite.toml").write_text("")
    done = fluoroscope("meter", *TOLD, "--seconds", "30", "--policy", "appetite.toml", "--json", cwd=site)
    assert done.returncode == 4, done.stdout + done.stderr
    assert json.loads(done.stdout)["decision"] == "withhold"
