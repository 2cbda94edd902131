"""Every registered attack: honest, repeatable, and without a trace on the evidence."""

import hashlib
import sys
from collections.abc import Mapping
from dataclasses import fields, replace

import pytest
import torch

from fluoroscope.attacks import ATTACKS
from fluoroscope.attacks.closed_form.span import Span
from fluoroscope.attacks.common.engine import Budget
from fluoroscope.attacks.gradient_inversion.attack import Inversion
from fluoroscope.attacks.gradient_inversion.stages import StatisticsFirst
from fluoroscope.attacks.gradient_inversion.surrogate import LearnedPoints
from fluoroscope.attacks.learned import learning
from fluoroscope.attacks.learned.feature_decoder import FeatureDecoder
from fluoroscope.attacks.learned.map_inversion import MapInversion
from fluoroscope.data import Request, load
from fluoroscope.defences import NO_DEFENCE
from fluoroscope.errors import Unsupported
from fluoroscope.federation.client_round import client_round
from fluoroscope.models import Architecture
from fluoroscope.threat_models import THREATS, needs, observe
from fluoroscope.threat_models.grants import GRANTS, capability_of
from fluoroscope.types import Capability, LabelledImages, LocalTraining, Observation, PrivateBatch, Sgd, UpdateRecord

WITHOUT_BATCHNORM = {"r-gap", "dlg", "idlg", "sapag", "ag-tg", "ag-unif", "eucl-tg", "eucl-unif"}
"""Attacks of papers that attack LeNet-5."""
OF_TRANSFORMERS = {"april"}
"""Attacks on vision transformers."""
IMAGES_ALONE = {"span", "bn-only", "ridge", "decoder", "map-inversion", "feature-decoder", "cocktail-party", "april"}
"""Attacks that say nothing of labels."""
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
    kind = "lenet5" if name in WITHOUT_BATCHNORM else "vit-small" if name in OF_TRANSFORMERS else "small-cnn"
    architecture = Architecture(kind, 1, 2, 32)
    training = LocalTraining(Sgd(0.05), len(victim), batch_size)
    # Of another seed: the network's own first weights must not do for the global model.
    return client_round(architecture, architecture.build(seed=1).state_dict(), victim, training, rng()).record


def quick(name: str, iterations: int = 3):
    """With few iterations, in every stage."""
    attack = ATTACKS.get(name)
    if isinstance(attack, Inversion) and attack.stages is not None:
        grids = attack.stages.grids
        grids = replace(grids, one=replace(grids.one, iterations=2), several=replace(grids.several, iterations=2))
        last = {"iterations": 2} if isinstance(attack.stages, StatisticsFirst | LearnedPoints) else {}
        attack = replace(attack, stages=replace(attack.stages, grids=grids, **last))
    shortened = isinstance(attack, Inversion | Span | MapInversion | FeatureDecoder)
    return replace(attack, budget=Budget(iterations)) if shortened else attack


def prior() -> torch.Tensor:
    return load("phantom/chest", Request(size=32, images=8, seed=99)).batch.images.mean(0)


def public() -> LabelledImages:
    """The attacker's own, each of another patient."""
    batch = load("phantom/chest", Request(size=32, images=24, seed=98)).batch
    return LabelledImages(batch.images, batch.labels, batch.patients)


def seen_by(record: UpdateRecord, without: Capability | None = None) -> Observation:
    """All that a curious server may know of the record, but for one thing."""
    given = {"public_mean": prior(), "public_images": public(), "defence": NO_DEFENCE}
    kept = {name: value for name, value in given.items() if without is None or capability_of(name) is not without}
    known = THREATS.get("curious-server")
    return observe(record, known if without is None else known.without(without), **kept)


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


