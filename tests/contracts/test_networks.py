"""Every network, registered or somebody's own: one contract, a client's round, and attacks that run or say why not."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from monai.networks import nets
from torch import Tensor, nn

from fluoroscope.attacks import ATTACKS
from fluoroscope.attacks.common.engine import Budget
from fluoroscope.attacks.gradient_inversion.attack import Inversion
from fluoroscope.errors import Unsupported
from fluoroscope.federation.client_round import client_round
from fluoroscope.models import MODELS, Architecture, ImportedNetwork
from fluoroscope.threat_models import THREATS, observe
from fluoroscope.types import AdamW, LocalTraining, Network, PrivateBatch, Sgd, UpdateRecord

ROOT = Path(__file__).parents[2]
SIDE = 64
LARGE = {"efficientnet-lite0", "resnet18", "resnet18-gn", "resnet18-sigmoid"}


class Own(nn.Module):
    """Branches, a bias without a layer, and a layer that is used twice."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, width, 5, stride=4, padding=2)
        self.norm = nn.BatchNorm2d(width)
        self.twice = nn.Conv2d(width, width, 3, padding=1)
        self.scale = nn.Parameter(torch.ones(width, 1, 1))
        self.head = nn.Linear(2 * width, 2)

    def forward(self, images: Tensor) -> Tensor:
        x = self.norm(self.stem(images)).relu() * self.scale
        x = x + self.twice(torch.tanh(self.twice(x)))
        return self.head(torch.cat([x.mean((2, 3)), x.amax((2, 3))], 1))


@dataclass
class Output:
    """As Hugging Face's models return it."""

    logits: Tensor
    hidden: tuple[Tensor, ...]


class ReturnsAnObject(Own):
    def forward(self, images: Tensor) -> Output:  # type: ignore[override]
        return Output(super().forward(images), (images,))


def registered(name: str) -> Network:
    return Architecture(name, 1, 2, SIDE, weights="random" if name == "efficientnet-lite0" else None)


def of(module: nn.Module) -> Network:
    return Network.of(module, (1, SIDE, SIDE))


def monai_vit() -> nn.Module:
    small = {"hidden_size": 48, "mlp_dim": 64, "num_layers": 2, "num_heads": 4, "spatial_dims": 2, "num_classes": 2}
    return nets.ViT(1, SIDE, 16, classification=True, post_activation=None, **small)


FAST: dict[str, Callable[[], Network]] = {
    **{name: (lambda name=name: registered(name)) for name in MODELS if name not in LARGE},
    "own": lambda: of(Own()),
    "returns an object": lambda: of(ReturnsAnObject()),
    "imported": lambda: ImportedNetwork("tests.contracts.test_networks:Own", {"width": 6}, (1, SIDE, SIDE)),
    "monai-densenet": lambda: of(nets.DenseNet(2, 1, 2, init_features=8, growth_rate=4, block_config=(2, 2))),
    "monai-vit": lambda: of(monai_vit()),
}
SLOW: dict[str, Callable[[], Network]] = {
    **{name: (lambda name=name: registered(name)) for name in MODELS if name in LARGE},
    "monai-densenet121": lambda: of(nets.DenseNet121(2, 1, 2)),
    "monai-efficientnet": lambda: of(
        nets.EfficientNetBN("efficientnet-b0", pretrained=False, spatial_dims=2, in_channels=1, num_classes=2)
    ),
    "monai-seresnet50": lambda: of(nets.SEResNet50(spatial_dims=2, in_channels=1, num_classes=2)),
}


def rng() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def images(n: int) -> PrivateBatch:
    return PrivateBatch(torch.rand((n, 1, SIDE, SIDE), generator=rng()), torch.arange(n) % 2, ("a", "b", "c")[:n])


def quick(name: str):
    attack = ATTACKS.get(name)
    if isinstance(attack, Inversion) and attack.stages is not None:
        attack = replace(attack, stages=replace(attack.stages, iterations=1))
    return replace(attack, budget=Budget(2)) if hasattr(attack, "budget") else attack


@pytest.fixture(
    scope="module",
    params=[*FAST, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)],
    ids=lambda name: name.replace(" ", "-"),
)
def network(request) -> Network:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return (FAST | SLOW)[request.param]()


def state_of(network: Network) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in network.build(seed=1).state_dict().items()}


