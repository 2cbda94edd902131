"""`fluoroscope calibrate` on a small federation, as a person and as a machine call it."""

import json
from pathlib import Path

import pytest

from tests.cli.test_attack import PLAN
from tests.cli.test_cli import fluoroscope

QUICK = ("--set", "budget.iterations=3", "--draws", "2", "--precision", "0.9")


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("calibrate")
    (folder / "plan.toml").write_text(PLAN)
    done = fluoroscope("federate", "plan.toml", "--out", "run", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_records_and_several_defences_give_a_front(run):
    command = ("calibrate", "run", "--attack", "bn-only", "--target", "ssim<=0.9")
    defences = ("--defence", "percentile-gaussian", "--defence", "quantisation")
    done = fluoroscope(*command, *defences, *QUICK, "--json", cwd=run)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["target"] == "ssim<=0.9"
    assert found["accuracy_without"] is not None
    assert [each["defence"] for each in found["defences"]] == ["percentile-gaussian", "quantisation"]
    for each in found["defences"]:
        assert each["attacks"] == len(each["tried"]) <= 12
        if each["least"] is not None:
            assert each["trained"][-1][each["setting"]] == pytest.approx(each["least"])
            assert each["trained"][-1]["test_accuracy"] is not None
    assert found["front"]
    assert Path(run, found["files"]["png"]).stat().st_size > 1000
    kept = sorted((run / "run" / "calibration" / "tried").iterdir())
    again = fluoroscope(*command, *defences, *QUICK, "--json", cwd=run)
    assert json.loads(again.stdout) == found
    assert sorted((run / "run" / "calibration" / "tried").iterdir()) == kept, "nothing is attacked twice"


def test_a_plan_is_trained_first_and_words_say_what_to_do(run):
    done = fluoroscope(
        "calibrate", "plan.toml", "--defence", "percentile-gaussian", "--attack", "bn-only", *QUICK, "--out", "found",
        cwd=run,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "percentile-gaussian" in done.stdout
    assert "meets rdlv<=0" in done.stdout
    assert (run / "found" / "without" / "result.json").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "--defence", "fed-bn"), "no strength"),
        (("run", "--defence", "percentile-gausian"), "did you mean 'percentile-gaussian'"),
        (("run", "--defence", "dp-sgd"), "cannot train BatchNorm"),
        (("run", "--defence", "pruning", "--precision", "0"), "precision must lie between"),
        (("run", "--defence", "percentile-gaussian:noise_scale=3"), "what is searched for"),
        (("run", "--defence", "percentile-gaussian:sigma0=3"), "noise_scale is what is searched for"),
        (("run", "--defence", "clip-and-noise:clip=0"), "clip_norm must be above 0"),
        (("run", "--defence", "percentile-gaussian", "--target", "rdlv"), "must read like"),
        (("nowhere", "--defence", "pruning"), "neither a folder of records nor a plan"),
        (("run", "--defence", "pruning", "--client", "client-7"), "there is no client"),
        (("run", "--defence", "clip-and-noise", "--attack", "bn-only"), "fed-bn before it"),
    ],
)
def test_wrong_input_is_one_sentence(run, arguments, message):
    import re

    done = fluoroscope("calibrate", *QUICK, *arguments, cwd=run)
    assert done.returncode == 2
    assert re.search(message, " ".join(done.stderr.split()))
    assert "Traceback" not in done.stderr
