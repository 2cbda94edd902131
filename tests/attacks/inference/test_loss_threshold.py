"""Who was trained on: an overfit model tells, a fresh one does not; and the shadow client is the real one."""

from dataclasses import fields, replace

import pytest
import torch
from sklearn.metrics import roc_auc_score

from fluoroscope.attacks.inference import INFERENCE_ATTACKS
from fluoroscope.attacks.inference.likelihood_ratio import Shadows, confidences, offline, online
from fluoroscope.attacks.inference.lira import Lira
from fluoroscope.attacks.inference.seen_model import SeenModel
from fluoroscope.attacks.inference.shadows import ClientShadows, client, halves, shadow_sets
from fluoroscope.data import Request, load
from fluoroscope.defences import Chain
from fluoroscope.defences.clip_and_noise import ClipAndNoise
from fluoroscope.federation.client_round import client_round
from fluoroscope.federation.local_training import local_training
from fluoroscope.models import Architecture
from fluoroscope.threat_models import THREATS, observe
from fluoroscope.types import Adam, LabelledImages, LocalTraining, UpdateRecord

ARCHITECTURE = Architecture("lenet5", 1, 4, 32)
TRAINING = LocalTraining(Adam(0.003), images=20, batch_size=5, epochs=40)
LOSS = INFERENCE_ATTACKS.get("loss")


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
    """What a server sees of a client that trained on the first 20 images."""
    rng = torch.Generator().manual_seed(0)
    return observe(
        client_round(ARCHITECTURE, start, batch.subset(range(20)), TRAINING, rng).record, THREATS.get("curious-server")
    )


def rng(seed=1):
    return torch.Generator().manual_seed(seed)


def auc(yes, no):
    return roc_auc_score([1] * len(yes) + [0] * len(no), torch.cat([yes, no]))


def test_an_overfit_model_gives_its_members_away(batch, overfit):
    members, others = (LOSS.run([overfit], some(batch, *ends), rng())[0] for ends in ((0, 20), (20, 120)))
    assert auc(members, others) > 0.7


def test_a_model_that_saw_neither_tells_nothing(batch, start, overfit):
    """Of 20 against 80 records; three standard deviations of the AUC are 0.22."""
    fresh = observe(UpdateRecord.between(ARCHITECTURE, start, start, TRAINING), THREATS.get("curious-server"))
    mine, others = (LOSS.run([fresh, overfit], some(batch, *ends), rng()) for ends in ((20, 40), (40, 120)))
    for row in (0, 1):
        assert abs(auc(mine[row], others[row]) - 0.5) < 0.22


def test_the_score_falls_with_the_loss(batch, overfit):
    candidates = some(batch, 0, 40)
    scores, found = LOSS.run([overfit], candidates, rng())[0], SeenModel.of(overfit).losses(candidates)
    assert torch.equal(scores.argsort(), found.argsort(descending=True))


@pytest.mark.slow
def test_the_likelihood_ratio_finds_members(batch, overfit):
    """And is that of shadow models trained by hand, with the same draws."""
    candidates, pool, draws = some(batch, 4, 36), some(batch, 40, 120), rng()
    game = ClientShadows(8)
    inside = halves(32, 8, draws)
    train = client(ARCHITECTURE, overfit.state_before, TRAINING)
    models = [train(made, draws) for made in shadow_sets(candidates, pool, inside, 20, draws)]
    seen = [confidences(SeenModel(ARCHITECTURE, model), candidates) for model in models]
    for ratio in (online, offline):
        (scores,) = Lira(game, ratio).run([overfit], candidates, rng(), pool)
        by_hand = ratio(confidences(SeenModel.of(overfit), candidates), Shadows(torch.stack(seen), inside))
        assert torch.equal(scores, by_hand)
        assert auc(scores[:16], scores[16:]) > 0.65


def test_the_defence_that_is_assumed_is_rehearsed(batch, overfit):
    """Shadows behind much noise agree on nothing."""
    candidates, pool = some(batch, 4, 12), some(batch, 40, 120)
    short = replace(overfit, training=replace(TRAINING, epochs=1))
    noise = Chain((ClipAndNoise(1.0, 3.0),))
    plain, noised = (ClientShadows(4, defence=d).play(short, candidates, pool, rng()) for d in (Chain(()), noise))
    assert noised.confidences.std(0).mean() > 5 * plain.confidences.std(0).mean()


def test_the_shadow_client_is_the_real_one(batch, start):
    """Bit for bit, with the same draws."""
    own = batch.subset(range(20))
    real = local_training(
        ARCHITECTURE.build(), start, own, replace(TRAINING, epochs=2), torch.Generator().manual_seed(7)
    )
    shadow = client(ARCHITECTURE, start, replace(TRAINING, epochs=2, images=99))
    played = shadow(some(batch, 0, 20), torch.Generator().manual_seed(7))
    assert all(torch.equal(played[name], value) for name, value in real.state.items())


def test_an_attacker_has_no_field_for_the_truth():
    assert {field.name for field in fields(LabelledImages)} == {"images", "labels", "patients"}
    assert {field.name for field in fields(Shadows)} == {"confidences", "inside"}
