"""`fluoroscope calibrate` on a small federation, as a person and as a machine call it."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.test_attack import PLAN
from tests.cli.test_cli import fluoroscope

QUICK = (
    "--set",
    "budget.iterations=3",
    "--set",
    "stages.grids.one.iterations=2",
    "--on",
    "records",
    "--draws",
    "2",
    "--precision",
    "0.9",
)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("calibrate")
    (folder / "plan.toml").write_text(PLAN)
    done = fluoroscope("federate", "plan.toml", "--out", "run", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_where_nothing_leaks_there_is_nothing_to_calibrate(run):
    """Three iterations read nothing: that is said, and no setting is called safe."""
    command = ("calibrate", "run", "--attack", "bn-only", "--defence", "percentile-gaussian", *QUICK)
    done = fluoroscope(*command, "--json", cwd=run)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["leaks_without"], found["defences"], found["front"]) == (False, [], [])
    assert "private updates of client-9" in found["looked_at"]
    assert found["accuracy_without"] is not None
    kept = sorted((run / "run" / "calibration" / "tried").iterdir())
    words = fluoroscope(*command, cwd=run)
    assert "there is nothing to calibrate, and nothing was shown to be safe" in " ".join(words.stdout.split())
    assert sorted((run / "run" / "calibration" / "tried").iterdir()) == kept, "nothing is attacked twice"
    checked = fluoroscope("records", "run", "--verify", cwd=run)
    assert "calibration: every file is whole" in checked.stdout
    (run / "run/calibration/calibration.json").write_text("{}")
    damaged = fluoroscope("records", "run", "--verify", cwd=run)
    assert (damaged.returncode, "in calibration, damaged: calibration.json" in damaged.stderr) == (2, True)


@pytest.mark.slow
def test_several_defences_give_a_front(run):
    """`span` reads the one-image client; 24 held-out patients stand in its place."""
    command = ("calibrate", "run", "--attack", "span", "--set", "budget.iterations=30", "--target", "leak<=.1")
    defences = ("--defence", "percentile-gaussian", "--defence", "fed-bn+quantisation", "--defence", "fed-bn")
    less = ("--victims", "6", "--precision", "0.9", "--defence", "secure-aggregation")
    done = fluoroscope(*command, *defences, *less, "--json", "--out", "front", cwd=run)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["leaks_without"]
    assert [each["defence"] for each in found["defences"]] == ["percentile-gaussian", "fed-bn+quantisation", "fed-bn"]
    assert list(found["not_attacked"]) == ["secure-aggregation"]
    for each in found["defences"]:
        if each["least"] is not None:
            assert each["trained"][-1][each["setting"]] == pytest.approx(each["least"])
            assert each["trained"][-1]["test_accuracy"] is not None
            assert each["confirmed"] is not None
    assert found["front"]
    assert Path(run, found["files"]["png"]).stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("run", "--defence", "percentile-gausian"), "did you mean 'percentile-gaussian'"),
        (("run", "--defence", "dp-sgd"), "cannot train BatchNorm"),
        (("run", "--defence", "pruning", "--precision", "0"), "precision must lie between"),
        (("run", "--defence", "percentile-gaussian:noise_scale=3"), "what is searched for"),
        (("run", "--defence", "percentile-gaussian:sigma0=3"), "noise_scale is what is searched for"),
        (("run", "--defence", "pruning+quantisation"), "one strength is searched at a time"),
        (("run", "--defence", "clip-and-noise:clip=0"), "clip_norm must be above 0"),
        (("run", "--defence", "percentile-gaussian", "--target", "rdlv"), "must read like"),
        (("nowhere", "--defence", "pruning"), "neither a folder of records nor a plan"),
        (("run", "--defence", "pruning", "--client", "client-7"), "there is no client"),
        (("run", "--defence", "pruning", "--on", "everything"), "--on takes public or records"),
        (("run", "--defence", "pruning", "--attack", "auto"), "auto is all attacks as they are"),
    ],
)
def test_wrong_input_is_one_sentence(run, arguments, message):
    done = fluoroscope("calibrate", "--attack", "bn-only", *QUICK, *arguments, cwd=run)
    assert done.returncode == 2
    assert re.search(message, " ".join(done.stderr.split()))
    assert "Traceback" not in done.stderr
