"""What a second round of attackers found: few rows, long chains, odd calls, gates, hidden heads, tables, bytes."""

import copy
import dataclasses

import pytest
import torch
import torch.nn.functional as F
from benchmarks._adaptive import bins, fresh, head, mlp, put, sparse
from benchmarks._further import Called, Gate, further
from benchmarks._leaking import leaks
from torch import nn

from fluoroscope.data import Request, load
from fluoroscope.defences.guard import History, inspect
from fluoroscope.defences.guard.batches import batch
from fluoroscope.defences.guard.drawn_apart import _emptied, drawn_apart
from fluoroscope.defences.guard.gradient_shares import FEW, _of_few
from fluoroscope.defences.guard.isolation import Crowd, Reading, crowd
from fluoroscope.defences.guard.leak import Leak
from fluoroscope.defences.guard.losses import losses
from fluoroscope.defences.guard.products import products
from fluoroscope.defences.guard.profile import Profile, prepared
from fluoroscope.defences.guard.replaced import replaced
from fluoroscope.defences.guard.watch import watched


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    return load("phantom/chest", Request(size=28, images=160)).batch.images


@pytest.fixture(scope="module")
def small(images) -> torch.Tensor:
    return F.avg_pool2d(images[:, :, 2:26, 2:26], 3)


def rng(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def checks(verdict) -> set[str]:
    return {reason.check for reason in verdict.reasons if reason.severity == "refuse"}


@pytest.fixture(scope="module")
def cases(images) -> dict:
    torch.manual_seed(0)
    return {case.kind: case for case in further(images[:96], rng())}


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        ("few rows/96 of 512", "isolation"),
        ("few rows/200 of 1024", "isolation"),
        ("bends a little/softsign", "isolation"),
        ("gate/0.06", "fishing"),
        ("fishing/behind, linear", "fishing"),
    ],
)
def test_what_leaks_is_refused(images, cases, kind, check):
    case = cases[kind]
    assert leaks(case, images[96:], torch.randint(4, (64,), generator=rng()))
    assert check in checks(inspect(case.model.state_dict(), case.agreed, images[96:], seed=0))
    assert inspect(case.agreed.state_dict(), case.agreed, images[96:], seed=0).accepted


def test_one_image_of_a_small_batch():
    assert _of_few(torch.ones(64), rng()) == pytest.approx(1 / FEW)
    few = torch.zeros(64)
    few[:2] = 1.0
    assert _of_few(few, rng()) > 0.85  # both are seldom in one batch, and a batch without gradient has no owner
    assert _of_few(torch.ones(FEW), rng()) == 0.0


def test_rows_of_one_image_are_told_apart():
    gradient = torch.tensor([[1.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, -1.0, 0.0]])
    assert crowd(gradient).alone == {0}


def test_training_that_leaves_rows_to_one_image_puts_more_of_them_to_sleep():
    then = Crowd(0.05, 0.2, frozenset(range(10)), 400)
    drawn = Crowd(0.07, 0.21, frozenset(range(34)), 400)
    trained = Crowd(0.07, 0.35, frozenset(range(34)), 400)
    assert _emptied(drawn, then)
    assert not _emptied(trained, then)


def _profile(weight: torch.Tensor, alone: set[int], reading: Reading) -> Profile:
    """One layer, of which so many rows are one image's."""
    found = Crowd(0.05, 0.2, frozenset(alone), len(weight))
    leak = Leak(weight.shape[1], len(weight), 1.0, {64: reading}, crowd=found, weight=weight)
    return Profile({"layer": leak}, 0.0, 1.0, 64)


def test_few_rows_that_were_replaced_are_seen_where_the_others_stayed():
    rows = torch.randn(1024, 50, generator=rng())
    crafted, trained = rows.clone(), rows + 0.01 * torch.randn(1024, 50, generator=rng(2))
    crafted[:12] = torch.randn(12, 50, generator=rng(3))
    reading = Reading(0.5, 0.5, 0.05)
    then = _profile(rows, {20, 21}, reading)
    [reason] = replaced(_profile(crafted, {*range(12), 20}, reading), lambda: then)
    assert reason.numbers["rows replaced"] == 12
    assert not replaced(_profile(trained, {*range(12), 20}, reading), lambda: then)
    elsewhere = torch.randn(1024, 50, generator=rng(4))  # the agreed numbers are of another start
    assert not replaced(_profile(elsewhere, {*range(12), 20}, reading), lambda: then)
    assert not replaced(_profile(crafted, set(range(20, 40)), reading), lambda: then)  # what was replaced shows nobody
    assert not replaced(_profile(crafted, set(range(12)), Reading(0.05, 0.05, 0.05)), lambda: then)
    assert not replaced(_profile(crafted, set(range(12)), reading), lambda: None)


def test_rows_of_a_bend_that_are_more_than_the_layers_own_are_passed_over():
    rows, reading = torch.randn(16, 50, generator=rng()), Reading(0.5, 0.5, 0.05)
    found, then = (_profile(rows, alone, reading) for alone in ({40, 60}, set()))
    leak = found.leaks["layer"]
    wider = {"layer": dataclasses.replace(leak, crowd=dataclasses.replace(leak.crowd, rows=64))}
    assert not replaced(dataclasses.replace(found, leaks=wider), lambda: then)


def test_rows_asleep_but_for_those_of_one_image():
    rows = torch.randn(192, 50, generator=rng())
    then = _profile(rows, set(), Reading(0.16, 0.16, 0.07))
    for alone, share, refused in ((0.2, 0.7, True), (0.2, 0.3, False), (0.17, 0.7, False)):
        found = drawn_apart(_profile(rows, set(), Reading(alone, alone, share)), lambda: then)
        assert bool(found) is refused


