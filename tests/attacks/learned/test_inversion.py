"""Learned attackers read what leaks, adapt to the defence, and fall back to the mean where nothing does."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from fluoroscope.attacks import ATTACKS
from fluoroscope.attacks.common.checkpoint import Checkpoint
from fluoroscope.attacks.common.engine import Budget
from fluoroscope.attacks.learned import learning
from fluoroscope.attacks.learned.start import FromRidge
from fluoroscope.data import Request, load
from fluoroscope.defences import chain
from fluoroscope.defences.clip_and_noise import ClipAndNoise
from fluoroscope.defences.fed_bn import FedBn
from fluoroscope.defences.percentile_gaussian import PercentileGaussian
from fluoroscope.federation.client_round import client_round
from fluoroscope.models import Architecture
from fluoroscope.rng import generator
from fluoroscope.scores.null import against_others
from fluoroscope.scores.similarity import ssim
from fluoroscope.threat_models import THREATS, observe
from fluoroscope.types import AdamW, LabelledImages, LocalTraining, Network, PrivateBatch, Sgd

NETWORK = Architecture("small-cnn", 1, 2, 32)
STATE = NETWORK.build(1).state_dict()
ONE = LocalTraining(Sgd(0.05), 1, 1)


@pytest.fixture(scope="module")
def public() -> LabelledImages:
    batch = load("phantom/chest", Request(size=32, images=120, seed=7)).batch
    return LabelledImages(batch.images, batch.labels, batch.patients)


def victims(images: int = 1) -> list[PrivateBatch]:
    batch = load("phantom/chest", Request(size=32, images=40, seed=8)).batch
    firsts = list({patient: i for i, patient in enumerate(batch.patients)}.values())
    groups = [firsts[i * images : (i + 1) * images] for i in range(8)]
    return [batch.subset(group) for group in groups if len(group) == images]


def observed(public, patients, training=ONE, *defences):
    defence = chain(*defences)
    records = [
        client_round(NETWORK, STATE, patient, training, generator(3, i), defence).record
        for i, patient in enumerate(patients)
    ]
    known = THREATS.get("curious-server")
    return [observe(r, known, public.images.mean(0), public_images=public, defence=defence) for r in records]


def leak(name, public, training=ONE, *defences):
    patients = victims(training.images)
    guesses = ATTACKS.get(name).run(observed(public, patients, training, *defences), generator(0))
    truth = [patient.images for patient in patients]
    return against_others([guess.images for guess in guesses], truth, public.images.mean(0), generator(0))


@pytest.mark.parametrize("name", ["ridge", pytest.param("map-inversion", marks=pytest.mark.slow)])
def test_patients_are_told_apart_without_and_with_a_little_noise(name, public):
    plain, noisy = leak(name, public), leak(name, public, ONE, PercentileGaussian(3.0))
    for found in (plain, noisy):
        assert found.leak.low > 0
        assert found.p_value < 0.01
    assert noisy.leak.mean < plain.leak.mean


@pytest.mark.parametrize("name", ["ridge", "map-inversion"])
def test_under_strong_noise_the_guess_is_the_mean(name, public):
    found = leak(name, public, ONE, PercentileGaussian(1e5))
    assert abs(found.leak.mean) < 0.02
    assert abs(found.own.mean) < 0.05


def test_noise_scaled_by_the_update_gives_its_size_away():
    """Nothing of a flat image is left to see in P1's noise, but how much noise there is tells how bright it was: a
    dense layer's gradient is the image times an error that is the same for all. Noise of a fixed size tells nothing."""
    dense = nn.Sequential(nn.Flatten(), nn.Linear(256, 2))
    nn.init.zeros_(dense[1].weight)
    network, state = Network.of(dense, (1, 16, 16)), dense.state_dict()
    flat = torch.linspace(0.1, 1, 120)[torch.randperm(120, generator=generator(5)), None, None, None]
    images, labels = flat.expand(-1, 1, 16, 16), torch.zeros(120, dtype=torch.int64)
    known = LabelledImages(images[24:], labels[24:])

    def told(defence):
        seen = []
        for i in range(24):
            patient = PrivateBatch(images[i, None], labels[i, None], ("",))
            record = client_round(network, state, patient, ONE, generator(3, i), chain(defence)).record
            seen.append(observe(record, THREATS.get("curious-server"), public_images=known, defence=chain(defence)))
        guesses = ATTACKS.get("ridge").run(seen, generator(0))
        bright = torch.stack([torch.cat([guess.images for guess in guesses]), images[:24]]).flatten(2).mean(2)
        return float(torch.corrcoef(bright)[0, 1]), float(bright[0].std() / bright[1].std())

    correlation, spread = told(PercentileGaussian(1e4))
    assert correlation > 0.9
    assert spread > 0.8
    assert told(ClipAndNoise(10.0, 100.0))[1] < 0.3


def test_without_statistics_the_ridge_reads_the_changes(public):
    found = leak("ridge", public, ONE, FedBn())
    assert found.leak.low > 0


@pytest.mark.parametrize("name", ["ridge", pytest.param("map-inversion", marks=pytest.mark.slow)])
def test_several_steps_of_another_optimiser_are_simulated_as_they_are(name, public):
    found = leak(name, public, LocalTraining(AdamW(1e-3), 2, 1, epochs=2))
    assert found.leak.mean > 0
    assert found.p_value < 0.05


def test_what_was_simulated_is_kept_and_a_damaged_file_is_made_again(public, tmp_path, monkeypatch):
    few = LabelledImages(public.images[:30], public.labels[:30], public.patients[:30])
    seen = observed(few, victims()[:2])
    calls = []
    simulate = learning.simulate
    monkeypatch.setattr(learning, "simulate", lambda *a: calls.append(1) or simulate(*a))
    attack, kept = ATTACKS.get("ridge"), Checkpoint(tmp_path)
    monkeypatch.setattr(learning, "_LAST", {})
    first = attack.run(seen, generator(0), checkpoint=kept)
    learning._LAST.clear()
    again = attack.run(seen[:1], generator(0), checkpoint=kept)
    assert len(calls) == 1
    torch.testing.assert_close(again[0].images, first[0].images)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:100])
    learning._LAST.clear()
    attack.run(seen, generator(0), checkpoint=kept)
    assert len(calls) == 2
    attack.run(seen, generator(0))
    assert len(calls) == 2, "the same process has it at hand"
    attack.run(seen, generator(1), checkpoint=kept)
    assert len(calls) == 3, "another seed is another simulation"


@pytest.mark.slow
def test_the_decoder_sharpens_what_is_linear(public):
    """Nearer to the patients than the ridge regression that it starts from, on images that neither has seen."""
    patients = victims()
    seen = observed(public, patients)
    truth = torch.cat([patient.images for patient in patients])
    linear, sharp = (
        torch.cat([guess.images for guess in ATTACKS.get(n).run(seen, generator(0))]) for n in ("ridge", "decoder")
    )
    assert float(ssim(sharp, truth).mean()) > float(ssim(linear, truth).mean())


def test_a_descent_may_start_from_the_ridge(public):
    seen = observed(public, victims()[:1])[0]
    start = FromRidge()(seen, (1, 1, 32, 32), generator(0))
    (ridge,) = ATTACKS.get("ridge").run([seen], generator(0, "start from ridge"))
    torch.testing.assert_close(start, ridge.images)
    (guess,) = replace(ATTACKS.get("epochwise-from-ridge"), budget=Budget(2)).run([seen], generator(0))
    assert guess.images.shape == (1, 1, 32, 32)
