"""Each check against an oracle: a slow loop, a closed form, or a pair of examples that differ in one thing."""

import pytest
import torch
from torch import nn

from fluoroscope.defences.guard.classifier import classifier
from fluoroscope.defences.guard.digest import compare, digest
from fluoroscope.defences.guard.drift import drift
from fluoroscope.defences.guard.firing import firing, silence
from fluoroscope.defences.guard.layers import Layer
from fluoroscope.defences.guard.numbers import numbers, scale
from fluoroscope.defences.guard.passing import passing
from fluoroscope.defences.guard.repetition import by_chance, concentration, copied, repetition
from fluoroscope.defences.guard.staircase import nestedness, staircase, stairs
from fluoroscope.defences.guard.stand_ins import likely_shapes, stand_ins
from fluoroscope.defences.guard.trace import Traced
from fluoroscope.defences.guard.tuned import tuned


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def layer(weight, bias=None, seen=None, last=False) -> Layer:
    bias = torch.zeros(len(weight)) if bias is None else bias
    return Layer("it", weight, bias, last, () if seen is None else (seen,))


PIXELS = stand_ins((1, 16, 16), 96).flatten(1)
FRESH = torch.randn(64, 256, generator=rng()) / 16


def bins(k: int = 64) -> tuple[torch.Tensor, torch.Tensor]:
    weight = torch.full((k, 256), 1 / 256)
    return weight, -torch.quantile(PIXELS.mean(dim=1), (torch.arange(k) + 0.5) / k)


# --- digest and drift ---------------------------------------------------------------------------------------


def test_a_digest_depends_on_every_value_and_name_and_not_on_their_order():
    state = {"a": torch.arange(3.0), "b": torch.tensor(2)}
    own = digest(state)
    assert own == digest(dict(reversed(state.items())))
    assert own != digest({**state, "a": torch.tensor([0.0, 1.0, 2.0000002])})
    assert own != digest({"a": state["a"], "c": state["b"]})
    assert own != digest({**state, "a": state["a"].double()})


def test_clients_that_were_sent_different_models_refuse():
    assert compare("ab" * 32, ["ab" * 32, "ABABABAB"]) == []
    (reason,) = compare("ab" * 32, ["ab" * 32, "cd" * 32])
    assert reason.severity == "refuse"
    assert reason.numbers == {"clients that differ": 1, "clients compared": 2}
    assert compare("ab" * 32, ["ab"])  # too short to mean anything


def test_drift_names_what_was_added_removed_and_reshaped():
    agreed = {"a.weight": torch.zeros(2, 2), "b.weight": torch.zeros(3), "n.num_batches_tracked": torch.tensor(0)}
    assert drift({"a.weight": torch.ones(2, 2), "b.weight": torch.ones(3)}, agreed) == []
    found = drift({"a.weight": torch.ones(4, 2), "c.weight": torch.ones(3)}, agreed)
    assert [list(reason.numbers) for reason in found] == [["added arrays"], ["missing arrays"], ["reshaped arrays"]]
    assert "(4, 2) instead of (2, 2)" in found[2].sentence


# --- copies and staircases ----------------------------------------------------------------------------------


def test_copies_are_counted_as_a_loop_counts_them():
    weight = torch.randn(40, 30, generator=rng())
    weight[10:20] = weight[3] * (1 + 1e-5)
    slow = [
        any(i != j and (weight[i] - weight[j]).norm() < 1e-3 * weight[i].norm() for j in range(40)) for i in range(40)
    ]
    assert copied(weight) == pytest.approx(sum(slow) / 40)
    assert copied(weight[torch.randperm(40, generator=rng())]) == pytest.approx(sum(slow) / 40)
    assert copied(torch.zeros(40, 30)) == 0


def test_repeated_columns_are_seen_too():
    assert repetition(layer(FRESH)) == []
    column = torch.randn(256, 1, generator=rng())
    (reason,) = repetition(layer(column.expand(256, 64)))
    assert "columns" in reason.sentence


def test_concentration_ignores_order_scale_and_small_noise():
    few = torch.randn(64, 3, generator=rng()) @ torch.randn(3, 256, generator=rng())
    assert concentration(few) == pytest.approx(1)
    disguised = few[torch.randperm(64, generator=rng())] * torch.rand(64, 1, generator=rng()).exp()
    disguised = disguised + 0.1 * disguised.norm(dim=1, keepdim=True) / 16 * torch.randn(64, 256, generator=rng())
    assert concentration(disguised) == pytest.approx(1 / 1.01, abs=0.01)
    assert concentration(FRESH) < by_chance(64, 256) < 0.4


def test_nestedness_is_loevingers_h_of_a_loop():
    fires = (torch.rand(50, 6, generator=rng()) < 0.4).double()
    found = nestedness(fires)
    for i in range(6):
        for j in range(6):
            if i == j:
                continue
            a, b = fires[:, i], fires[:, j]
            cells = [(a * b, a.mean() * b.mean()), (a * (1 - b), a.mean() * (1 - b.mean()))]
            cells += [((1 - a) * b, (1 - a.mean()) * b.mean()), ((1 - a) * (1 - b), (1 - a.mean()) * (1 - b.mean()))]
            assert float(found[i, j]) == pytest.approx(max(1 - float(c.mean() / e) for c, e in cells))


def test_a_chain_of_sets_is_a_staircase_and_independent_sets_are_none():
    values = torch.linspace(0, 1, 40)
    chain = stairs(values[:, None] - torch.linspace(0.05, 0.95, 20))
    assert chain.share == 1
    assert chain.steps == 20
    turned = stairs((values[:, None] - torch.linspace(0.05, 0.95, 20)) * torch.tensor([1.0, -1.0]).repeat(10))
    assert turned.share == 1
    assert stairs(torch.randn(40, 20, generator=rng())).share == 0


