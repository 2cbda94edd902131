"""t-SNE against scikit-learn, and by whether neighbours stay neighbours."""

import math

import pytest
import torch
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits

from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.rng import generator
from fluoroscope.scores.projection import tsne


def groups(each=12, features=20, seed=0):
    """Three groups of directions; lengths differ widely, and cosine does not care."""
    g = torch.Generator().manual_seed(seed)
    centres = torch.randn(3, 1, features, generator=g)
    points = centres + 0.1 * torch.randn(3, each, features, generator=g)
    return (points * (0.1 + 10 * torch.rand(3, each, 1, generator=g))).flatten(0, 1)


def test_neighbours_stay_neighbours():
    points = tsne(groups(), generator(0))
    distances = torch.cdist(points, points) + torch.diag(torch.full((36,), math.inf))
    group = torch.arange(36) // 12
    assert torch.equal(group[distances.argmin(1)], group)


def test_it_is_scikit_learn():
    given, rng = groups(), generator(3)
    seed = int(torch.randint(2**31 - 1, (), generator=rng))
    with threadpool_limits(limits=1):
        method = TSNE(perplexity=5, metric="cosine", init="pca", random_state=seed)
        theirs = method.fit_transform(given.double().numpy())
    torch.testing.assert_close(tsne(given, generator(3), perplexity=5), torch.as_tensor(theirs))


def test_the_same_generator_gives_the_same_picture():
    first = tsne(groups(), generator(1))
    assert torch.equal(first, tsne(groups(), generator(1)))
    assert first.shape == (36, 2)
    assert first.dtype == torch.float32


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 29, 31])
def test_few_points_are_drawn_too(n):
    points = tsne(groups()[:n], generator(0))
    assert points.shape == (n, 2)
    assert points.isfinite().all()


def test_equal_embeddings_are_drawn():
    assert tsne(torch.ones(8, 5), generator(0)).isfinite().all()


def test_a_diverged_embedding_has_no_place_and_moves_no_other():
    given = groups()
    spoilt = torch.cat([given[:4], torch.full((1, 20), math.nan), given[4:]])
    points = tsne(spoilt, generator(0))
    assert points.isnan().all(1).nonzero().flatten().tolist() == [4]
    assert torch.equal(points[points.isfinite().all(1)], tsne(given, generator(0)))
    assert tsne(spoilt[4:5], generator(0)).isnan().all()


def test_what_cannot_be_drawn_is_named():
    with pytest.raises(BadInput, match=r"shape \(3, 1, 8, 8\)"):
        tsne(torch.rand(3, 1, 8, 8), generator(0))
    with pytest.raises(Misconfigured, match="at least 1, not 0"):
        tsne(groups(), generator(0), perplexity=0)
