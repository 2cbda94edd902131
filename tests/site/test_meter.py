"""What the meter says of an update, and what it must never do with the truth."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import fluoroscope as fl
from fluoroscope.attacks import ATTACKS
from fluoroscope.data import Request, load
from fluoroscope.federation.client_round import client_round
from fluoroscope.rng import generator
from fluoroscope.scenarios.isolation import TookTooLong
from fluoroscope.site import trials
from fluoroscope.site.learned import read_learned
from fluoroscope.site.meter import Measuring, measure
from fluoroscope.site.reading import Reading
from fluoroscope.site.reconstruction import Guessed
from fluoroscope.site.simulated import without_own
from fluoroscope.types import LabelledImages, LocalTraining, Network, PrivateBatch, Sgd

SIDE = 32


def module():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 24, 3, 2, 1),
        nn.BatchNorm2d(24),
        nn.ReLU(),
        nn.Conv2d(24, 32, 3, 2, 1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.Conv2d(32, 48, 3, 2, 1),
        nn.BatchNorm2d(48),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(48 * 16, 2),
    )


NETWORK = Network.of(module(), (1, SIDE, SIDE))
ONE = LocalTraining(Sgd(0.05), images=1, batch_size=1)


class Runs:
    """Runs attacks here, and counts what they were shown: a process of their own would take seconds each."""

    def __init__(self):
        self.shown = []

    def __call__(self, attack, observations, rng, *, checkpoint=None, seconds=None):
        self.shown.append(len(observations))
        return attack.run(observations, rng, checkpoint=checkpoint)


@pytest.fixture(scope="module", autouse=True)
def one_attack():
    """All of them take a minute; `ridge` learns, and reads a single image."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trials, "candidates", lambda: {"ridge": ATTACKS.get("ridge")})
        yield


@pytest.fixture(scope="module")
def patients():
    found = load("phantom/chest", Request(size=SIDE, channels=1, images=200, seed=1)).batch
    return replace(found, labels=found.labels % 2)


@pytest.fixture(scope="module")
def public(patients):
    chosen = patients.subset(range(8, 200))
    return LabelledImages(chosen.images, chosen.labels, chosen.patients)


def update(batch, training=ONE):
    return client_round(NETWORK, module().state_dict(), batch, training, generator(3, "round")).record


def read(record, own, **how):
    return measure(record, own, Measuring(**how))


@pytest.fixture(scope="module")
def own(patients):
    return patients.subset([4])


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="module")
def measured(own, public, kept):
    return read(update(own), own, public=public, seconds=60, kept=kept, run=Runs())


def test_a_leak_is_found_beyond_other_patients(measured):
    pictures, counts = measured.metered.readings
    assert (pictures.leak, counts.leak) == ("reconstruction", "label-counts")
    assert pictures.value is not None
    assert pictures.value > 0
    assert pictures.p_value is not None
    assert pictures.p_value <= 0.05
    assert pictures.numbers["ssim"] > pictures.numbers["ssim_others"]
    assert pictures.value == pytest.approx(pictures.numbers["rdlv"] - pictures.numbers["rdlv_others"])
    assert "From this update a server can make an image" in pictures.sentence
    assert counts.value == pytest.approx(1.0)  # one step of one image: the sign of the last bias is its class
    assert measured.guess is not None
    assert measured.metered.plain()["readings"][0]["judged"]


def test_the_truth_has_no_part_in_the_guess(measured, patients, public, own):
    """Another patient's image in the place of the truth: the same guess, and nothing found in it."""
    other = PrivateBatch(patients.images[[6]], own.labels, ("somebody else",))
    found = read(update(own), other, public=public, seconds=60, run=Runs())
    assert torch.equal(found.guess, measured.guess)
    assert found.metered.readings[0].value == 0
    assert "not told from chance" in found.metered.readings[0].sentence


def test_what_was_learned_is_kept_and_played_alone(measured, own, public, kept):
    runs = Runs()
    again = read(update(own), own, public=public, seconds=60, kept=kept, run=runs)
    assert runs.shown == [1]
    assert again.metered.readings == measured.metered.readings
    assert torch.allclose(again.guess, measured.guess, atol=1e-5)
    (folder,) = kept.iterdir()
    (folder / "rehearsed.json").write_text("{")
    assert read_learned(folder) is None


def test_a_folder_of_learning_does_not_grow_for_ever(own, public, tmp_path, monkeypatch):
    monkeypatch.setattr("fluoroscope.site.learned._KEPT", 1)
    for seed in range(3):
        read(update(own), own, public=public, seconds=60, kept=tmp_path, seed=seed, run=nothing_works)
    assert len(list(tmp_path.iterdir())) == 1


def nothing_works(attack, observations, rng, *, checkpoint=None, seconds=None):
    raise TookTooLong("it was stopped.")


def test_where_no_attack_makes_a_guess_nothing_is_judged(own, public):
    found = read(update(own), own, public=public, seconds=60, run=nothing_works)
    assert found.guess is None
    assert found.metered.readings[0].value is None
    assert "no attack that was tried makes a guess" in found.metered.readings[0].sentence
    assert any(line.startswith("ridge: ") for line in found.metered.left_out)


def test_a_failure_of_attacks_that_never_work_says_nothing(own, public, patients):
    def noise(attack, observations, rng, *, checkpoint=None, seconds=None):
        return [fl.Reconstruction(torch.rand(1, 1, SIDE, SIDE, generator=rng), None, 0.0) for _ in observations]

    found = read(update(own), own, public=public, seconds=60, run=noise).metered.readings[0]
    assert found.value is None
    assert "not told from chance" in found.sentence


