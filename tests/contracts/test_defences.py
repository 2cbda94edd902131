"""Every registered defence: leaves its input alone, draws from its seed only, and claims no more than it proves."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import Any

import pytest
import torch
from torch import nn

from fluoroscope.defences import DEFENCES, Participation, SealingDefence, TrainingDefence, UpdateDefence, chain
from fluoroscope.defences.contract import dp_claim
from fluoroscope.errors import Misconfigured, Unsupported
from fluoroscope.federation.local_training import local_training
from fluoroscope.federation.plan import Plan
from fluoroscope.federation.settings import build_defences, build_part
from fluoroscope.types import LocalTraining, Network, PrivateBatch, Sgd, UpdateRecord

SHAPE = (1, 8, 6)
TRAINING = LocalTraining(Sgd(0.1), images=6, batch_size=3)
TRAINS, SENDS, SERVES = range(3)


@dataclass(frozen=True)
class Case:
    """What the suite has to know of a defence."""

    seam: int
    settings: Mapping[str, Any]
    wrong: Mapping[str, Any]
    """Settings out of their range, each tried alone."""
    former: Mapping[str, str] = field(default_factory=dict)
    """Former names of settings, by the names of now."""
    draws: bool = False
    promises: bool = False
    batchnorm: bool = True
    """Whether it takes a network with BatchNorm."""


NOISE = {"clip_norm": 0.5, "noise_multiplier": 2.0}
NOT_NOISE = {"clip_norm": -2.5, "noise_multiplier": -3.5, "delta": 1.5}
FORMER_NOISE = {"clip_norm": "clip", "noise_multiplier": "multiplier"}
CASES = {
    "adaptive-clipping": Case(
        SERVES,
        {"noise_multiplier": 0.25, "num_sampled_clients": 3},
        {**NOT_NOISE, "target_clipped_quantile": 1.5, "clip_norm_lr": -0.25, "clipped_count_stddev": -0.75},
        draws=True,
        promises=True,
    ),
    "central-dp": Case(SERVES, NOISE, NOT_NOISE, FORMER_NOISE, draws=True, promises=True),
    "clip-and-noise": Case(SENDS, NOISE, NOT_NOISE, FORMER_NOISE, draws=True, promises=True, batchnorm=False),
    "clipping": Case(SENDS, {"clip_norm": 0.01}, {"clip_norm": -3.5}, {"clip_norm": "bound"}),
    "dp-sgd": Case(TRAINS, NOISE, NOT_NOISE, FORMER_NOISE, draws=True, promises=True, batchnorm=False),
    "fed-bn": Case(SENDS, {}, {"parameters": "much"}),
    "hidden-layers": Case(SENDS, {"layers": ["0"]}, {"layers": 3.5}),
    "homomorphic-encryption": Case(SENDS, {"key": "clients.key", "layers": ["0"]}, {"key": 3.5}),
    "local-dp": Case(
        SENDS,
        {"clip_norm": 0.5, "sensitivity": 0.01, "epsilon": 2.0},
        {"clip_norm": -2.5, "sensitivity": -0.5, "epsilon": -1.5, "delta": 1.5},
        draws=True,
        promises=True,
    ),
    "metric-privacy": Case(SERVES, NOISE, {**NOT_NOISE, "scale": "sideways"}, FORMER_NOISE, draws=True),
    "percentile-gaussian": Case(
        SENDS, {"noise_scale": 1.0}, {"noise_scale": -3.5, "percentile": 101.5}, {"noise_scale": "sigma0"}, draws=True
    ),
    "percentile-privacy": Case(SENDS, {}, {"percentile": 101.5, "gamma": -0.5, "steps": -3}),
    "pruning": Case(SENDS, {"sparsity": 0.5}, {"sparsity": 1.5}, {"sparsity": "share"}),
    "quantisation": Case(SENDS, {"bits": 4}, {"bits": 99}, draws=True),
    "svt-privacy": Case(
        SENDS,
        {},
        {"fraction": 1.5, "epsilon": -0.5, "noise_var": -1.5, "gamma": -2.5, "epsilon_threshold": 0.25, "delta": 1.5},
        draws=True,
        promises=True,
    ),
}
every_defence = pytest.mark.parametrize("name", list(CASES))


def made(name: str, **changes: Any) -> Any:
    return build_part(DEFENCES.get(name), name, {**CASES[name].settings, **changes})


def network(batchnorm: bool = True) -> Network:
    """Somebody's own module, for images that are not square."""
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(3) if batchnorm else nn.GroupNorm(1, 3)
    return Network.of(nn.Sequential(nn.Conv2d(1, 3, 3), norm, nn.ReLU(), nn.Flatten(), nn.Linear(72, 2)), SHAPE)