@pytest.mark.parametrize("name", ["small-cnn", "lenet5"])
def test_what_an_attacker_sees_shares_no_memory_with_the_truth(name):
    """Else it could change with the truth, or show it. That guesses do not: test_scenarios.py."""
    truth, network = patient(3), Architecture(name, 1, 2, 32)
    state = network.build().state_dict()
    record = client_round(network, state, truth, LocalTraining(Sgd(0.05), 1, 1), rng()).record
    labelled = THREATS.get("curious-server").granted(Capability.LABELS)
    seen = observe(record, labelled, prior(), truth.labels)
    own = {truth.images.untyped_storage().data_ptr(), truth.labels.untyped_storage().data_ptr()}
    assert not own & {value.untyped_storage().data_ptr() for value in tensors(seen)}


@every_attack
def test_a_guess_is_an_image_with_its_objective_and_the_evidence_is_left_as_it_was(name, record):
    attack, before = quick(name), digest(record)
    told = []
    seen = seen_by(record)
    (guess,) = attack.run([seen], rng(), lambda iteration, iterations: told.append((iteration, iterations)))
    assert digest(record) == before
    assert guess.images.shape == (1, 1, 32, 32)
    assert guess.images.isfinite().all()
    assert guess.labels is None if name in IMAGES_ALONE else guess.labels.shape == (1,)
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
def test_each_need_is_named_where_it_is_missing(name, record):
    attack = quick(name)
    for need in attack.needs:
        seen = seen_by(record, without=need)
        with pytest.raises(Unsupported, match=f"^{name} needs the capability '{need.value}'"):
            attack.run([seen], rng())


@pytest.fixture
def unasked(monkeypatch):
    """Attacks that do not ask for what they need. Their draws depend on the seed alone, not on the update too."""
    monkeypatch.setattr(needs, "missing", lambda observation, needs: [])
    for path, module in list(sys.modules.items()):
        if path.startswith("fluoroscope.attacks") and hasattr(module, "digest"):
            monkeypatch.setattr(module, "digest", lambda *content: "the same")
    monkeypatch.setattr(learning, "_LAST", Forgetful())  # by such a digest it would answer for any observation


class Forgetful(dict):
    def __setitem__(self, key, value):
        pass


def superfluous(attack, record) -> list[Capability]:
    """The needs without which the attack's guess is the same."""
    seen = seen_by(record)
    (whole,) = attack.run([seen], rng())
    found = []
    for need in sorted(attack.needs):
        without = replace(seen, **{GRANTS[need][0]: None})
        try:
            (guess,) = attack.run([without], rng())
        except Exception:  # it did need it, and it stops wherever it misses it
            continue
        found += [need] if torch.equal(guess.images, whole.images) and guess.objective == whole.objective else []
    return found


@every_attack
def test_each_need_is_needed(name, record, unasked):
    assert superfluous(quick(name, 1), record) == []


class Greedy(Inversion):
    """Asks for the BatchNorm statistics, and does nothing with them."""

    @property
    def needs(self):
        return super().needs | {Capability.BUFFERS}


@pytest.mark.parametrize("name", ["inverting-gradients"])
def test_a_superfluous_need_is_found(record, unasked):
    usual = quick("inverting-gradients", 1)
    greedy = Greedy(**{field.name: getattr(usual, field.name) for field in fields(usual)})
    assert superfluous(greedy, record) == [Capability.BUFFERS]


@every_attack
def test_a_neighbour_changes_nothing(name, record):
    """The same guess alone and beside another observation, but for the rounding that one iteration brings."""
    attack = quick(name)
    attack = replace(attack, budget=Budget(1)) if isinstance(attack, Inversion) else attack
    seen, other = (seen_by(r) for r in (record, recorded(name, patient(4))))
    (alone,), (beside, neighbour) = attack.run([seen], rng()), attack.run([seen, other], rng())
    torch.testing.assert_close(alone.images, beside.images, atol=2e-3, rtol=2e-3)
    _, last = attack.run([other, seen], rng())
    torch.testing.assert_close(alone.images, last.images, atol=2e-3, rtol=2e-3)
    if Capability.UPDATE in attack.needs:
        # After one iteration an attack may still be at the prior, but what it thinks of it depends on what it saw.
        apart = not torch.allclose(beside.images, neighbour.images, atol=2e-3)
        assert apart or beside.objective != neighbour.objective
