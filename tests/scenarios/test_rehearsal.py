"""The attacker's own choice: right where the answer is known, and made without the truth."""

from dataclasses import replace
from functools import cache

import pytest
import torch

from fluoroscope.attacks import ATTACKS
from fluoroscope.data import Request, load
from fluoroscope.defences import DEFENCES, NO_DEFENCE, chain
from fluoroscope.errors import Unsupported
from fluoroscope.federation.client_round import client_round
from fluoroscope.scenarios import rehearsal
from fluoroscope.scenarios.auto_attacks import LEFT_OUT, candidates, cut_to, iterations
from fluoroscope.scenarios.isolation import TookTooLong, run_isolated
from fluoroscope.scenarios.playing import chunks, form_for
from fluoroscope.scenarios.rehearsal import Effort, rehearse
from fluoroscope.scenarios.simulated_victims import seen_of_victim, split_public
from fluoroscope.threat_models import THREATS, observe
from fluoroscope.types import Capability, LabelledImages, LocalTraining, Network, PrivateBatch, Sgd
from tests.scenarios.dishonest import Ends
from tests.scenarios.plain_attacks import Dense, Descends, GivesUp, Prior, Reads, Refuses

SERVER = THREATS.get("curious-server")
ALL = {
    "prior": Prior(),
    "gives-up": GivesUp(),
    "reads": Reads(),
    "refuses": Refuses(),
    "fails": Refuses(ValueError),
    "descends": Descends(),
}


def here(attack, observations, rng, *, checkpoint=None, seconds=None):
    """In this process: the attacks of these tests are our own."""
    return attack.run(observations, rng)


@cache
def public(patients: int = 30) -> LabelledImages:
    batch = load("phantom/chest", Request(size=28, images=patients, seed=1)).batch
    return LabelledImages(batch.images, batch.labels, batch.patients)


def seen(defence=NO_DEFENCE, images: int = 1, truth: PrivateBatch | None = None):
    network = Network.of(Dense(), (1, 28, 28))
    truth = truth or load("phantom/chest", Request(size=28, images=images, seed=2)).batch
    state = network.build(0).state_dict()
    training = LocalTraining(Sgd(0.1), images, images)
    record = client_round(network, state, truth, training, torch.Generator().manual_seed(0), defence).record
    have = public()
    return observe(record, SERVER, have.images.mean(0), public_images=have, defence=defence)


class TestPublicImagesAreSplit:
    def test_no_patient_is_on_both_sides(self):
        names = tuple(f"p{i // 2}" for i in range(24))
        images = torch.rand(24, 1, 4, 4)
        found = split_public(LabelledImages(images, torch.arange(24), names), 3, 2, torch.Generator())
        victims = [name for victim in found.victims for name in victim.patients]
        assert len(set(victims)) == len(victims) == 6
        assert not set(victims) & set(found.learning.patients)
        assert len(found.learning) == 24 - 2 * 6
        for victim in found.victims:
            for image, label in zip(victim.images, victim.labels, strict=True):
                assert torch.equal(image, images[label])

    @pytest.mark.parametrize(
        ("patients", "victims", "images", "made"),
        [(30, 8, 1, (8, 1)), (10, 8, 1, (5, 1)), (30, 8, 4, (3, 4)), (30, 8, 100, (2, 7)), (4, 8, 1, (2, 1))],
    )
    def test_victims_take_half_at_most(self, patients, victims, images, made):
        have = LabelledImages(torch.rand(patients, 1, 4, 4), torch.zeros(patients))
        found = split_public(have, victims, images, torch.Generator())
        assert (len(found.victims), len(found.victims[0])) == made
        assert len(found.learning) >= patients / 2

    def test_three_patients_are_too_few(self):
        with pytest.raises(Unsupported, match="at least 4 patients, and there are 3"):
            split_public(LabelledImages(torch.rand(3, 1, 4, 4), torch.zeros(3)), 2, 1, torch.Generator())


class TestASimulatedVictim:
    def test_is_trained_and_defended_as_the_client(self):
        """The same images in the client's place give the client's own update, noise and all."""
        noise = chain(DEFENCES.get("percentile-gaussian")(1.0))
        truth = load("phantom/chest", Request(size=28, images=3, seed=2)).batch
        real = seen(noise, 3, truth)
        split = split_public(public(), 2, 3, torch.Generator())
        rng = torch.Generator().manual_seed(0)
        found = seen_of_victim(real, replace(split, victims=(truth,)), truth, rng)
        assert found.update.keys() == real.update.keys()
        assert all(torch.equal(found.update[name], value) for name, value in real.update.items())
        assert found.training == real.training
        assert found.defence is real.defence

    def test_the_attacker_has_no_image_of_a_victim(self):
        split = split_public(public(), 4, 1, torch.Generator())
        found = seen_of_victim(seen(), split, split.victims[0], torch.Generator())
        assert found.public_images is split.learning
        assert torch.equal(found.public_mean, split.learning.images.mean(0))


