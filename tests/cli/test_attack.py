"""`fluoroscope attack` as a person and as a machine call it, on a federation with a one-image client."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import load_file

from fluoroscope.scenarios import recorded_update
from fluoroscope.scenarios.auto_attacks import candidates
from tests.cli.test_cli import fluoroscope

PLAN = """
rounds = 2
[data]
source = "phantom/chest"
size = 32
images = 140
[partition]
name = "p1"
clients = [1, 9]
validation = 2
test = 10
auxiliary = 30
[model]
name = "small-cnn"
[records]
rounds = [1, 2]
"""
QUICK = ("--set", "budget.iterations=4")
COARSE = [f"stages.grids.{kind}.iterations=2" for kind in ("one", "several")]
BN_ONLY = ("--attack", "bn-only", *QUICK, "--set", COARSE[0], "--set", COARSE[1])
RUN_ISOLATED = recorded_update.run_isolated


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("attack")
    (folder / "plan.toml").write_text(PLAN)
    done = fluoroscope("federate", "plan.toml", "--out", "run", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(autouse=True)
def here(monkeypatch):
    """Attacks run in this process: quicker, with the same guesses (tests/scenarios/test_isolation.py). The first test
    and the one of a kill have the process that a user's attack has."""
    monkeypatch.setattr(recorded_update, "run_isolated", lambda attack, *rest: attack.run(*rest))


def test_it_takes_the_last_round_and_the_smallest_client(run, monkeypatch):
    monkeypatch.setattr(recorded_update, "run_isolated", RUN_ISOLATED)
    done = fluoroscope("attack", "run", *BN_ONLY, "--json", cwd=run)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["client"], found["round"], found["images"]) == ("client-9", 2, 1)
    granted = {"architecture", "training", "global-state", "update", "buffers", "prior", "public-images", "defence"}
    assert granted <= {name for name, known in found["known"].items() if known}
    assert found["known"]["labels"] is False
    assert found["objective"] == min(found["restarts"])
    (score,) = found["scores"]
    assert score["rdlv"] == pytest.approx(score["ssim"] / score["ssim_prior"] - 1)
    files = {kind: run / path for kind, path in found["files"].items()}
    assert json.loads(files["findings"].read_text()) == {k: v for k, v in found.items() if k != "files"}
    assert load_file(files["reconstruction"])["images"].shape == (1, 1, 32, 32)
    assert np.asarray(Image.open(files["png"]).convert("L"), dtype=float).std() > 5, "a blank picture"


@pytest.mark.slow
def test_auto_rehearses_all_on_the_public_images_that_are_given(run):
    done = fluoroscope("attack", "run", "--attack", "auto", "--public", "phantom/chest", "--json", cwd=run)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    rows = {row["attack"]: row for row in found["rehearsal"]}
    assert list(rows) == list(candidates())
    assert found["attack"] == max(
        (name for name in rows if rows[name]["leak"] is not None), key=lambda n: rows[n]["leak"]
    )
    assert all(row["leak"] is not None or row["remark"] for row in rows.values())


@pytest.mark.parametrize(
    ("told", "message"),
    [
        (("--attack", "auto", "--set", "budget.iterations=4"), "auto chooses among all"),
        (("--attack", "auto", "--grant", "labels"), "without the true labels"),
        (("--attack", "bn-only", "--public", "folder:nowhere"), "nowhere"),
    ],
)
def test_what_auto_cannot_do_is_said(run, told, message):
    done = fluoroscope("attack", "run", *told, cwd=run)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())


def test_the_same_seed_gives_the_same_guess_and_another_batch_is_matched(run):
    told = ["attack", "run", *BN_ONLY, "--json", "--client", "client-1", "--round", 1]
    one, two = (json.loads(fluoroscope(*told, "--out", name, "--seed", 3, cwd=run).stdout) for name in ("a", "b"))
    different = {"seconds", "files"}
    assert {k: v for k, v in one.items() if k not in different} == {k: v for k, v in two.items() if k not in different}
    assert [score["original"] for score in one["scores"]] == list(range(8))


def test_a_person_reads_what_was_known_and_how_near_it_came(run):
    done = fluoroscope("attack", "run", *BN_ONLY, "--set", "restarts=2", cwd=run)
    assert done.returncode == 0, done.stderr
    for words in ("the attacker knows", "labels", "objective", "ssim prior", "rdlv", "reconstruction.png"):
        assert words in done.stdout
    assert "bn-only on client-9" in done.stderr, "a progress bar, on stderr"


