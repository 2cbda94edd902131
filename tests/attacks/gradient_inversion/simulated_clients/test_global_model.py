"""DeepInversion: the objective's gradient is its derivative, and the model comes to see what was asked for."""

from dataclasses import replace

import pytest
import torch

from fluoroscope.attacks import ATTACKS
from fluoroscope.attacks.common.engine import Budget
from fluoroscope.attacks.gradient_inversion.regularisers import TotalVariation
from fluoroscope.attacks.gradient_inversion.simulated_clients.global_model import GlobalModel, ModelObjective
from fluoroscope.errors import Unsupported
from fluoroscope.threat_models import THREATS
from fluoroscope.types import Capability
from tests.attacks.gradient_inversion.observations import seen, victim


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def observation():
    """Without the update: it must not be missed."""
    known = THREATS.get("curious-server").without(Capability.UPDATE, Capability.BUFFERS)
    return seen(victim(2, 32), "small-cnn", known)


def test_the_gradient_is_the_derivative(observation):
    client = GlobalModel(observation, ModelObjective(0.5, 2.0, (TotalVariation(0.1),)))
    client.model.double()
    client.state = {k: v.double() if v.is_floating_point() else v for k, v in client.state.items()}
    client.remembered = {k: type(v)(*(x.double() for x in v)) for k, v in client.remembered.items()}
    images = torch.rand(2, 1, 32, 32, generator=rng(1), dtype=torch.float64)
    logits = torch.randn(2, 2, generator=rng(2), dtype=torch.float64)
    _, to_images, to_logits = client.evaluate(images, logits)
    dx, dy = (torch.randn(g.shape, generator=rng(3), dtype=torch.float64) for g in (to_images, to_logits))
    step = 1e-6
    ahead, behind = (client.evaluate(images + h * dx, logits + h * dy)[0] for h in (step, -step))
    expected = (to_images * dx).sum() + (to_logits * dy).sum()
    torch.testing.assert_close(expected, (ahead - behind) / (2 * step), rtol=1e-5, atol=1e-7)


def test_statistics_that_the_model_remembers_cost_nothing(observation):
    """A model whose buffers are one batch's own statistics: that batch has no mismatch, another one has."""
    batch = victim(2, 32)
    model = observation.network.build()
    for layer in model.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.momentum = 1.0
    for _ in range(6):  # layer by layer the inputs settle, as the evaluated model normalises by what it remembers
        model.train()(batch.images)
    remembered = {name: value for name, value in model.state_dict().items() if "running" in name or "num" in name}
    client = GlobalModel(replace(observation, buffers_before=remembered), ModelObjective(1.0, 0.0))
    logits = torch.zeros(2, 2)
    own, other = (client.evaluate(images, logits)[0] for images in (batch.images, 1 - batch.images))
    assert own < 0.1 * other  # what is left: the running variance is unbiased


def test_the_model_comes_to_see_the_chosen_classes(observation):
    state = {**observation.state_before, "fc.weight": 30 * observation.state_before["fc.weight"]}  # one that decides
    attack = replace(ATTACKS.get("deepinversion"), objective=ModelObjective(0.001), budget=Budget(40))
    (guess,) = attack.run([replace(observation, state_before=state)], rng())
    assert guess.labels.tolist() == [0, 1]
    model = observation.network.build().eval()
    model.load_state_dict(state, strict=False)
    with torch.no_grad():
        before, after = (model(x).softmax(1)[range(2), guess.labels].min() for x in (guess.start, guess.images))
    assert before < 0.5
    assert after > 0.65


def test_a_model_without_batchnorm_is_refused():
    with pytest.raises(Unsupported, match="lenet5 has no BatchNorm layer: choose a model that has, such as resnet18"):
        ATTACKS.get("deepinversion").run([seen(victim(1))], rng())
