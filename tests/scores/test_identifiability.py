"""IIP against the loop of the paper, its chance level against random orders, and where the answer is known."""

import math

import pytest
import torch

from fluoroscope.data.phantoms import CHEST, phantoms
from fluoroscope.data.sources import Request
from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.models.embedder import ImageNetEmbedder
from fluoroscope.scores.identifiability import chance, identify, identify_images


def embeddings(n, seed=0):
    return torch.randn(n, 6, generator=torch.Generator().manual_seed(seed))


def members(n, *which):
    mask = torch.zeros(n, dtype=torch.bool)
    mask[list(which)] = True
    return mask


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("k", [1, 2, 5, 12])
def test_it_is_the_loop_of_the_paper(k, seed):
    guesses, pool, mine = embeddings(7, seed), embeddings(12, seed + 20), members(12, 1, 4, 5, 9)
    unique = set()
    for guess in guesses:
        cosines = [float(guess @ other / (guess.norm() * other.norm())) for other in pool]
        ranked = sorted(range(12), key=cosines.__getitem__, reverse=True)[:k]
        unique |= {i for i in ranked if mine[i]} and {next(i for i in ranked if mine[i])}
    result = identify(guesses, pool, mine, k)
    assert result.iip == len(unique) / 4
    assert set(result.hit.tolist()) - {-1} == unique
    assert result.nearest[-1].tolist() == ranked
    assert float(result.similarity[-1, 0]) == pytest.approx(max(cosines), abs=1e-6)


def test_the_originals_point_to_themselves():
    pool, mine = embeddings(12), members(12, 0, 3, 7)
    result = identify(pool[mine], pool, mine)
    assert result.iip == 1
    assert result.hit.tolist() == [0, 3, 7]
    assert result.mean_similarity == result.mean_hit_similarity == pytest.approx(1)


def test_other_clients_images_point_elsewhere():
    pool, mine = embeddings(12), members(12, 0, 3, 7)
    result = identify(pool[~mine], pool, mine)
    assert result.iip == 0
    assert set(result.hit.tolist()) == {-1}
    assert math.isnan(result.mean_hit_similarity)


def test_many_reconstructions_of_one_image_count_once():
    pool, mine = embeddings(12), members(12, 0, 3, 7, 8)
    assert identify(pool[[3, 3, 3, 3]] * 5, pool, mine).iip == 0.25


def test_a_larger_k_only_finds_more():
    guesses, pool, mine = embeddings(5), embeddings(20, 3), members(20, 2, 5, 11)
    scores = [identify(guesses, pool, mine, k).iip for k in range(1, 21)]
    assert scores == sorted(scores)
    assert identify(guesses, pool, mine, 20).hit.min() >= 0


def test_a_diverged_reconstruction_points_nowhere():
    pool, mine = embeddings(6), members(6, 0, 1, 2)
    guesses = pool[:3].clone()
    guesses[1] = math.nan
    result = identify(guesses, pool, mine, k=2)
    assert result.hit.tolist() == [0, -1, 2]
    assert result.iip == pytest.approx(2 / 3)
    assert result.mean_similarity == pytest.approx(1)


@pytest.mark.parametrize(("n", "k"), [(1, 1), (4, 1), (3, 2), (5, 4)])
def test_chance_is_what_random_orders_reach(n, k):
    g, mine = torch.Generator().manual_seed(n), {0, 1, 2}
    total = 0
    for _ in range(4000):
        orders = torch.rand(n, 8, generator=g).argsort(1)[:, :k].tolist()
        total += len({next(i for i in order if i in mine) for order in orders if mine & set(order)})
    assert chance(n, pool=8, members=3, k=k) == pytest.approx(total / 4000 / 3, abs=0.02)


def test_chance_where_it_is_known():
    assert chance(1, pool=10, members=1) == pytest.approx(0.1)
    assert chance(1, pool=10, members=10) == pytest.approx(0.1)
    assert chance(1, pool=10, members=1, k=10) == pytest.approx(1)
    assert chance(0, pool=10, members=4) == 0


def test_phantoms_are_told_apart_by_the_real_embedder():
    """Noise on the originals is forgiven; the prior, the mean of the pool, identifies one image at most."""
    pool = phantoms(CHEST, range(24), Request(size=48)).batch.images
    mine, embed = members(24, *range(6)), ImageNetEmbedder(size=48)
    assert identify_images(pool[mine], pool, mine, embed).iip == 1
    noise = torch.randn(6, 1, 48, 48, generator=torch.Generator().manual_seed(1))
    near = identify_images(pool[mine] + 0.01 * noise, pool, mine, embed)
    assert near.iip > 0.5
    assert 0.8 < near.mean_similarity < 1
    prior = identify_images(pool.mean(0).expand(6, -1, -1, -1), pool, mine, embed)
    assert prior.iip <= 1 / 6
    assert prior.mean_similarity < near.mean_similarity


def test_a_blurred_or_faded_phantom_still_points_to_its_original():
    """As reconstructions are, at SSIM 0.7 to 0.8. Features pooled at the network's end found a fifth of them."""
    pool = phantoms(CHEST, range(60), Request(size=64)).batch.images
    mine = members(60, *range(20))
    own, mean = pool[mine], pool.mean(0)
    embed = ImageNetEmbedder(size=64)
    centre = embed(pool).mean(0)

    def found(guesses: torch.Tensor) -> float:
        return identify(embed(guesses) - centre, embed(pool) - centre, mine).iip

    assert found(blurred(own, 2.0)) > 0.8
    assert found(0.45 * own + 0.55 * mean) > 0.8
    assert found(mean.expand(20, -1, -1, -1)) <= 1 / 20


def blurred(images: torch.Tensor, sigma: float) -> torch.Tensor:
    reach = torch.arange(-6, 7).double()
    kernel = torch.exp(-(reach**2) / (2 * sigma**2)).to(images)
    kernel /= kernel.sum()
    wide = torch.nn.functional.pad(images, (6, 6, 6, 6), mode="replicate")
    return torch.nn.functional.conv2d(
        torch.nn.functional.conv2d(wide, kernel[None, None, None]), kernel[None, None, :, None]
    )


def test_what_cannot_be_looked_up_is_named():
    pool, mine = embeddings(6), members(6, 0)
    with pytest.raises(BadInput, match=r"\(6, 6\) and \(6, 5\)"):
        identify(pool, pool[:, :5], mine)
    with pytest.raises(BadInput, match=r"each of the 6 images .* shape \(5,\)"):
        identify(pool, pool, mine[:5])
    with pytest.raises(BadInput, match="no image of the pool"):
        identify(pool, pool, members(6))
    with pytest.raises(BadInput, match="not finite"):
        identify(pool, pool * math.nan, mine)
    with pytest.raises(Misconfigured, match="from 1 to the 6 images of the pool, not 7"):
        identify(pool, pool, mine, k=7)
