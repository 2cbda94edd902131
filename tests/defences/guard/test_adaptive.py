"""Models by somebody who has read the source: they leak, measured, and are refused; numbers of rounds are compared."""

import copy

import pytest
import torch
from benchmarks._adaptive import Adaptive, bins, deep, head, mlp, put, recovered, rows
from benchmarks._adaptive_calls import bends, fishing, names
from benchmarks._held_out import held_out
from benchmarks._hosts import hosts
from benchmarks._monai import Bottleneck, Context, Film, TwoInputs, Words, class_prior
from torch import nn

from fluoroscope.data import Request, load
from fluoroscope.defences.guard import History, inspect
from fluoroscope.errors import BadInput


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    return load("phantom/chest", Request(size=28, images=160)).batch.images


def rng() -> torch.Generator:
    return torch.Generator().manual_seed(1)


def checks(verdict) -> set[str]:
    return {reason.check for reason in verdict.reasons if reason.severity == "refuse"}


FAMILIES = {family.__name__: family for family in (deep, bends, names, held_out, hosts)}
CHOSEN = [
    ("deep", "mixed and undone"),
    ("deep", "shift of a batch norm"),
    ("deep", "a smaller picture"),
    ("bends", "sparse bend/sigmoid"),
    ("bends", "bend/hardtanh"),
    ("names", "call/einsum"),
    ("names", "call/sum"),
    ("names", "call/weight norm"),
    ("names", "call/lora"),
    ("held_out", "gated"),
    ("held_out", "halves/sparse"),
    ("held_out", "trained to leak"),
    ("hosts", "host/attention's values"),
    ("hosts", "host/gru"),
    ("hosts", "host/experts, 192"),
    ("hosts", "host/sparse mixed before tanh"),
    ("hosts", "host/groups"),
]


@pytest.mark.parametrize(("family", "kind"), CHOSEN)
def test_what_leaks_is_refused_by_what_it_does(images, family, kind):
    torch.manual_seed(0)
    case = next(case for case in FAMILIES[family](images[:96], rng()) if case.kind == kind)
    labels = torch.randint(4, (64,), generator=rng())
    assert recovered(case, images[96:], labels) > 6
    verdict = inspect(case.model.state_dict(), case.agreed, images[96:], seed=0)
    assert "isolation" in checks(verdict), verdict.summary
    assert inspect(case.agreed.state_dict(), case.agreed, images[96:], seed=0).accepted


def test_fishing_and_silence_are_refused_beside_the_agreed_network(images):
    torch.manual_seed(0)
    for case in fishing(images[:96], rng()):
        verdict = inspect(case.model.state_dict(), case.agreed, images[96:], seed=0)
        assert checks(verdict) & {"fishing", "silence"}, case.kind


@pytest.mark.parametrize("rare", [0.1, 0.001])
def test_a_class_prior_in_the_head_is_honest(images, rare):
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2))
    assert inspect(class_prior(model, rare), None, images[:64], seed=0).accepted


@pytest.mark.parametrize("make", [lambda: Film(1), lambda: Context(1), lambda: Bottleneck(1, 28)])
def test_odd_parts_are_honest(images, make):
    model = make()
    assert inspect(model, None, images[:64], seed=0).accepted
    assert inspect(model.state_dict(), model, images[:64], seed=0).accepted


