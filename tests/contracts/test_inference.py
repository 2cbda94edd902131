"""Every registered inference attack: it works, it asks for what it needs, and it cannot reach the answer."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from types import FunctionType

import pytest
import torch
from sklearn.metrics import roc_auc_score

from fluoroscope.attacks.inference import INFERENCE_ATTACKS
from fluoroscope.attacks.inference.lira import Lira
from fluoroscope.attacks.inference.loss_threshold import LossThreshold
from fluoroscope.attacks.inference.rmia import Rmia
from fluoroscope.data import Request, load
from fluoroscope.errors import Unsupported
from fluoroscope.federation.client_round import client_round
from fluoroscope.models import Architecture
from fluoroscope.threat_models import THREATS, needs, observe, observe_round
from fluoroscope.types import (
    Adam,
    Capability,
    Knowledge,
    LabelledImages,
    LocalTraining,
    Normalisation,
    PrivateBatch,
    RoundView,
    UpdateRecord,
)

PARTICIPANTS = {"participation"}
"""Attacks of one who takes part and sees rounds; the others look at clients' updates, as the server does."""
OF_THE_WHOLE = {"participation"}
"""Attacks that ask about the candidates as one."""
NETWORK = Architecture("lenet5", 1, 4, 32)
TRAINING = LocalTraining(Adam(0.003), images=20, batch_size=5, epochs=40, normalisation=Normalisation((0.25,), (0.25,)))
SERVER = THREATS.get("curious-server").without(Capability.PRIOR)
"""No attack here is told a public mean."""
MEMBERS, OTHERS, POOL = range(8), range(40, 48), range(48, 120)
every_attack = pytest.mark.parametrize("name", list(INFERENCE_ATTACKS))


@cache
def images() -> PrivateBatch:
    return load("phantom/brain", Request(size=32, images=120, seed=0)).batch


def some(chosen) -> LabelledImages:
    """In an attacker's own hands: copies."""
    return LabelledImages(images().images[list(chosen)], images().labels[list(chosen)])


@cache
def record(client: int) -> UpdateRecord:
    """Of an overfitted client with 20 images of its own; the first has the members."""
    batch = images().subset(range(20 * client, 20 * client + 20))
    start = NETWORK.build(0).state_dict()
    return client_round(NETWORK, start, batch, TRAINING, rng(), client=f"client-{client}").record


def view() -> RoundView:
    """The round of a federation whose only other client changed little: it ends with the first client's model."""
    return RoundView(1, NETWORK, record(0).state_after, {"loss": 1.0})


def seen(name: str, knowledge: Knowledge | None = None, without: Capability | None = None):
    """What the attack looks at, the victim's first."""
    participant = name in PARTICIPANTS
    known = knowledge or (THREATS.get("curious-client") if participant else SERVER)
    known = known if without is None else known.without(without)
    if participant:
        return [observe_round(view(), TRAINING, known)]
    return [observe(record(client), known) for client in (0, 1)]


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def quick(name: str, shadows: int = 4):
    """With few shadow trainings."""
    attack = INFERENCE_ATTACKS.get(name)
    if isinstance(attack, Rmia):
        return replace(attack, shadows=shadows)
    return replace(attack, game=replace(attack.game, shadows=shadows)) if isinstance(attack, Lira) else attack


def shortened(observations):
    """As if clients trained for an epoch: what an attack that simulates them is told."""
    return [
        each if each.training is None else replace(each, training=replace(each.training, epochs=1))
        for each in observations
    ]


def scores(attack, observations, seed: int = 0) -> torch.Tensor:
    return attack.run(observations, some([*MEMBERS, *OTHERS]), rng(seed), some(POOL))


def tensors(thing, known: set[int] | None = None):
    """All tensors that can be reached from a thing: its fields, what it holds, what its functions close over."""
    known = set() if known is None else known
    if id(thing) in known or isinstance(thing, type):
        return
    known.add(id(thing))
    inside: list[object] = []
    if isinstance(thing, torch.Tensor):
        yield thing
        return
    if isinstance(thing, Mapping):
        inside = list(thing.values())
    elif isinstance(thing, Sequence | set | frozenset) and not isinstance(thing, str | bytes):
        inside = list(thing)
    elif isinstance(thing, FunctionType):
        inside = [*(cell.cell_contents for cell in thing.__closure__ or ()), *(thing.__defaults__ or ())]
    elif hasattr(thing, "__dict__"):
        inside = [*vars(thing).values(), getattr(thing, "__func__", None), getattr(thing, "__self__", None)]
    for each in inside:
        yield from tensors(each, known)


def storages(*things) -> set[int]:
    return {value.untyped_storage().data_ptr() for thing in things for value in tensors(thing)}


def digest(*things) -> str:
    return hashlib.sha256(b"".join(v.contiguous().numpy().tobytes() for t in things for v in tensors(t))).hexdigest()


def superfluous(attack, name: str, monkeypatch) -> list[Capability]:
    """The needs without which the attack, were it let, would say just the same."""
    asked = {need: shortened(seen(name, without=need)) for need in attack.needs}
    whole = scores(attack, shortened(seen(name)))
    monkeypatch.setattr(needs, "missing", lambda observation, wanted: [])
    found = []
    for need, observations in asked.items():
        try:
            unread = torch.equal(scores(attack, observations), whole)
        except Exception:  # it read what is not there
            unread = False
        found += [need] if unread else []
    return found


