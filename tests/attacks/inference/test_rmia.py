"""RMIA against a slow loop by the paper's formula."""

from dataclasses import replace

import pytest
import torch

from fluoroscope.attacks.inference.rmia import (
    PoolRounds,
    Rmia,
    marginal,
    pool_rounds,
    rehearsed_share,
    relative_likelihoods,
)
from fluoroscope.attacks.inference.seen_model import SeenModel
from fluoroscope.errors import Misconfigured, Unsupported
from fluoroscope.types import LabelledImages
from tests.attacks.inference.one_layer import TRAINING, records, rng, sent

POOL = records([[1.0, 0.0], [0.5, 0.2], [0.0, 1.0], [0.3, 0.6], [0.9, 0.4]], [0, 0, 1, 1, 1])


@pytest.mark.parametrize("gamma", [1.0, 2.0])
def test_the_score_is_that_of_a_slow_loop(gamma):
    generator = torch.Generator().manual_seed(0)
    x, z = (torch.rand(n, generator=generator, dtype=torch.float64) for n in (6, 9))
    x_out, z_out = (torch.rand(5, n, generator=generator, dtype=torch.float64) for n in (6, 9))
    found = relative_likelihoods(x, marginal(x_out.mean(0), 0.3), z, z_out.mean(0), gamma)
    for i in range(6):
        # Pr(x) is the mean of a model with x and of one without it; of the former Pr(x)_in = a Pr(x)_out + 1 - a.
        without = sum(float(model[i]) for model in x_out) / 5
        with_it = 0.3 * without + 1 - 0.3
        ratio_x = float(x[i]) / ((without + with_it) / 2)
        exceeded = 0
        for j in range(9):
            ratio_z = float(z[j]) / (sum(float(model[j]) for model in z_out) / 5)
            exceeded += ratio_x / ratio_z >= gamma
        assert found[i] == pytest.approx(exceeded / 9)


def test_the_whole_attack_is_that_of_a_slow_loop():
    """The same shadows, drawn again; the model's probabilities by hand."""
    seen, asked = sent(2.0), records([[1.0, 0.0], [0.0, 1.0], [0.2, 0.1]], [0, 0, 1])
    played = pool_rounds(seen, SeenModel.of(seen), asked, POOL, 4, rng())
    (found,) = Rmia(shadows=4, a=0.3).run([seen], asked, rng(), POOL)

    def probability(image, label):
        outputs = 2.0 * image[0, 0].double()
        return float(outputs.softmax(0)[label])

    ratios = []
    for j, (image, label) in enumerate(zip(POOL.images, POOL.labels, strict=True)):
        outside = [float(played.pool[s, j]) for s in range(4) if not played.inside[s, j]]
        ratios.append(probability(image, label) / (sum(outside) / len(outside)))
    for i, (image, label) in enumerate(zip(asked.images, asked.labels, strict=True)):
        without = sum(float(played.candidates[s, i]) for s in range(4)) / 4
        ratio = probability(image, label) / ((1.3 * without + 0.7) / 2)
        assert found[i] == pytest.approx(sum(ratio / other >= 1.0 for other in ratios) / 5)


def test_shadows_train_on_halves_of_the_pool_for_as_many_steps_as_the_victim(monkeypatch):
    trained = []

    def spy(*given):
        def train(images, generator):
            trained.append(images)
            return SeenModel.of(sent(1.0)).state

        return train

    monkeypatch.setattr("fluoroscope.attacks.inference.rmia.client", spy)
    seen = sent(2.0, replace(TRAINING, images=7))
    played = pool_rounds(seen, SeenModel.of(seen), POOL, POOL, 4, rng())
    assert [len(each) for each in trained] == [7] * 4
    assert played.inside.sum(1).tolist() == [2] * 4
    assert not (played.inside[0] & played.inside[1]).any()
    assert not (played.inside[2] & played.inside[3]).any()


def test_without_a_model_that_lacks_an_image_all_others_are_asked():
    pool = torch.tensor([[0.2, 0.4], [0.6, 0.8]], dtype=torch.float64)
    inside = torch.tensor([[True, False], [True, True]])
    played = PoolRounds(pool, pool, inside)
    assert played.outside().tolist() == pytest.approx([0.4, 0.4])
    assert played.outside(without=0).tolist() == pytest.approx([0.6, 0.8])
    assert inside.tolist() == [[True, False], [True, True]], "nothing is changed"


def test_the_rehearsal_finds_how_far_models_with_an_image_lie_above():
    """Members at a Pr(x)_out + 1 - a with a = 0: a line through 1 whatever the model says without them."""
    generator = torch.Generator().manual_seed(1)
    without = torch.rand(1, 60, generator=generator, dtype=torch.float64).clamp(0.05).expand(6, 60).clone()
    inside = torch.rand(6, 60, generator=generator) < 0.5
    sure = PoolRounds(without, torch.where(inside, 1.0, without), inside)
    found = rehearsed_share(sure, 1.0)
    little = PoolRounds(without, torch.where(inside, 0.9 * without + 0.1, without), inside)
    assert found <= 0.3 < rehearsed_share(little, 1.0)


def test_what_cannot_be_played_is_said():
    asked = records([[1.0, 0.0]], [0])
    with pytest.raises(Misconfigured, match="as pool"):
        Rmia().run([sent(1.0)], asked, rng())
    with pytest.raises(Misconfigured, match="two shadows"):
        Rmia(shadows=1).run([sent(1.0)], asked, rng(), POOL)
    with pytest.raises(Unsupported, match="'loss'"):
        Rmia().run([sent(1.0)], LabelledImages(asked.images, torch.zeros(1, 2)), rng(), POOL)
