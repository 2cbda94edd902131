"""A stopped attack goes on where it was, to the last bit."""

from dataclasses import replace

import pytest
import torch

from fluoroscope.attacks import ATTACKS
from fluoroscope.attacks.common.checkpoint import Checkpoint
from fluoroscope.attacks.common.engine import Budget
from fluoroscope.attacks.common.lbfgs import BatchedLbfgs
from fluoroscope.attacks.common.optimisers import Adam
from fluoroscope.digest import digest
from fluoroscope.errors import BadInput
from tests.attacks.gradient_inversion.observations import seen, victim


class Killed(Exception):
    """Stands for the end of the process."""


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def attack(optimiser=None, **changes):
    settings = {"budget": Budget(9), "restarts": 2, "snapshots": 2, **changes}
    return replace(ATTACKS.get("eucl-tg"), optimiser=optimiser or BatchedLbfgs(0.1, max_iter=5), **settings)


@pytest.fixture(scope="module")
def observations():
    """Two descents: the first two run side by side, the third is of another size."""
    return [seen(victim(seed=0)), seen(victim(seed=1)), seen(victim(2, seed=2))]


def killer(at):
    def on_iteration(iteration, iterations):
        if iteration == at:
            raise Killed

    return on_iteration


@pytest.mark.parametrize("optimiser", [Adam(0.01), BatchedLbfgs(0.1, max_iter=5)], ids=["adam", "l-bfgs"])
@pytest.mark.parametrize("at", [4, 13])
def test_a_killed_attack_ends_as_if_it_had_not_been(optimiser, at, observations, tmp_path):
    whole = attack(optimiser).run(observations, rng())
    checkpoint = Checkpoint(tmp_path / "kept", every_seconds=0)
    with pytest.raises(Killed):
        attack(optimiser).run(observations, rng(), killer(at), checkpoint)
    told = []
    again = attack(optimiser).run(observations, rng(), lambda i, n: told.append(i), checkpoint)
    assert told == list(range(at + 1, 18)), "no iteration is repeated or left out"
    for a, b in zip(whole, again, strict=True):
        assert torch.equal(a.images, b.images)
        assert torch.equal(a.last, b.last)
        assert torch.equal(a.start, b.start)
        assert a.trace == b.trace
        assert a.restarts == b.restarts
        assert list(a.snapshots) == list(b.snapshots) == [2, 4, 6, 8]
        assert all(torch.equal(a.snapshots[k], b.snapshots[k]) for k in a.snapshots)
    told.clear()
    attack(optimiser).run(observations, rng(), lambda i, n: told.append(i), checkpoint)
    assert not told, "what has ended is not run again"


def test_it_is_written_as_seldom_as_asked(observations, tmp_path):
    with pytest.raises(Killed):
        attack().run(observations[:1], rng(), killer(4), Checkpoint(tmp_path, every_seconds=1000))
    assert not list(tmp_path.iterdir())


@pytest.fixture
def kept(observations, tmp_path):
    checkpoint = Checkpoint(tmp_path, every_seconds=0)
    with pytest.raises(Killed):
        attack().run(observations[:1], rng(), killer(2), checkpoint)
    return checkpoint


def test_a_checkpoint_of_something_else_is_refused(kept, observations):
    for other, evidence, seed in (
        (attack(restarts=1), observations[:1], 0),
        (attack(), observations[1:2], 0),
        (attack(), observations[:1], 1),
    ):
        with pytest.raises(BadInput, match=r"descent-0000.safetensors is the checkpoint of other observations"):
            other.run(evidence, rng(seed), checkpoint=kept)


@pytest.mark.parametrize("damage", [b"", b"not at all", "half"])
def test_a_damaged_checkpoint_is_named(damage, kept, observations):
    (path,) = kept.folder.iterdir()
    path.write_bytes(path.read_bytes()[:-50] if damage == "half" else damage)
    with pytest.raises(BadInput, match=r"descent-0000.safetensors is damaged .* delete it"):
        attack().run(observations[:1], rng(), checkpoint=kept)


def test_a_digest_knows_contents_from_one_another():
    a, b = torch.zeros(2), torch.zeros(2, dtype=torch.int64)
    contents = [
        (a,),
        (b,),
        (a.reshape(1, 2),),
        ([a], a),
        ([a, a],),
        ({"x": a},),
        ({"y": a},),
        (Adam(0.1),),
        (Adam(0.2),),
    ]
    contents += [("ab", "c"), ("a", "bc"), (1,), ("1",), (None,), ({1, 2},), ({1, 3},)]
    assert len({digest(*content) for content in contents}) == len(contents)
    assert digest({"x": a, "y": b}) == digest({"y": b.clone(), "x": a.clone()})