@every_attack
def test_members_score_higher_on_an_overfitted_network(name):
    """The victim's row, of an attacker that plays 8 shadows where it plays any."""
    attack, observations = quick(name, shadows=8), seen(name)
    if isinstance(attack, Lira | Rmia):
        observations = observations[:1]  # each is played by itself
    if name in OF_THE_WHOLE:
        members, others = (attack.run(observations, some(kind), rng(), some(POOL))[0] for kind in (MEMBERS, OTHERS))
    else:
        members, others = scores(attack, observations)[0].split([len(MEMBERS), len(OTHERS)])
    assert roc_auc_score([1] * len(members) + [0] * len(others), torch.cat([members, others])) > 0.7


@every_attack
def test_there_is_a_finite_score_per_observation_and_candidate(name):
    observations = shortened(seen(name))
    found = scores(quick(name), observations)
    columns = 1 if name in OF_THE_WHOLE else len(MEMBERS) + len(OTHERS)
    assert found.shape == (len(observations), columns)
    assert found.dtype == torch.float64
    assert found.isfinite().all()


@every_attack
def test_the_same_seed_gives_the_same_scores(name):
    observations = shortened(seen(name))
    assert torch.equal(scores(quick(name), observations, 3), scores(quick(name), observations, 3))


@every_attack
def test_each_need_is_enforced_and_named(name):
    attack = quick(name)
    assert attack.needs
    for need in attack.needs:
        with pytest.raises(Unsupported, match=f"^{name} needs the capability '{need.value}': grant it"):
            scores(attack, seen(name, without=need))


@every_attack
def test_each_need_is_read(name, monkeypatch):
    assert not superfluous(quick(name), name, monkeypatch)


def test_a_superfluous_need_is_caught(monkeypatch):
    @dataclass(frozen=True)
    class Greedy(LossThreshold):
        needs = LossThreshold.needs | {Capability.BUFFERS}

    assert superfluous(Greedy(), "loss", monkeypatch) == [Capability.BUFFERS]


@every_attack
def test_its_threat_model_grants_what_it_needs(name):
    threat = "curious-client" if name in PARTICIPANTS else "curious-server"
    assert INFERENCE_ATTACKS.get(name).needs <= THREATS.get(threat).capabilities


@every_attack
def test_it_runs_on_no_more_than_it_needs(name):
    attack = quick(name)
    position = "client" if name in PARTICIPANTS else "server"
    found = scores(attack, shortened(seen(name, Knowledge(position, attack.needs))))
    assert found.isfinite().all()


@every_attack
def test_evidence_is_left_as_it_was(name):
    observations, candidates, pool = shortened(seen(name)), some([*MEMBERS, *OTHERS]), some(POOL)
    before = digest(observations, candidates, pool, [record(0), record(1)])
    quick(name).run(observations, candidates, rng(), pool)
    assert digest(observations, candidates, pool, [record(0), record(1)]) == before


@every_attack
def test_neither_the_victims_batch_nor_the_answer_can_be_reached(name):
    """From all that an attack is handed, and from the attack itself."""
    batch, answer = images().subset(range(20)), torch.arange(16) < 8
    start = NETWORK.build(0).state_dict()
    made = client_round(NETWORK, start, batch, replace(TRAINING, epochs=1), rng()).record
    handed = seen(name) if name in PARTICIPANTS else observe(made, SERVER)
    reached = storages(handed, some([*MEMBERS, *OTHERS]), some(POOL), INFERENCE_ATTACKS.get(name))
    assert len(reached) > 4
    assert not reached & storages(batch, images(), answer)


def test_what_is_hidden_would_be_found():
    """In a field, in a list, in a dictionary, behind a function."""
    answer = torch.arange(16) < 8
    hidden = [answer[2:], {"a": [answer]}, lambda: answer, LabelledImages(torch.zeros(1), answer)]
    assert all(storages(each) & storages(answer) for each in hidden)


@every_attack
def test_the_settings_are_those_of_a_frozen_dataclass(name):
    attack = INFERENCE_ATTACKS.get(name)
    assert is_dataclass(attack)
    assert type(attack).__dataclass_params__.frozen
    assert "needs" not in {field.name for field in fields(attack)}


@pytest.mark.parametrize("name", [n for n in INFERENCE_ATTACKS if not isinstance(INFERENCE_ATTACKS.get(n), Lira)])
def test_where_a_candidate_stands_tells_nothing(name):
    """Members stand first here, and nobody makes use of it. LiRA's shadows are drawn by place: others are trained."""
    attack, observations = quick(name), shortened(seen(name))
    asked, order = [*MEMBERS, *OTHERS], torch.randperm(16, generator=rng()).tolist()
    straight, turned = (
        attack.run(observations, some(c), rng(), some(POOL)) for c in (asked, [asked[i] for i in order])
    )
    torch.testing.assert_close(turned, straight if name in OF_THE_WHOLE else straight[:, order])
