"""`fluoroscope audit --updates` as an engineer types it."""

import json
import sys
from functools import partial

import pytest
import torch

from fluoroscope.attacks import ATTACKS
from fluoroscope.audit.updates import cells as update_cells
from fluoroscope.integrations.recorded import RecordedUpdates
from fluoroscope.site import trials
from tests.audit.test_updates import here
from tests.cli.test_cli import fluoroscope
from tests.cli.test_meter import site as site  # a client with one image, trained by torch alone

TOLD = (
    "--updates", "updates", "--model", "hospital_task:make", "--public", "public", "--images", "north=own",
    "--lr", "0.05", "--batch-size", "1",
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def one_attack():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trials, "candidates", lambda: {"ridge": ATTACKS.get("ridge")})
        patch.setattr(update_cells, "play", partial(trials.play, run=here))
        patch.setattr(sys, "path", [*sys.path])  # the command adds its working directory
        yield


@pytest.fixture(scope="module")
def recorded(site):
    before = torch.load(site / "global.pt", weights_only=True)["model"]
    after = torch.load(site / "client.pt", weights_only=True)
    RecordedUpdates(site / "updates").write("north", 1, before, after)
    return site


def test_one_page_and_what_it_says(recorded):
    done = fluoroscope("audit", *TOLD, "--out", "out", "--seconds", "60", "--workers", "1", cwd=recorded)
    assert done.returncode == 0, done.stderr
    assert "[leaks]" in done.stdout
    assert "report: out/report.html" in done.stdout
    assert "What one recorded update leaks" in (recorded / "out/report.html").read_text()
    gated = fluoroscope("gate", "out", cwd=recorded)
    assert gated.returncode == 4


def test_a_dry_run_says_what_would_be_attacked(recorded):
    done = fluoroscope("audit", *TOLD, "--out", "dry", "--dry-run", "--json", cwd=recorded)
    assert done.returncode == 0, done.stderr
    assert [row["what"] for row in json.loads(done.stdout)["cells"]] == ["reconstruction", "label-counts"]
    assert not (recorded / "dry").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("plan.toml", *TOLD), "give a plan or --updates, not both"),
        ((), "an audit needs a plan"),
        (("plan.toml", "--weight-decay", "0.1"), "--weight-decay is for --updates"),
        (("--updates", "nowhere", "--public", "public"), "there is no folder nowhere"),
        (("--updates", "updates"), "needs --public"),
        ((*TOLD, "--images", "own"), "--images takes SITE=FOLDER, not 'own'"),
        ((*TOLD, "--images", "north=public"), "names 'north' twice"),
        ((*TOLD, "--holds", "north=many"), "takes a number of images, not 'many'"),
        ((*TOLD, "--training", "lr=0.1"), "lr is given twice"),
    ],
)
def test_wrong_input_is_one_sentence(recorded, arguments, message):
    done = fluoroscope("audit", *arguments, cwd=recorded)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