def test_bins_are_a_staircase_in_any_disguise_and_parallel_rows_alone_are_none():
    weight, bias = bins()
    order, scales = torch.randperm(64, generator=rng()), torch.rand(64, generator=rng()) + 0.1
    hidden = (weight + 0.1 / 256 * torch.randn(64, 256, generator=rng()))[order] * scales[:, None]
    assert staircase(layer(weight, bias, PIXELS))
    assert staircase(layer(hidden, bias[order] * scales, PIXELS))
    # After Adam on inputs that are never negative: parallel rows, whose biases have moved the same way.
    sign = torch.randn(64, 1, generator=rng()).sign()
    parallel = sign * 0.05 + 0.004 * torch.randn(64, 256, generator=rng())
    assert concentration(parallel) > 0.95
    assert staircase(layer(parallel, 0.05 * sign[:, 0], PIXELS)) == []
    assert staircase(layer(FRESH, None, PIXELS)) == []


# --- firing, traps, tuned biases ----------------------------------------------------------------------------


def test_shut_by_bias_is_refused_and_dead_by_weights_is_noted():
    (shut,) = firing(layer(FRESH, torch.full((64,), -30.0), PIXELS))
    assert shut.severity == "refuse"
    (dead,) = firing(layer(-FRESH.abs() - 0.1, torch.full((64,), -0.1), PIXELS))
    assert dead.severity == "note"
    centred = PIXELS - PIXELS.mean(dim=0)
    assert firing(layer(FRESH, torch.zeros(64), centred)) == []


def test_a_norm_that_shifts_all_channels_out_of_reach_is_refused():
    norm = nn.BatchNorm2d(16)
    assert silence(norm.state_dict()) == []
    with torch.no_grad():
        norm.bias.fill_(-20)
    assert silence({f"bn.{k}": v for k, v in norm.state_dict().items()})[0].layer == "bn"


def test_trap_weights_are_told_from_chance_and_from_a_shift():
    half = torch.randn(64, 128, generator=rng()).abs()
    trap = torch.stack(
        [r[torch.randperm(256, generator=rng(i))] for i, r in enumerate(torch.cat([-half, 0.95 * half], 1))]
    )
    assert [r.check for r in tuned(layer(trap))] == ["trap weights"]
    assert tuned(layer(FRESH)) == []
    assert tuned(layer(FRESH - 0.02)) == []


def test_weights_folded_over_at_zero_are_refused_and_shifted_ones_are_not():
    assert [r.check for r in tuned(layer(-FRESH.abs()))] == ["one-sided weights"]
    assert tuned(layer(FRESH - 1)) == []


def test_biases_tuned_to_pictures_are_refused():
    sums = PIXELS @ FRESH.T
    assert [r.check for r in tuned(layer(FRESH, -torch.quantile(sums, 0.95, dim=0), PIXELS))] == ["tuned biases"]
    drawn = torch.randn(64, generator=rng()) * sums.std()
    assert tuned(layer(FRESH, drawn, PIXELS)) == []


# --- the rest -----------------------------------------------------------------------------------------------


def test_a_classifier_that_fishes_is_refused():
    head, seen = torch.randn(4, 64, generator=rng()) / 8, torch.rand(20, 64, generator=rng())
    assert classifier(layer(head, None, seen, last=True)) == []
    assert classifier(layer(torch.zeros(4, 64), None, seen, last=True)) == []
    one = torch.zeros(4, 64)
    one[1] = head[1]
    assert classifier(layer(one, None, seen, last=True))
    assert classifier(layer(head, torch.tensor([0.0, 1000.0, 1000.0, 1000.0]), seen, last=True))


def test_numbers_that_are_none_and_a_unit_that_drowns_the_others():
    assert numbers({"a": torch.tensor([1.0, torch.nan])})[0].severity == "refuse"
    assert numbers({"a": torch.tensor([1, 2])}) == []
    loud = FRESH.clone()
    loud[3] *= 1e4
    assert scale(layer(loud))
    assert scale(layer(FRESH)) == []


def test_kernels_that_pass_pixels_on():
    conv = nn.Conv2d(1, 8, 3)
    assert passing({"c.weight": conv.weight}) == []
    point = torch.zeros(8, 1, 3, 3)
    point[:, :, 1, 1] = 1
    assert passing({"c.weight": point})


def test_stand_ins_are_images_of_every_brightness_and_repeatable():
    images = stand_ins((3, 20, 20), 64)
    assert torch.equal(images, stand_ins((3, 20, 20), 64))
    assert 0 <= float(images.min()) <= float(images.max()) <= 1
    means = images.mean(dim=(1, 2, 3))
    assert float(means.min()) < 0.1
    assert float(means.max()) > 0.8
    assert next(likely_shapes({"w": torch.zeros(5, 28 * 28)})) == (1, 28, 28)
    assert next(likely_shapes({"conv": torch.zeros(8, 3, 40, 40)})) == (3, 40, 40)


def test_a_trace_sees_functions_as_well_as_modules():
    class Bare(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(7, 64))
            self.fc = nn.Linear(7, 2)

        def forward(self, x):
            return self.fc((x.flatten(1) @ self.w.T).relu())

    network = Bare()
    before = digest(network.state_dict())
    steps = Traced(network).steps((1, 8, 8))
    assert [(s.name, tuple(s.weight.shape), s.reads_map) for s in steps] == [
        ("w", (7, 64), True),
        ("fc.weight", (2, 7), False),
    ]
    images = torch.rand(3, 1, 8, 8, generator=rng())
    assert torch.equal(Traced(network).inputs(images, ["w"])["w"], images.flatten(1))
    assert digest(network.state_dict()) == before