def test_several_inputs_words_and_volumes_are_run():
    two = TwoInputs()
    given = (torch.rand(20, 1, 16, 16), torch.rand(20, 12))
    assert inspect(two, two, given).accepted
    assert inspect(two, two, lambda: {"image": given[0], "table": given[1]}).accepted
    assert inspect(Words(), None, torch.randint(200, (20, 16))).ran
    volume = nn.Sequential(nn.Conv3d(1, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(4, 2))
    assert inspect(volume, volume, torch.rand(4, 1, 8, 8, 8)).accepted
    assert inspect(volume).accepted  # by stand-ins


def test_what_cannot_be_run_is_not_judged_and_not_accepted():
    class Picky(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 2)

        def forward(self, x):
            raise RuntimeError("no")

    verdict = inspect(Picky(), None, torch.rand(8, 4))
    assert not verdict.ran
    assert not verdict.accepted
    assert not verdict.refused
    assert verdict.summary.startswith("not judged")
    assert "RuntimeError" in verdict.summary


@pytest.mark.parametrize("dtype", [torch.half, torch.bfloat16, torch.double, torch.float8_e4m3fn])
def test_floats_of_any_size_are_judged(images, dtype):
    agreed = mlp(784, 32, last=nn.Linear(32, 4))
    state = {name: value.to(dtype) for name, value in agreed.state_dict().items()}
    assert inspect(state, agreed, images[:40]).accepted
    bad = copy.deepcopy(agreed)
    put(bad[1], *bins(images[:96].flatten(1), 32, rng(), (1, 28, 28)))
    put(bad[3], head(32).weight, None)
    if dtype != torch.float8_e4m3fn:  # too coarse to hold bins
        assert inspect({n: v.to(dtype) for n, v in bad.state_dict().items()}, agreed, images[96:]).refused


@pytest.mark.parametrize("dtype", [torch.int8, torch.int64, torch.complex64])
def test_other_numbers_are_refused_with_a_reason(dtype):
    state = {name: (9 * value).to(dtype) for name, value in mlp(784, 32).state_dict().items()}
    assert checks(inspect(state)) == {"numbers"}


def test_a_slow_poisoning_shows_as_a_trend_and_a_quick_one_as_a_jump(images):
    agreed = mlp(784, 192, last=head(192, "own"))
    bad = mlp(784, 192)
    put(bad[1], *bins(images[:96].flatten(1), 192, rng(), (1, 28, 28)))
    sent = []
    for share in torch.linspace(0, 1, 9):
        model = copy.deepcopy(agreed)
        with torch.no_grad():
            for p, q in zip(model.parameters(), bad.parameters(), strict=True):
                p.lerp_(q, share)
        sent.append(model)
    history, found = History(), []
    for model in sent:
        verdict = inspect(model, None, images[96:], seed=0, history=history)
        history = history.after(verdict.measured)
        found.append(checks(verdict))
    assert not found[0]
    assert found[-1]
    labels = torch.randint(4, (64,), generator=rng())
    case = Adaptive("", sent[-1], agreed, rows("1.weight", "1.bias"))
    assert recovered(case, images[96:], labels) > 6


def test_a_history_sees_trends_and_jumps_and_keeps_numbers_alone():
    calm = History(tuple({"isolation": 0.1, "passed": 1.0, "images": 64.0} for _ in range(8)))
    same = {"isolation": 0.12, "passed": 0.9, "images": 64.0}
    assert calm.reasons(same) == []
    assert [r.check for r in calm.reasons({**same, "isolation": 0.5})] == ["jump"]
    assert [r.check for r in calm.reasons({**same, "passed": 1e-5})] == ["jump"]
    assert calm.reasons({**same, "isolation": 0.5, "images": 16.0}) == []  # smaller batches show more
    creeping = History(tuple({"isolation": 0.05 * i, "images": 64.0} for i in range(8)))
    assert [r.check for r in creeping.reasons({"isolation": 0.4, "images": 64.0})] == ["trend"]
    assert History.from_json(creeping.to_json()) == creeping
    for damaged in ("", "[]", '{"rounds": [{"a": NaN}]}', '{"rounds": 3}'):
        with pytest.raises(BadInput, match="history"):
            History.from_json(damaged)


def test_what_the_agreed_network_looks_like_is_no_evidence(images):
    """A bias that drowns its weights is refused by itself, and noted where it was agreed on."""
    agreed = mlp(784, 32, last=nn.Linear(32, 4))
    with torch.no_grad():
        agreed[1].bias.fill_(30.0)
    assert "firing" in checks(inspect(agreed, None, images[:40], seed=0))
    verdict = inspect(agreed.state_dict(), agreed, images[:40], seed=0)
    assert verdict.accepted
    assert "firing" in {reason.check for reason in verdict.reasons}
