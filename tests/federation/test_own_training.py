"""What a hospital's training really is, said in a plan: it is trained so, recorded so, and read back."""

import json
from dataclasses import replace

import pytest
import torch
from PIL import Image
from torch import nn

import fluoroscope as fl
from fluoroscope.attacks import ATTACKS
from fluoroscope.attacks.common.engine import Budget
from fluoroscope.errors import BadInput, Misconfigured, Unsupported
from fluoroscope.federation.plan import parse_plan
from fluoroscope.federation.run import federate
from fluoroscope.federation.task import load_task
from fluoroscope.federation.training_record import plain_training, read_training
from fluoroscope.scenarios.stand_ins import stand_in_round
from fluoroscope.types import (
    Adam,
    AdamW,
    BinaryCrossEntropy,
    CrossEntropy,
    CustomLoss,
    LocalTraining,
    Normalisation,
    OneGradient,
    Sgd,
)

from .conftest import plan_of


def make(width: int, classes: int = 2) -> nn.Module:
    """A hospital's own network."""
    return nn.Sequential(
        nn.Conv2d(1, width, 3, 2), nn.BatchNorm2d(width), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        nn.Linear(4 * width, classes),
    )  # fmt: skip


def no_mean(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(outputs, targets, reduction="none")


def margin(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return nn.functional.multi_margin_loss(outputs, targets)


OWN = {
    "model": {"factory": "tests.federation.test_own_training:make", "arguments": {"width": 6}},
    "training": {
        "optimizer": "adamw",
        "lr": 0.002,
        "betas": [0.8, 0.95],
        "steps": 3,
        "class_weights": [1.0, 2.0],
        "label_smoothing": 0.1,
        "normalisation": {"mean": [0.4], "std": [0.2]},
        "clip_norm": 1.0,
        "frozen": ["0.*"],
    },
}


def own_plan(**changes):
    """Without the keys that the usual plan of these tests has."""
    usual = plan_of().model_dump(mode="json")
    return parse_plan({"rounds": 2, "data": usual["data"], "partition": usual["partition"], **OWN, **changes})


def test_a_plan_says_all_of_it(tmp_path):
    plan = own_plan()
    store, task = federate(plan, tmp_path / "run"), load_task(plan)
    record = store.load(2, "client-1")
    assert record.training == LocalTraining(
        AdamW(0.002, (0.8, 0.95)),
        images=len(task.clients[0].train),
        batch_size=8,
        loss=CrossEntropy((1.0, 2.0), 0.1),
        max_steps=3,
        normalisation=Normalisation((0.4,), (0.2,)),
        clip_norm=1.0,
        frozen=("0.*",),
    )
    assert record.network.outputs == 2
    assert not record.arrays["0.weight"].any()
    assert record.arrays["5.weight"].any()
    assert json.loads((tmp_path / "run/run.json").read_text())["architecture"]["factory"] == OWN["model"]["factory"]


def test_a_run_of_an_own_network_goes_on_with_the_same_bytes(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    federate(own_plan(), whole)
    federate(own_plan(rounds=1), parts)
    federate(own_plan(), parts)
    names = ["rounds/0002/global.safetensors", "rounds/0002/client-1.safetensors"]
    assert all((whole / name).read_bytes() == (parts / name).read_bytes() for name in names)


def test_several_findings_per_image(tmp_path):
    """NIH's way of writing them: a label that names several."""
    rng = torch.Generator().manual_seed(0)
    names = ["effusion", "effusion|mass", "mass", "none"]
    lines = ["file,label,patient"]
    for i in range(64):
        Image.fromarray((torch.rand(28, 28, generator=rng) * 255).byte().numpy()).save(tmp_path / f"{i}.png")
        lines.append(f"{i}.png,{names[i % 4]},p{i}")
    (tmp_path / "images.csv").write_text("\n".join(lines))
    plan = own_plan(
        rounds=1,
        data={"source": f"folder:{tmp_path}"},
        partition={"name": "iid", "clients": 2},
        model={"name": "small-cnn"},
        training={"loss": "multi-label", "class_weights": [1.0, 2.0, 1.0], "batch_size": 8},
    )
    task, store = load_task(plan), federate(plan, tmp_path / "run")
    assert task.images.classes == ("effusion", "mass", "none")
    assert task.images.counts(range(64)) == {"effusion": 32, "mass": 32, "none": 16}
    record = store.load(1, "client-1")
    assert record.training.loss == BinaryCrossEntropy((1.0, 2.0, 1.0))
    assert record.network.outputs == 3
    truth = task.train_batch(0)
    alone = stand_in_round(task, store.global_state(0), 1, truth.subset([0]), 1, torch.Generator(), "client-1")
    guess = fl.attack(alone, replace(ATTACKS.get("idlg"), budget=Budget(2)))
    assert torch.equal(guess.labels, truth.labels[:1].long())  # each finding's sign stands in the last bias's gradient
    assert 0 <= json.loads((tmp_path / "run/result.json").read_text())["last"]["accuracy"] <= 1


@pytest.mark.parametrize(
    "training",
    [
        LocalTraining(Sgd(0.1, 0.9, 1e-4, True), 8, 4, 2, proximal_mu=0.1),
        LocalTraining(Adam(0.1, (0.8, 0.9), 1e-3, 0.1), 8, 4, batchnorm="eval"),
        LocalTraining(AdamW(0.1), 8, 4, max_steps=3, frozen=("a.*",)),
        LocalTraining(OneGradient(), 4, 4, loss=BinaryCrossEntropy((1.0, 2.0)), clip_norm=2.0),
        LocalTraining(
            Sgd(0.1), 8, 4, loss=CustomLoss(margin, f"{__name__}:margin"), normalisation=Normalisation((0.5,), (0.1,))
        ),
    ],
    ids=lambda training: type(training.optimiser).__name__,
)
def test_a_manifest_gives_the_training_back(training):
    assert read_training(json.loads(json.dumps(plain_training(training)))) == training


def test_a_callable_without_a_path_is_written_and_cannot_be_read_again():
    plain = plain_training(LocalTraining(Sgd(0.1), 1, 1, loss=CustomLoss(margin)))
    with pytest.raises(BadInput, match="has no import path"):
        read_training(plain)


def test_manifests_of_the_first_format_are_read():
    old = {"images": 8, "batch_size": 4, "epochs": 2, "loss": "cross-entropy", "batchnorm": "train"}
    sgd = read_training({**old, "optimiser": {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.0}})
    assert sgd == LocalTraining(Sgd(0.1, 0.9), 8, 4, 2)
    adam = read_training({**old, "optimiser": {"lr": 0.1, "betas": [0.9, 0.999], "eps": 1e-8}})
    assert adam == LocalTraining(Adam(0.1), 8, 4, 2)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"training": {"optimiser": "adam", "momentum": 0.9}}, "momentum and nesterov belong to sgd"),
        ({"training": {"steps": 3, "epochs": 2}}, "steps stand in the place of epochs"),
        ({"training": {"loss": "multi-label", "label_smoothing": 0.1}}, "label_smoothing belongs to"),
        ({"model": {"arguments": {"width": 3}}}, "model.arguments belong to model.factory"),
    ],
)
def test_settings_that_do_not_go_together_are_named(changes, words):
    with pytest.raises(Misconfigured, match=words):
        own_plan(**changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": {"factory": "no.such:thing"}}, "cannot be imported"),
        ({"model": {"factory": OWN["model"]["factory"], "arguments": {"width": 2, "classes": 5}}}, "gives 5 outputs"),
        ({"training": {"loss": "hinge"}}, "there is no loss 'hinge'"),
        ({"training": {"frozen": ["nobody.*"]}}, "no parameter is named 'nobody"),
        ({"training": {"frozen": ["*"]}}, "leaves nothing to train"),
        ({"training": {"class_weights": [1.0, 2.0, 3.0]}}, "3 numbers for 2 classes"),
        ({"training": {"loss": "multi-label", "class_weights": [1.0]}}, "1 numbers for 2 classes"),
        ({"training": {"loss": f"{__name__}:no_mean"}}, "must give one number"),
        ({"training": {"normalisation": {"mean": [0.4, 0.4, 0.4], "std": [0.2, 0.2, 0.2]}}}, "images of 1 channels"),
        ({"training": {"optimizer": "gradient", "batch_size": 8}}, "one gradient is one step"),
    ],
)
def test_what_does_not_fit_the_images_is_named_and_nothing_is_written(changes, words, tmp_path):
    with pytest.raises((Misconfigured, BadInput, Unsupported), match=words):
        federate(own_plan(**changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_old_plans_keep_their_fingerprint():
    """Of a plan as the first release wrote it, computed then."""
    assert plan_of().fingerprint == "9f55488ec9930680c597aaa94f9fe4a616fcd9308746ee5e442709193fa1449c"
