"""`auto` in an audit: the best is played, the runner-up takes over where it gave up, and all are listed."""

from dataclasses import dataclass, replace

import pytest
import torch

from fluoroscope.audit import chosen_attacks
from fluoroscope.audit.chosen_attacks import attacks_of, play
from fluoroscope.audit.plan import AuditSettings
from fluoroscope.cells import CellContext
from fluoroscope.errors import Misconfigured
from fluoroscope.findings import Finding
from fluoroscope.scenarios.auto_attacks import AUTO, LEFT_OUT, candidates
from fluoroscope.scores.null import against_others
from tests.scenarios.plain_attacks import GivesUp, Prior, Reads, Refuses
from tests.scenarios.test_rehearsal import seen


def here(attack, observations, rng, on_iteration=None, checkpoint=None, *, seconds=None):
    return attack.run(observations, rng)


@dataclass(frozen=True)
class ReadsHalf(Reads):
    """Gives up on every other victim."""

    def run(self, observations, rng, on_iteration=None, checkpoint=None):
        found = super().run(observations, rng)
        return [replace(each, nothing="too dark." if i % 2 else "") for i, each in enumerate(found)]


def context(tmp_path) -> CellContext:
    return CellContext(0, tmp_path, tmp_path / "checkpoint")


def test_the_best_is_played_and_all_are_listed(tmp_path):
    attacks = {"prior": Prior(), "reads": Reads(), "gives-up": GivesUp(), "refuses": Refuses()}
    real = [seen(images=1), seen(images=1)]
    played = play(attacks, real, context(tmp_path), here)
    assert list(played.alone) == ["reads", "prior"]
    assert all(torch.equal(a.images, b.images) for a, b in zip(played.guesses, played.alone["reads"], strict=True))

    def score(guesses):
        images = [guess.images for guess in guesses]
        return against_others(images, images, real[0].public_mean, torch.Generator())

    rows = {row.attack: row for row in played.rows(score)}
    assert (rows["reads"].role, rows["prior"].role) == ("best", "runner-up")
    assert rows["reads"].leak.value > 0.2
    assert rows["reads"].played is not None
    assert (rows["gives-up"].role, rows["gives-up"].reason) == (None, "gave up: the update is noise.")
    assert rows["deepinversion"].reason == f"not tried: {LEFT_OUT['deepinversion']}"
    found = Finding(rehearsed=tuple(rows.values()))
    assert Finding.model_validate(found.model_dump(mode="json", exclude_unset=True)) == found


def test_where_the_best_gave_up_the_runner_up_takes_over(tmp_path):
    attacks = {"reads": ReadsHalf(), "prior": Prior()}
    played = play(attacks, [seen(), seen()], context(tmp_path), here)
    assert list(played.alone) == ["reads", "prior"]
    first, second = played.guesses
    assert torch.equal(first.images, played.alone["reads"][0].images)
    assert torch.equal(second.images, played.alone["prior"][1].images)
    assert not second.nothing


def test_nothing_that_applies_is_said_of_every_victim(tmp_path):
    played = play({"refuses": Refuses()}, [seen(), seen()], context(tmp_path), here)
    assert [guess.nothing for guess in played.guesses] == ["refuses does not apply: two steps are too many"] * 2
    assert played.alone == {}


def test_a_named_attack_is_not_rehearsed(tmp_path):
    played = play(Prior(), [seen()], context(tmp_path), here)
    assert played.rehearsal is None
    assert played.rows(lambda guesses: None) == ()


def test_plans_say_auto_or_names():
    assert AuditSettings().attacks == AuditSettings(attacks="auto").attacks == (AUTO,)
    assert AuditSettings(attacks=["span"]).attacks == ("span",)
    with pytest.raises(Misconfigured, match="spam"):
        AuditSettings(attacks="spam")


def test_what_auto_stands_for_decides_the_key_of_a_cell():
    assert attacks_of(AUTO) == candidates()
    assert list(attacks_of(AUTO, ("span",))) == ["span"]
    seconds, work = chosen_attacks.expected(candidates(), 8, 1, 100)
    assert seconds > len(candidates())
    assert work > chosen_attacks.expected(candidates(), 4, 1, 100)[1]
