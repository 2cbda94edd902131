"""Every registered attack: honest, repeatable, and without a trace on the evidence."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch

from fluoroscope.attacks import ATTACKS
from fluoroscope.attacks.closed_form.span import Span
from fluoroscope.attacks.common.engine import Budget
from fluoroscope.attacks.gradient_inversion.attack import Inversion
from fluoroscope.data import Request, load
from fluoroscope.errors import Unsupported
from fluoroscope.federation.local_training import local_training
from fluoroscope.models import Architecture
from fluoroscope.threat_models import THREATS, observe
from fluoroscope.types import Capability, LocalTraining, PrivateBatch, Sgd, UpdateRecord

WITHOUT_BATCHNORM = {"r-gap", "dlg", "idlg", "sapag", "ag-tg", "ag-unif", "eucl-tg", "eucl-unif"}
"""Attacks of papers that attack LeNet-5."""
every_attack = pytest.mark.parametrize("name", list(ATTACKS))


def rng() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture
def victim() -> PrivateBatch:
    return patient(3)


@pytest.fixture
def record(victim, name) -> UpdateRecord:
    return recorded(name, victim)


def patient(seed: int) -> PrivateBatch:
    return load("phantom/chest", Request(size=32, images=1, seed=seed)).batch


def recorded(name: str, victim: PrivateBatch, batch_size: int = 1) -> UpdateRecord:
    """A round of the network that the attack is made for."""
    architecture = Architecture("lenet5" if name in WITHOUT_BATCHNORM else "small-cnn", 1, 2, 32)
    model, training = architecture.build(), LocalTraining(Sgd(0.05), len(victim), batch_size)
    before = {name: value.detach().clone() for name, value in model.state_dict().items()}
    after = local_training(model, before, victim, training, rng()).state
    buffers = {name for name, _ in model.named_buffers()}

    def part(state, of_buffers):
        return {name: value for name, value in state.items() if (name in buffers) == of_buffers}

    parts = (part(before, False), part(after, False), part(before, True), part(after, True))
    return UpdateRecord(1, ("client-9",), architecture, training, *parts)


def quick(name: str):
    attack = ATTACKS.get(name)
    return replace(attack, budget=Budget(3)) if isinstance(attack, Inversion | Span) else attack


def prior() -> torch.Tensor:
    return load("phantom/chest", Request(size=32, images=8, seed=99)).batch.images.mean(0)


def digest(record: UpdateRecord) -> str:
    states = (record.state_before, record.state_after, record.buffers_before, record.buffers_after or {})
    return hashlib.sha256(b"".join(v.numpy().tobytes() for s in states for v in s.values())).hexdigest()


def tensors(observation):
    """All that an attacker is handed, whatever the field."""
    for value in vars(observation).values():
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, Mapping):
            yield from value.values()


@every_attack
def test_the_guess_does_not_depend_on_the_truth(name, record, victim):
    """The truth is destroyed before the attack sees anything, and it shares no memory with what is seen."""
    seen = observe(record, THREATS.get("curious-server"), prior())
    own = {victim.images.untyped_storage().data_ptr(), victim.labels.untyped_storage().data_ptr()}
    assert not own & {value.untyped_storage().data_ptr() for value in tensors(seen)}
    (with_truth,) = quick(name).run([seen], rng())
    victim.images.fill_(torch.nan)
    victim.labels.fill_(-1)
    (without,) = quick(name).run([seen], rng())
    assert torch.equal(with_truth.images, without.images)
    assert with_truth.objective == without.objective


@pytest.mark.parametrize(("images", "batch_size"), [(4, 4), (4, 2)])
@pytest.mark.parametrize(
    "name", [pytest.param("epochwise", marks=pytest.mark.slow), "gradinversion", "inverting-gradients", "bn-only"]
)
def test_a_batch_is_attacked_without_its_truth(name, images, batch_size):
    """Coarse grids, unrolled steps and groups: the guess of a batch is that of its record alone."""
    whole = load("phantom/chest", Request(size=32, images=images, seed=3)).batch
    record = recorded(name, whole, batch_size)
    found = []
    for _ in range(2):
        seen = observe(record, THREATS.get("curious-server"), prior())
        found.append(quick(name).run([seen], rng())[0].images)
        whole.images.fill_(torch.nan)
        whole.labels.fill_(-1)
    assert found[0].shape == (images, 1, 32, 32)
    assert torch.equal(*found)


@every_attack
def test_evidence_is_left_as_it_was(name, record):
    before = digest(record)
    quick(name).run([observe(record, THREATS.get("curious-server"), prior())], rng())
    assert digest(record) == before


@every_attack
def test_a_guess_is_an_image_with_its_objective(name, record):
    attack = quick(name)
    told = []
    seen = observe(record, THREATS.get("curious-server"), prior())
    (guess,) = attack.run([seen], rng(), lambda iteration, iterations: told.append((iteration, iterations)))
    assert guess.images.shape == (1, 1, 32, 32)
    assert guess.images.isfinite().all()
    assert guess.labels is None if name in ("span", "bn-only") else guess.labels.shape == (1,)
    assert guess.objective == min(guess.restarts)
    assert guess.objective <= guess.trace[0]
    assert told[-1][0] + 1 == told[-1][1]
    if isinstance(attack, Inversion):
        assert guess.objective < guess.trace[0], "a few iterations must bring it on"
        assert guess.start is not None
        assert guess.last is not None
        assert not torch.equal(guess.start, guess.last)
        if attack.box is not None:
            assert 0 <= guess.images.min() <= guess.images.max() <= 1


@every_attack
def test_each_need_is_needed_and_named(name, record):
    attack = quick(name)
    for need in attack.needs:
        known = THREATS.get("curious-server").without(need)
        seen = observe(record, known, None if need is Capability.PRIOR else prior())
        with pytest.raises(Unsupported, match=f"^{name} needs the capability '{need.value}'"):
            attack.run([seen], rng())


@every_attack
def test_a_neighbour_changes_nothing(name, record):
    """The same guess alone and beside another observation, but for the rounding that one iteration brings."""
    attack = quick(name)
    attack = replace(attack, budget=Budget(1)) if isinstance(attack, Inversion) else attack
    seen, other = (observe(r, THREATS.get("curious-server"), prior()) for r in (record, recorded(name, patient(4))))
    (alone,), (beside, neighbour) = attack.run([seen], rng()), attack.run([seen, other], rng())
    torch.testing.assert_close(alone.images, beside.images, atol=2e-3, rtol=2e-3)
    _, last = attack.run([other, seen], rng())
    torch.testing.assert_close(alone.images, last.images, atol=2e-3, rtol=2e-3)
    if Capability.UPDATE in attack.needs:
        # After one iteration an attack may still be at the prior, but what it thinks of it depends on what it saw.
        apart = not torch.allclose(beside.images, neighbour.images, atol=2e-3)
        assert apart or beside.objective != neighbour.objective