class TestTheChoice:
    def test_the_attack_that_works_is_best_and_the_others_say_why_not(self):
        found = rehearse(seen(), ALL, 0, Effort(victims=6), here)
        rows = {row.name: row for row in found.rows}
        assert list(rows) == list(ALL)
        assert (found.best, found.chosen) == ("reads", ("reads", found.runner_up))
        assert found.runner_up in {"prior", "descends"}
        assert rows["reads"].leak.low > 0
        assert rows["reads"].p_value < 0.05
        assert rows["reads"].told_apart.mean == 1
        assert (found.victims, found.images) == (6, 1)
        assert 12 <= found.learning <= 24
        assert (rows["gives-up"].applies, rows["gives-up"].leak) == (True, None)
        assert rows["gives-up"].reason == "gave up: the update is noise."
        assert rows["refuses"].reason == "does not apply: two steps are too many."
        assert rows["fails"].reason == "failed: two steps are too many."
        assert rows["descends"].reason == "cut to 60 of 500 iterations"
        assert not rows["refuses"].applies
        assert not rows["fails"].applies

    def test_the_defence_is_rehearsed_too(self):
        noise = chain(DEFENCES.get("percentile-gaussian")(1e6))
        bare, noisy = (
            rehearse(seen(each), {"reads": Reads()}, 0, Effort(victims=6), here) for each in (NO_DEFENCE, noise)
        )
        assert bare.rows[0].leak.low > 0.5
        assert noisy.rows[0].leak.mean < 0.1

    def test_it_never_looks_at_the_truth_nor_at_the_update(self):
        """The choice is the same whatever the client sent."""
        real = seen()
        others = replace(real, update={name: value * 0 for name, value in real.update.items()})
        first, second = (rehearse(each, ALL, 0, Effort(victims=4), here) for each in (real, others))
        assert [replace(row, seconds=0) for row in first.rows] == [replace(row, seconds=0) for row in second.rows]

    def test_nothing_that_applies_is_no_choice(self):
        found = rehearse(seen(), {"refuses": Refuses(), "gives-up": GivesUp()}, 0, Effort(victims=4), here)
        assert (found.best, found.runner_up, found.chosen) == (None, None, ())
        assert "refuses does not apply" in found.why_none()
        assert "gives-up gave up" in found.why_none()

    def test_what_the_attacker_does_not_know_is_no_ground_for_an_attack(self):
        real = seen()
        knows_less = SERVER.without(Capability.UPDATE)
        found = rehearse(replace(real, knowledge=knows_less, update=None), ALL, 0, Effort(victims=4), here)
        assert {row.name: row for row in found.rows}[
            "reads"
        ].reason == "does not apply: the attacker does not have update."

    def test_without_public_images_there_is_no_rehearsal(self):
        with pytest.raises(Unsupported, match="public-images"):
            rehearse(replace(seen(), public_images=None), ALL, 0)


class TestTheBudget:
    def test_a_descent_that_cannot_fit_is_left_out_with_its_forecast(self, monkeypatch):
        monkeypatch.setattr(rehearsal, "_BACK_AND_FORTH", 1e9)
        (row,) = rehearse(seen(), {"descends": Descends()}, 0, Effort(victims=4), here).rows
        assert not row.applies
        assert "left out: 20 iterations would take about" in row.reason

    def test_an_attack_may_take_half_of_what_is_left(self):
        given = []

        def told(attack, observations, rng, *, checkpoint=None, seconds=None):
            given.append(seconds)
            return attack.run(observations, rng)

        three = {name: Prior() for name in ("a", "b", "c")}
        rehearse(seen(), three, 0, Effort(victims=4, seconds=400), told)
        assert given == [pytest.approx(2000, abs=50), pytest.approx(2000, abs=50), pytest.approx(4000, abs=100)]

    def test_a_process_that_takes_too_long_is_ended(self, tmp_path):
        from fluoroscope.attacks.common.checkpoint import Checkpoint

        with pytest.raises(TookTooLong, match="stopped after 1 s"):
            run_isolated(Ends("waits"), [seen()], torch.Generator(), checkpoint=Checkpoint(tmp_path), seconds=1.0)

    def test_cuts(self):
        assert iterations(Descends()) == 1000
        assert iterations(Reads()) is None
        assert cut_to(Descends(), 60).budget.iterations == 60
        assert cut_to(Reads(), 60) == Reads()


def test_every_attack_is_a_candidate_or_is_left_out_for_a_reason():
    assert set(candidates()) | set(LEFT_OUT) == set(ATTACKS)
    assert not set(candidates()) & set(LEFT_OUT)
    assert all(LEFT_OUT.values())
    names = list(candidates())
    assert names.index("r-gap") < names.index("ridge") < names.index("span") < names.index("idlg")


def test_long_rounds_are_one_step_to_those_who_do_not_simulate():
    real = replace(seen(images=4), training=LocalTraining(Sgd(0.1), 4, 1))
    assert form_for(Reads())(real).training.steps == 1
    learned = type("Learned", (Reads,), {"needs": frozenset({Capability.PUBLIC_IMAGES})})()
    assert form_for(learned)(real) is real


@pytest.mark.parametrize(("count", "size"), [(24, 12), (25, 12), (1, 12), (7, 1)])
def test_chunks_hold_everybody_once(count, size):
    parts = list(chunks(count, size))
    assert [i for part in parts for i in part] == list(range(count))
    assert max(map(len, parts)) <= size
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_rehearsal_that_was_killed_tries_no_attack_twice(tmp_path):
    tried, round_ = [], seen()

    def run(attack, observations, rng, **how):
        tried.append(attack.name)
        if attack.name == "gives-up" and len(tried) == 2:
            raise KeyboardInterrupt
        return attack.run(observations, rng)

    attacks = {each.name: each for each in (Reads(), GivesUp(), Prior())}
    with pytest.raises(KeyboardInterrupt):
        rehearse(round_, attacks, 0, run=run, kept=tmp_path)
    first = rehearse(round_, attacks, 0, run=run, kept=tmp_path)
    assert tried == ["reads", "gives-up", "gives-up", "prior"]
    damaged = sorted(tmp_path.glob("*.json"))[0]
    damaged.write_text(damaged.read_text()[:20])
    again = rehearse(round_, attacks, 0, run=run, kept=tmp_path)
    assert len(tried) == 5
    assert again.ranking == first.ranking
    rehearse(round_, attacks, 1, run=run, kept=tmp_path)
    assert len(tried) == 8, "another seed is another rehearsal"