def test_granted_labels_are_known_to_the_attack(run):
    told = ["attack", "run", "--attack", "inverting-gradients", *QUICK, "--grant", "labels", "--json", "--out", "g"]
    found = json.loads(fluoroscope(*told, cwd=run).stdout)
    assert found["known"]["labels"] is True
    assert found["labels"] == [0], "client 9's image is a normal case"


@pytest.mark.slow
def test_a_killed_attack_goes_on(run, monkeypatch):
    once = ["--attack", "inverting-gradients", "--set", "budget.iterations=6"]
    told = ["attack", "run", *once, "--json", "--out", "killed"]
    whole = json.loads(fluoroscope(*told[:-1], "whole", cwd=run).stdout)
    done = []

    def stopped_after(last):
        """Ctrl-C after so many iterations, with a checkpoint of every one."""

        def run_until(attack, seen, rng, on_iteration, checkpoint):
            def count(i, n):
                done.append(i + 1)
                if i + 1 == last:
                    raise KeyboardInterrupt

            return RUN_ISOLATED(attack, seen, rng, count, replace(checkpoint, every_seconds=0.0))

        return run_until

    monkeypatch.setattr(recorded_update, "run_isolated", stopped_after(3))
    assert fluoroscope(*told, cwd=run).returncode == 130
    monkeypatch.setattr(recorded_update, "run_isolated", stopped_after(None))
    resumed = json.loads(fluoroscope(*told, cwd=run).stdout)
    first, then = done[:3], done[3:]
    assert first == [1, 2, 3]
    assert then == list(range(then[0], 7))
    assert then[0] > 3, "no iteration twice"
    assert resumed["scores"] == whole["scores"]


def test_without_the_images_of_the_plan_it_attacks_and_cannot_score(run):
    folder = run / "moved"
    os.makedirs(folder / "images", exist_ok=True)
    header = json.loads((run / "run/run.json").read_text())
    header["plan"]["data"]["source"] = f"folder:{folder}/gone"
    (folder / "run.json").write_text(json.dumps(header))
    if not (folder / "rounds").exists():
        (folder / "rounds").symlink_to(run / "run/rounds")
    done = fluoroscope("attack", "moved", "--attack", "inverting-gradients", *QUICK, "--json", cwd=run)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["scores"] is None
    assert found["known"]["prior"] is False
    refused = fluoroscope("attack", "moved", *BN_ONLY, cwd=run)
    assert refused.returncode == 2
    assert "bn-only starts from a public prior, but the images of the plan cannot be loaded" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--attack", "bn-onli"], "did you mean 'bn-only'"),
        (["nowhere", "--attack", "bn-only"], "nowhere/run.json is missing"),
        (["run", "--attack", "bn-only", "--round", "7"], "no record of round 7"),
        (["run", "--attack", "bn-only", "--client", "client-3"], "no recorded update of client-3"),
        (["run", "--attack", "bn-only", "--client", "client-3", "--round", "1"], "no record of client-3"),
        (["run", "--attack", "bn-only", "--set", "budget.iteration=3"], "did you mean 'iterations'"),
        (["run", "--attack", "bn-only", "--set", "budget.iterations=few"], "valid integer"),
        (["run", "--attack", "bn-only", "--set", "budget.iterations.x=1"], "has no setting 'x' there"),
        (["run", "--attack", "bn-only", "--set", "objective=2"], "objective.batchnorm_weight"),
        (["run", "--attack", "bn-only", "--set", "start=normla"], "did you mean 'normal'"),
        (["run", "--attack", "bn-only", "--set", "restarts=0"], "restarts must be at least 1"),
        (["run", "--attack", "bn-only", "--set", "restarts"], "--set takes key=value"),
        (["run", "--attack", "bn-only", "--grant", "lables"], "did you mean 'labels'"),
        (["run", "--attack", "bn-only", "--device", "cuda:7"], "--device cpu"),
        (["run"], "--attack"),
    ],
)
def test_wrong_input_is_one_sentence_and_exit_code_2(run, arguments, message):
    done = fluoroscope("attack", *arguments, cwd=run)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not done.stdout


def test_help_teaches_with_examples(tmp_path):
    assert "Example" in fluoroscope("attack", "--help", cwd=tmp_path).stdout