def batch() -> PrivateBatch:
    images = torch.rand(TRAINING.images, *SHAPE, generator=rng(1))
    return PrivateBatch(images, torch.arange(TRAINING.images) % 2, ("",) * TRAINING.images)


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def start(own: Network) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in own.build().state_dict().items()}


def update(batchnorm: bool = True) -> UpdateRecord:
    own = network(batchnorm)
    after = local_training(own.build(), start(own), batch(), TRAINING, rng()).state
    return UpdateRecord.between(own, start(own), after, TRAINING)


def digest(*states: Mapping[str, torch.Tensor] | None) -> str:
    parts = [name.encode() + value.numpy().tobytes() for s in states if s is not None for name, value in s.items()]
    return hashlib.sha256(b"".join(parts)).hexdigest()


def whole(record: UpdateRecord) -> dict[str, torch.Tensor]:
    return {**record.state_after, **(record.buffers_after or {})}


def defended(name: str, seed: int = 0) -> dict[str, torch.Tensor]:
    """What leaves the defence at its seam; its input must not have changed."""
    defence, record, own = made(name), update(CASES[name].batchnorm), network(CASES[name].batchnorm)
    if isinstance(defence, TrainingDefence):
        module, before, images = own.build(), start(own), batch()
        left, _ = defence.train(module, before, images, TRAINING, rng(seed))
        assert digest(module.state_dict(), before) == digest(start(own), start(own))
        assert torch.equal(images.images, batch().images)
        return left
    kept = digest(record.state_before, record.state_after, record.buffers_before, record.buffers_after)
    if isinstance(defence, UpdateDefence):
        left = whole(defence.send(record, rng(seed)))
    else:
        updates = [record.arrays, {n: 2 * v.roll(1) for n, v in record.arrays.items()}]
        told = digest(*updates)
        cohort = [defence.clip_update(each) for each in updates]
        clipped = digest(*cohort)
        left = defence.noise_aggregate(cohort[0], cohort, rng(seed)).update
        assert (told, clipped) == (digest(*updates), digest(*cohort))
    assert kept == digest(record.state_before, record.state_after, record.buffers_before, record.buffers_after)
    return left


def participation(rounds: int) -> Participation:
    return Participation(LocalTraining(Sgd(0.1), images=20, batch_size=4), rounds, clients=3, share=0.5, values=1000)


def test_every_registered_defence_is_in_the_table():
    ours = {name for name in DEFENCES if DEFENCES.get(name).__module__.startswith("fluoroscope.")}
    assert ours == set(CASES)


@every_defence
def test_the_seed_is_all_that_it_draws_from(name):
    first, again, other = (digest(defended(name, seed)) for seed in (0, 0, 1))
    assert first == again
    assert (first != other) == CASES[name].draws


@every_defence
def test_what_leaves_is_a_part_of_the_network_as_it_was(name):
    own, left = network(CASES[name].batchnorm), defended(name)
    known = start(own)
    assert set(left) <= set(known)
    assert all((v.shape, v.dtype) == (known[n].shape, known[n].dtype) for n, v in left.items())
    module = own.build()
    module.load_state_dict({**known, **left})
    assert module.eval()(batch().images).isfinite().all()


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.batchnorm])
def test_what_cannot_stand_batchnorm_says_what_can_be_done(name):
    defence, record, module = made(name), update(), network().build()
    with pytest.raises((Misconfigured, Unsupported), match=r"BatchNorm.*resnet18-gn"):
        defence.check(module) if isinstance(defence, TrainingDefence) else defence.send(record, rng())


