"""Evidence, prior and noise: each against its definition."""

import pytest
import torch

from fluoroscope.attacks.learned.evidence import BUCKETS, CHANGES, SIZES, WHOLE, Evidence
from fluoroscope.attacks.learned.image_prior import ImagePrior
from fluoroscope.attacks.learned.noise_model import NoiseModel
from fluoroscope.attacks.learned.simulated_rounds import _clients
from fluoroscope.errors import Unsupported
from fluoroscope.threat_models import THREATS
from fluoroscope.types import LabelledImages, Observation


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def observation(**update: torch.Tensor) -> Observation:
    return Observation(THREATS.get("curious-server"), 1, ("a",), update=update)


def test_a_sketch_keeps_inner_products():
    pairs = [torch.randn(2, 20 * WHOLE, generator=rng(seed)) for seed in range(4)]
    evidence = Evidence.of(observation(w=pairs[0][0]))
    for a, b in pairs:
        b = a + 0.5 * b
        short = [evidence.read(observation(w=each))[CHANGES] for each in (a, b)]
        assert len(short[0]) == BUCKETS
        assert float(short[0] @ short[1]) == pytest.approx(float(a @ b), rel=0.25)
        assert float(short[0].norm()) == pytest.approx(float(a.norm()), rel=0.15)


def test_a_small_array_is_kept_as_it_is():
    value = torch.randn(3, 4, generator=rng())
    assert torch.equal(Evidence.of(observation(w=value)).read(observation(w=value))[CHANGES], value.flatten())


def test_sizes_are_norms():
    values = {"a": torch.randn(3, 4, generator=rng()), "b": torch.randn(5, generator=rng(1)), "c": torch.zeros(2)}
    found = Evidence.of(observation(**values)).read(observation(**values))[SIZES]
    assert found.exp().tolist() == pytest.approx([float(value.norm()) for value in values.values()], abs=1e-6)


def test_the_columns_of_a_buffer_are_its_own():
    evidence = Evidence({}, {"a": 2, "b": 3, "c": 1})
    assert evidence.columns(["b"]).tolist() == [2, 3, 4]
    assert evidence.columns(["c", "a"]).tolist() == [5, 0, 1]


def test_the_prior_has_the_covariance_that_it_says():
    """share S + (1 - share) D: drawn from its own coordinates, against the sum by definition."""
    images = torch.rand(30, 1, 6, 6, generator=rng(1))
    prior = ImagePrior.of(images, share=0.7)
    jacobian = torch.stack([prior.images(row[None])[0].flatten() for row in torch.eye(prior.coordinates)])
    jacobian = jacobian - prior.mean.flatten()
    apart = (images - images.mean(0)).flatten(1)
    sample = apart.T @ apart / len(images)
    rest = jacobian.T @ jacobian - 0.7 * sample
    # What is left is the texture: diagonal in cosines, hence of trace (1 - share) times the mean power, smoothed.
    torch.testing.assert_close(rest, rest.T)
    assert float(rest.trace()) == pytest.approx(0.3 * float(sample.trace()), rel=0.15)
    torch.testing.assert_close(prior.images(torch.zeros(1, prior.coordinates))[0], images.mean(0))


def test_noise_that_grows_with_the_update_is_found():
    sizes = torch.logspace(-0.3, 0.3, 400)
    expected = torch.randn(400, 50, generator=rng(2))
    spread = torch.linspace(0.5, 2, 50)
    noise = sizes[:, None] * spread * torch.randn(400, 50, generator=rng(3))
    found = NoiseModel.of(expected + 0.3 + noise, expected, sizes, floor=0.0)
    assert found.slope == pytest.approx(1, abs=0.03)
    torch.testing.assert_close(found.deviations(torch.tensor([1.5]))[0], (1.5 * spread).double(), rtol=0.15, atol=0)


def test_exact_evidence_is_trusted_down_to_the_floor():
    expected = torch.randn(50, 4, generator=rng(2))
    found = NoiseModel.of(expected, expected, torch.ones(50), floor=0.1)
    torch.testing.assert_close(found.deviations(torch.ones(1))[0], 0.1 * expected.double().std(0))


def test_simulated_clients_of_two_folds_share_no_patient():
    patients = tuple(f"p{i // 3}" for i in range(60))
    public = LabelledImages(torch.rand(60, 1, 4, 4), torch.zeros(60, dtype=torch.int64), patients)
    for images in (1, 4, 16):
        members, folds = _clients(public, images, rng())
        owners = {}
        for chosen, fold in zip(members, folds.tolist(), strict=True):
            assert len(chosen) == images
            for i in chosen.tolist():
                assert owners.setdefault(patients[i], fold) == fold


def test_too_few_patients_are_named():
    public = LabelledImages(torch.rand(60, 1, 4, 4), torch.zeros(60, dtype=torch.int64), ("one",) * 60)
    with pytest.raises(Unsupported, match="at least 10 patients to learn from, not 1"):
        _clients(public, 1, rng())