def test_without_public_images_nothing_is_judged(own):
    found = read(update(own), own, run=Runs())
    assert [reading.value for reading in found.metered.readings] == [None, None]
    assert all("public images" in reading.sentence for reading in found.metered.readings)


def test_an_update_of_another_training_is_not_called_safe(own, public, patients):
    """Told a hundredth of the learning rate, the attacks find nothing; that is not a reading of 0."""
    record = replace(update(own), training=replace(ONE, optimiser=Sgd(0.0005)))
    other = PrivateBatch(patients.images[[6]], own.labels, ("somebody else",))
    found = read(record, other, public=public, seconds=60, run=Runs()).metered.readings[0]
    assert found.value is None
    assert "times as large" in found.sentence


@pytest.mark.parametrize(("public_patients", "value"), [(15, None), (16, 0.0)])
def test_nothing_found_beside_smaller_clients_is_not_called_safe(public_patients, value, patients, monkeypatch):
    """Where public patients suffice for simulated clients of three images only, four are not judged by them."""
    names = tuple(map(str, range(public_patients)))
    chosen = patients.subset(range(8, 8 + public_patients))
    own, few = patients.subset(range(4)), LabelledImages(chosen.images, chosen.labels, names)
    own = replace(own, patients=("a", "b", "c", "d"))
    nothing = Guessed(Reading("reconstruction", 0.0, "Nothing was found."))
    monkeypatch.setattr("fluoroscope.site.meter.read_reconstruction", lambda *_: nothing)
    record = update(own, LocalTraining(Sgd(0.05), images=4, batch_size=4))
    found = read(record, own, public=few, seconds=60, run=nothing_works).metered.readings[0]
    assert found.value == value
    said = "simulated clients of 3 images, and yours holds 4: give those of 16 patients at least"
    assert (said in found.sentence) == (value is None)


def test_no_time_is_said(own, public):
    found = read(update(own), own, public=public, seconds=0.001, run=Runs()).metered
    assert all(reading.value is None for reading in found.readings)
    assert "0 s are too few" in found.readings[0].sentence
    short = read(update(own), own, public=public, seconds=2.0, run=nothing_works).metered
    assert [line for line in short.left_out if line.startswith("ridge: ")]
    assert short.seconds < 4


def test_an_attack_that_does_not_apply_says_so_and_not_that_there_was_no_time(patients, public, monkeypatch):
    """Its advice on other attacks is for those who choose one, and the meter's user does not."""
    monkeypatch.setattr(trials, "candidates", lambda: {name: ATTACKS.get(name) for name in ("span", "r-gap", "ridge")})
    own = patients.subset([4, 5])
    record = update(own, LocalTraining(Sgd(0.05), images=2, batch_size=2, batchnorm="eval"))
    for how, lacks in (
        ({"public": public}, "features are read where BatchNorm is"),
        ({}, "the attacker does not have"),
    ):
        left_out = read(record, own, seconds=2.0, run=nothing_works, **how).metered.left_out
        span, rgap = (next(line for line in left_out if line.startswith(name)) for name in ("span", "r-gap"))
        assert span.startswith(f"span: does not apply: {lacks}")
        assert rgap.startswith("r-gap: does not apply: inverts one step of Sgd on one image")
        assert not any("such as" in line or "choose" in line.lower() for line in left_out)


def test_numbers_that_are_not_finite_are_not_judged(own, public):
    record = update(own)
    broken = {name: value.clone() for name, value in record.state_after.items()}
    next(iter(broken.values())).fill_(float("nan"))
    found = read(replace(record, state_after=broken), own, public=public)
    assert [reading.value for reading in found.metered.readings] == [None, None]
    assert "not finite" in found.metered.readings[0].sentence


def test_images_that_do_not_fit_are_named(own, patients, public):
    with pytest.raises(fl.BadInput, match="2 images are given for an update of 1"):
        fl.meter(update(own), patients.subset([1, 2]), public=public)
    with pytest.raises(fl.BadInput, match="your images have the shape"):
        fl.meter(update(own), PrivateBatch(torch.rand(1, 1, 8, 8), torch.tensor([0]), ("a",)))
    with pytest.raises(fl.BadInput, match="label 7"):
        fl.meter(update(own), PrivateBatch(own.images, torch.tensor([7]), ("a",)))


def test_several_findings_per_image_have_no_counts(own, public):
    training = replace(ONE, loss=fl.BinaryCrossEntropy())
    mine = PrivateBatch(own.images, torch.tensor([[1.0, 0.0]]), own.patients)
    rows = nn.functional.one_hot(public.labels, 2).float()
    found = read(
        update(mine, training), mine, public=replace(public, labels=rows), seconds=60, run=nothing_works
    ).metered.readings[1]
    assert found.value is None
    assert "several findings" in found.sentence


def test_the_sites_own_images_are_no_others(patients):
    mine = PrivateBatch(patients.images[:1], patients.labels[:1], ("anna",))
    names = ("x", "anna", *(f"p{i}" for i in range(2, 10)))
    found = without_own(LabelledImages(patients.images[:10], patients.labels[:10], names), mine)
    assert len(found) == 8  # the same picture under another name, and another picture of the same patient
    assert torch.equal(found.images, patients.images[2:10])


@pytest.mark.slow
def test_in_a_process_of_its_own_it_says_the_same(measured, own, public):
    assert fl.meter(update(own), own, public=public, seconds=120).readings[0].value == pytest.approx(
        measured.metered.readings[0].value, abs=1e-3
    )