@every_defence
def test_a_claim_is_finite_and_grows_with_the_rounds(name):
    claims = [made(name).claim(participation(rounds)) for rounds in (1, 2, 10, 100)]
    for claim in claims:
        assert claim.statement
        assert (claim.epsilon is not None) == CASES[name].promises
        promised = (claim.delta, claim.unit, claim.relation, claim.trust)
        if claim.epsilon is None:
            assert "not differential privacy" in claim.statement
            assert promised == (None,) * 4
        else:
            assert 0 < claim.epsilon < math.inf
            assert None not in promised
    if CASES[name].promises:
        assert all(a.epsilon <= b.epsilon for a, b in pairwise(claims))


def test_noise_that_bounds_nothing_promises_nothing():
    claim = dp_claim(None, 1e-5, "client", "replace", "local", "local DP")
    assert (claim.epsilon, claim.delta, claim.relation, claim.trust) == (None,) * 4
    assert "not differential privacy" in claim.statement


@pytest.mark.parametrize(("name", "key"), [(name, key) for name, case in CASES.items() for key in case.wrong])
def test_a_setting_out_of_range_is_refused_with_its_value(name, key):
    with pytest.raises(Misconfigured, match=str(CASES[name].wrong[key])) as refused:
        made(name, **{key: CASES[name].wrong[key]})
    assert key in str(refused.value)


@pytest.mark.parametrize(("first", "second"), list(product(CASES, CASES)))
def test_two_in_a_chain_are_one_after_the_other_or_refused(first, second):
    pair, parts = [CASES[first], CASES[second]], [made(first), made(second)]
    twice = pair[0].seam == pair[1].seam != SENDS
    sealed = isinstance(parts[0], SealingDefence) and pair[1].seam == SENDS
    if pair[0].seam > pair[1].seam or twice or sealed or all(case.promises for case in pair):
        with pytest.raises(Misconfigured):
            chain(*parts)
        return
    stacked = chain(*parts)
    one, both = (defence.claim(participation(3)) for defence in (parts[0 if pair[0].promises else 1], stacked))
    assert one == both or not any(case.promises for case in pair)
    record = update(batchnorm="fed-bn" in (first, second))
    if (first, second) == ("clip-and-noise", "fed-bn"):  # the statistics would leave beside the noise
        with pytest.raises(Misconfigured, match="put fed-bn before it"):
            stacked.send(record, rng())
        return
    expected, generator = record, rng()
    for part in parts:
        expected = part.send(expected, generator) if isinstance(part, UpdateDefence) else expected
    assert digest(whole(stacked.send(record, rng()))) == digest(whole(expected))


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.former])
def test_former_names_of_settings_are_understood(name):
    case = CASES[name]
    former = {case.former.get(key, key): value for key, value in case.settings.items()}
    assert former != case.settings
    assert build_defences([(name, former)]).parts == (made(name),)
    for new, old in case.former.items():
        with pytest.raises(Misconfigured, match=f"'{old}' is the former name of '{new}', and both are given"):
            build_defences([(name, {**case.settings, old: case.settings[new]})])


def test_a_plan_keeps_the_words_that_it_was_written_in():
    """So its fingerprint is what it was, and its records are still its own."""
    plan = Plan.model_validate({"defence": [{"name": "global-dp", "clip": 0.5, "multiplier": 2.0}]})
    (part,) = plan.defence
    assert (part.name, part.settings) == ("global-dp", {"clip": 0.5, "multiplier": 2.0})
    assert build_defences([(part.name, part.settings)]).parts == (made("central-dp"),)
    assert "global-dp" in DEFENCES
    assert "global-dp" not in list(DEFENCES)
    with pytest.raises(Misconfigured, match="defence central-dp has no setting 'clipp'"):
        build_defences([("global-dp", {"clipp": 1})])