@pytest.fixture
def seen(network):
    """One step of SGD on one image, which every attack is for, of a class that the network does not expect: else a
    network that is sure of itself sends nothing."""
    training, image = LocalTraining(Sgd(0.05), 1, 1), images(1)
    with torch.no_grad():
        image = replace(image, labels=network.build(seed=1)(image.images).argmin(1))
    record = client_round(network, state_of(network), image, training, rng()).record
    return observe(record, THREATS.get("curious-server"), torch.full(network.input_shape, 0.5))


def used(network: Network) -> set[str]:
    """The parameters that the scores depend on: MONAI's ViT has some that nothing runs through."""
    module = network.build(seed=1)
    names, values = zip(*module.named_parameters(), strict=True)
    gradients = torch.autograd.grad(module(images(2).images).square().sum(), values, allow_unused=True)
    return {name for name, gradient in zip(names, gradients, strict=True) if gradient is not None and gradient.any()}


def test_it_is_built_again_as_it_was(network):
    one, two = (network.build(seed=1) for _ in range(2))
    assert one is not two
    assert one.training
    first, second = one.state_dict(), two.state_dict()
    assert list(first) == list(second)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not {value.data_ptr() for value in first.values()} & {value.data_ptr() for value in second.values()}


def test_images_go_in_and_a_score_per_class_comes_out(network):
    assert network.input_shape == (1, SIDE, SIDE)
    with torch.no_grad():
        found = network.build()(torch.rand(3, *network.input_shape))
    assert isinstance(found, Tensor)
    assert found.shape == (3, network.outputs) == (3, 2)


def test_a_round_of_adamw_gives_a_record_of_what_changed(network):
    state = state_of(network)
    before = {name: value.clone() for name, value in state.items()}
    training = LocalTraining(AdamW(1e-3), 3, 2, epochs=2, max_steps=3)
    done = client_round(network, state, images(3), training, rng())
    assert all(torch.equal(state[name], before[name]) for name in state), "what was sent to the client is left alone"
    moved = {name for name, change in done.record.arrays.items() if change.abs().max() > 0}
    assert moved >= used(network), "every weight is trained"
    again = UpdateRecord.between(network, before, done.sent, training)
    assert list(again.arrays) == list(done.record.arrays)
    assert all(torch.equal(change, done.record.arrays[name]) for name, change in again.arrays.items())
    assert done.loss == pytest.approx(done.loss), "a number"


def test_inverting_gradients_runs_to_its_end(network, seen):
    told = []
    (guess,) = quick("inverting-gradients").run([seen], rng(), lambda i, n: told.append((i, n)))
    assert guess.images.shape == (1, *network.input_shape)
    assert guess.images.isfinite().all()
    assert told[-1] == (1, 2)


@pytest.mark.parametrize("name", ["span", "epochwise", "r-gap"])
def test_other_attacks_run_or_say_why_not(network, seen, name):
    try:
        (guess,) = quick(name).run([seen], rng())
    except Unsupported as reason:
        assert len(str(reason)) > 30  # noqa: PT017  # one of three good ends
        return
    assert guess.images.shape[1:] == network.input_shape
    assert guess.nothing or guess.images.isfinite().all()


def keys() -> dict[str, str]:
    """Of the networks of the fast suite, and of others that differ from them in one thing."""
    torch.manual_seed(0)
    found = {name: make().key for name, make in FAST.items()}
    others = {
        "wider": of(Own(5)),
        "another side": Network.of(Own(), (1, SIDE, SIDE // 2)),
        "more classes": Architecture("lenet5", 1, 3, SIDE),
        "another module": of(nn.Sequential(nn.Flatten(), nn.Linear(SIDE * SIDE, 2))),
        "another layer": of(nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(SIDE * SIDE, 2))),
        "another dropout": of(nn.Sequential(nn.Flatten(), nn.Dropout(0.6), nn.Linear(SIDE * SIDE, 2))),
    }
    return found | {name: network.key for name, network in others.items()}


@pytest.mark.slow
def test_keys_are_the_same_in_every_process_and_of_one_network_only():
    here = keys()
    assert len(set(here.values())) == len(here)
    program = "import json; from tests.contracts.test_networks import keys; print(json.dumps(keys()))"
    path = os.pathsep.join([str(ROOT), *filter(os.path.isabs, sys.path)])
    there = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(there.stdout.splitlines()[-1]) == here