def test_a_long_chain_is_followed_to_its_bend():
    torch.manual_seed(0)
    chain = [nn.Linear(24, 24) for _ in range(9)]
    for layer in chain:
        nn.init.orthogonal_(layer.weight)
        nn.init.zeros_(layer.bias)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 24), *chain, nn.ReLU(), nn.Linear(24, 3))
    watch, out = watched(prepared(model), batch(torch.randn(12, 1, 8, 8, generator=rng())))
    found = {each.name: each for each in products(watch, losses(out, 12, rng()).sum(), 12)}
    assert torch.equal(found["1.weight"].gradients[-1], found["10.weight"].gradients[0])


class Frequencies(Called):
    """A product by way of the Fourier transform."""

    def forward(self, x):
        x, w = x.flatten(1), self.weight
        z = torch.fft.irfft(torch.fft.rfft(x)[:, None] * torch.fft.rfft(w.flip(1))[None], n=x.shape[1])
        return F.relu(z[..., -1] + self.bias)


class Columns(nn.Module):
    """An array for every pixel."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.columns = nn.ParameterList(torch.randn(d, 96).unbind())
        self.bias = nn.Parameter(torch.zeros(96))

    def forward(self, x):
        return F.relu(sum(x.flatten(1)[:, i, None] * w for i, w in enumerate(self.columns)) + self.bias)


@pytest.mark.parametrize("how", ["detached", "addbmm", "frequencies", "columns"])
def test_a_product_that_is_none_by_name(small, how):
    torch.manual_seed(0)
    first = {"frequencies": lambda: Frequencies(how, 64), "columns": lambda: Columns(64)}
    model = nn.Sequential(first.get(how, lambda: Called(how, 64))())
    units = 96 if how == "columns" else 192
    model.append(head(units, "own"))
    agreed = copy.deepcopy(model)
    w, b = sparse(small[:96].flatten(1), units, 0.02, rng())
    with torch.no_grad():
        model[0].bias.copy_(b)
        for to, values in zip(model[0].columns, w.T, strict=True) if how == "columns" else [(model[0].weight, w)]:
            to.copy_(values)
    assert checks(inspect(model.state_dict(), agreed, small[96:], seed=0)) == {"isolation"}
    assert inspect(agreed.state_dict(), agreed, small[96:], seed=0).accepted


def test_a_dropout_that_leaves_one_image_to_a_row(images):
    torch.manual_seed(0)
    agreed = nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.Tanh(), nn.Dropout(0.2), head(256, "own"))
    model = copy.deepcopy(agreed)
    model[3].p = 0.97
    assert "isolation" in checks(inspect(model, agreed, images[96:], seed=0))
    assert inspect(agreed, agreed, images[96:], seed=0).accepted


def test_a_short_table(images):
    torch.manual_seed(0)
    table = torch.randn(160, 12, generator=rng())
    model = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), head(64, "own"))
    put(model[0], *sparse(table[:96], 64, 0.02, rng()))
    agreed = fresh(model)
    assert "isolation" in checks(inspect(model.state_dict(), agreed, table[96:], seed=0))
    assert inspect(agreed.state_dict(), agreed, table[96:], seed=0).accepted


class Both(nn.Module):
    """A row of a table, and then a picture."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.stem = nn.Linear(6, 16), nn.Conv2d(1, 8, 3, 2, 1)
        self.inner, self.fc = nn.Linear(8 * 14 * 14, 96), nn.Linear(112, 3)

    def forward(self, table, image):
        seen = F.relu(self.inner(F.relu(self.stem(image)).flatten(1)))
        return self.fc(torch.cat([F.relu(self.table(table)), seen], dim=1))


def test_a_table_before_a_picture_hides_nothing(images):
    torch.manual_seed(0)
    model = Both()
    agreed = copy.deepcopy(model)
    with torch.no_grad():
        seen = F.relu(model.stem(images[:96])).flatten(1)
    put(model.inner, *sparse(seen, 96, 0.02, rng()))
    given = (torch.randn(64, 6, generator=rng()), images[96:])
    assert "isolation" in checks(inspect(model.state_dict(), agreed, given, seed=0))
    assert inspect(agreed.state_dict(), agreed, given, seed=0).accepted


class Bytes(nn.Module):
    """Pixels as a file has them."""

    def __init__(self) -> None:
        super().__init__()
        self.body = mlp(784, 96)

    def forward(self, x):
        return self.body(x.float() / 255)


def test_bytes_are_pixels(images):
    torch.manual_seed(0)
    model = Bytes()
    agreed = fresh(model)
    put(model.body[1], *bins(images[:96].flatten(1), 96, rng(), (1, 28, 28)))
    given = (255 * images[96:]).to(torch.uint8)
    assert "isolation" in checks(inspect(model.state_dict(), agreed, given, seed=0))
    assert inspect(agreed.state_dict(), agreed, given, seed=0).accepted


def test_rounds_that_lack_a_number_are_no_jump():
    now = {"isolation": 0.1, "owned of few": 0.9, "passed": 1.0, "images": 64.0}
    before = {"isolation": 0.1, "passed": 1.0, "images": 64.0}
    told = History(tuple([before] * 6))
    assert told.reasons(now) == []
    assert [r.check for r in told.after({**before, "owned of few": 0.1}).reasons(now)] == ["jump"]


def test_a_gate_lets_honest_networks_pass(images):
    torch.manual_seed(0)
    agreed = Gate(1)
    model = copy.deepcopy(agreed)
    with torch.no_grad():
        model.gate.bias.sub_(0.05)
    assert inspect(model.state_dict(), agreed, images[96:], seed=0).accepted
