"""Who was trained on: an overfit model tells, a fresh one does not; and the shadow client is the real one."""

from dataclasses import fields, replace

import pytest
import torch
from sklearn.metrics import roc_auc_score

from fluoroscope.attacks.inference.lira import Shadows, confidences, offline, online
from fluoroscope.attacks.inference.losses import losses
from fluoroscope.attacks.inference.membership import loss_scores, sent_model
from fluoroscope.attacks.inference.shadows import client, halves, shadow_sets
from fluoroscope.data import Request, load
from fluoroscope.federation.local_training import local_training
from fluoroscope.models import Architecture
from fluoroscope.types import Adam, LabelledImages, LocalTraining, UpdateRecord

ARCHITECTURE = Architecture("lenet5", 1, 4, 32)
TRAINING = LocalTraining(Adam(0.003), images=20, batch_size=5, epochs=40)


@pytest.fixture(scope="module")
def batch():
    return load("phantom/brain", Request(size=32, images=120, seed=0)).batch


def some(batch, start, stop):
    return LabelledImages(batch.images[start:stop], batch.labels[start:stop])


@pytest.fixture(scope="module")
def start():
    return dict(ARCHITECTURE.build(0).state_dict())


@pytest.fixture(scope="module")
def overfit(batch, start):
    return client(ARCHITECTURE, start, TRAINING)(some(batch, 0, 20), torch.Generator().manual_seed(0))


def auc(yes, no):
    return roc_auc_score([1] * len(yes) + [0] * len(no), torch.cat([yes, no]))


def test_an_overfit_model_gives_its_members_away(batch, overfit):
    members, others = (loss_scores(ARCHITECTURE, overfit, some(batch, *ends)) for ends in ((0, 20), (20, 120)))
    assert auc(members, others) > 0.7


def test_a_model_that_saw_neither_tells_nothing(batch, start, overfit):
    """Of 20 against 80 records; three standard deviations of the AUC are 0.22."""
    for state in (start, overfit):
        mine, others = (loss_scores(ARCHITECTURE, state, some(batch, *ends)) for ends in ((20, 40), (40, 120)))
        assert abs(auc(mine, others) - 0.5) < 0.22


def test_the_score_falls_with_the_loss(batch, overfit):
    candidates = some(batch, 0, 40)
    scores, found = loss_scores(ARCHITECTURE, overfit, candidates), losses(ARCHITECTURE, overfit, candidates)
    assert torch.equal(scores.argsort(), found.argsort(descending=True))


def test_the_likelihood_ratio_finds_members(batch, start, overfit):
    rng, candidates, pool = torch.Generator().manual_seed(1), some(batch, 4, 36), some(batch, 40, 120)
    inside = halves(32, 8, rng)
    train = client(ARCHITECTURE, start, TRAINING)
    models = [train(made, rng) for made in shadow_sets(candidates, pool, inside, 20, rng)]
    shadows = Shadows(torch.stack([confidences(ARCHITECTURE, model, candidates) for model in models]), inside)
    observed = confidences(ARCHITECTURE, overfit, candidates)
    for attack in (online, offline):
        scores = attack(observed, shadows)
        assert auc(scores[:16], scores[16:]) > 0.65


def test_the_shadow_client_is_the_real_one(batch, start):
    """Bit for bit, with the same draws."""
    own = batch.subset(range(20))
    real = local_training(
        ARCHITECTURE.build(), start, own, replace(TRAINING, epochs=2), torch.Generator().manual_seed(7)
    )
    shadow = client(ARCHITECTURE, start, replace(TRAINING, epochs=2, images=99))
    played = shadow(some(batch, 0, 20), torch.Generator().manual_seed(7))
    assert all(torch.equal(played[name], value) for name, value in real.state.items())


def test_the_sent_model_is_all_that_left_and_what_it_started_from():
    before, after = {"a": torch.zeros(1), "b": torch.zeros(1)}, {"a": torch.ones(1)}
    record = UpdateRecord(1, ("c",), ARCHITECTURE, TRAINING, before, after, {"mean": torch.zeros(1)}, None)
    assert {name: float(v) for name, v in sent_model(record).items()} == {"a": 1, "b": 0, "mean": 0}
    told = replace(record, buffers_after={"mean": torch.full((1,), 3.0)})
    assert float(sent_model(told)["mean"]) == 3


def test_an_attacker_has_no_field_for_the_truth():
    assert {field.name for field in fields(LabelledImages)} == {"images", "labels"}
    assert {field.name for field in fields(Shadows)} == {"confidences", "inside"}
