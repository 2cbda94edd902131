"""Both ways through the door: what passes, in what form, and that the ledger has it."""

import math
import stat

import pytest
import torch
from torch import nn

from fluoroscope.data import Request, load
from fluoroscope.defences import NO_DEFENCE, Participation, chain
from fluoroscope.defences.clip_and_noise import ClipAndNoise
from fluoroscope.defences.guard.digest import digest
from fluoroscope.defences.pruning import Pruning
from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.models import Architecture
from fluoroscope.models.front import Front, FrontedNetwork
from fluoroscope.rng import generator, secret_generator
from fluoroscope.site import examination
from fluoroscope.site.control import SiteControl, Subject
from fluoroscope.site.ledger import Ledger, read_ledger, verify_ledger
from fluoroscope.site.noise_key import noise_key, secret_path
from fluoroscope.site.opening import open_site
from fluoroscope.site.policy import Policy
from fluoroscope.site.reading import Metered, Reading, not_judged
from fluoroscope.types import LocalTraining, Network, PrivateBatch, Sgd

NETWORK = Network.of(nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 26 * 26, 2)), (1, 28, 28))
OWN = PrivateBatch(torch.rand(6, 1, 28, 28, generator=generator(0)), torch.arange(6) % 2, ("anna",) * 6)
TRAINING = LocalTraining(Sgd(0.1), images=1, batch_size=2)
NOISE = chain(ClipAndNoise(1.0, 4.0))
QUIET = Metered((Reading("reconstruction", 0.0, "nothing", "span", 0.7), Reading("label-counts", 0.1, "little")))
LOUD = Metered((Reading("reconstruction", 0.4, "anna at /data", "span", 0.01), Reading("label-counts", 0.1, "little")))


class Meter:
    """In the place of the meter: says what it is told to, and remembers what it was shown."""

    def __init__(self, answer):
        self.answer, self.records, self.given = answer, [], []

    def __call__(self, record, own, **given):
        self.records.append(record)
        self.given.append((own, given))
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.fixture
def metering(monkeypatch):
    def install(answer):
        meter = Meter(answer)
        monkeypatch.setattr(examination, "meter", meter)
        return meter

    return install


@pytest.fixture
def door(tmp_path):
    """A site that knows all; keywords change its subject, `policy` its policy."""

    def make(policy=None, **subject):
        known = {"network": NETWORK, "training": TRAINING, "own": lambda: OWN, "defence": NO_DEFENCE} | subject
        return SiteControl(
            Policy.model_validate(policy or {}), Ledger(tmp_path / "ledger.jsonl"), Subject(**known), tmp_path / "kept"
        )

    return make


def states(step: float = 0.01):
    before = {name: value.clone() for name, value in NETWORK.build().state_dict().items()}
    return before, {name: value + step for name, value in before.items()}


def test_a_quiet_update_leaves_as_it_is(door, metering):
    meter, (before, after) = metering(QUIET), states()
    control = door()
    out = control.release(before, after, run="r", round=1)
    assert out.decision.answer == "send"
    assert all(out.state[name] is after[name] for name in after)
    assert out.metered is QUIET
    (record,), ((own, given),) = meter.records, meter.given
    assert record.training.images == len(own) == 6
    assert given == {"public": None, "defence": None, "seconds": 10.0, "kept": control.kept}
    (entry,) = read_ledger(control.ledger.path)
    assert (entry.direction, entry.decision, entry.round, entry.run) == ("out", "send", 1, "r")
    assert [(m.leak, m.value, m.p_value, m.attack) for m in entry.meter] == [
        ("reconstruction", 0.0, 0.7, "span"),
        ("label-counts", 0.1, None, None),
    ]


def test_a_loud_update_stays_and_its_words_too(door, metering):
    metering(LOUD)
    control = door()
    out = control.release(*states(), run="r", round=1)
    assert (out.decision.answer, out.state) == ("withhold", {})
    text = control.ledger.path.read_text()
    assert "anna" not in text
    assert read_ledger(control.ledger.path)[0].leaving is None


def test_what_could_not_be_judged_follows_the_policy(door, metering):
    metering(not_judged("why"))
    assert not door().release(*states(), run="r", round=1).decision.passes
    assert door({"when_not_judged": "warn"}).release(*states(), run="r", round=2).decision.answer == "warn"


@pytest.mark.parametrize("missing", [{"network": None}, {"training": None}, {"own": None}])
def test_a_site_that_knows_too_little_judges_nothing(missing, door, metering):
    meter = metering(QUIET)
    assert door(**missing).release(*states(), run="r", round=1).decision.answer == "withhold"
    assert door({"when_not_judged": "send"}, **missing).release(*states(), run="r", round=2).decision.passes
    assert not meter.records


@pytest.mark.parametrize("problem", [RuntimeError("/data/anna.png"), BadInput("anna"), MemoryError(), ValueError("x")])
def test_whatever_stops_the_meter_stops_the_update(problem, door, metering):
    metering(problem)
    control = door({"when_not_judged": "send"})
    out = control.release(*states(), run="r", round=1)
    assert (out.decision.answer, out.state) == ("withhold", {})
    (entry,) = read_ledger(control.ledger.path)
    assert entry.reasons == (f"The meter stopped with {type(problem).__name__}, so nothing may pass.",)


def test_who_stops_the_program_may(door, metering):
    for problem in (KeyboardInterrupt(), SystemExit(1)):
        metering(problem)
        with pytest.raises(type(problem)):
            door().release(*states(), run="r", round=1)


def test_updates_that_cannot_be_read_stay(door, metering):
    metering(QUIET)
    control, (before, after) = door({"when_not_judged": "send"}), states()
    odd = [
        {**after, "stowaway": torch.zeros(3)},
        {**after, "0.bias": torch.zeros(9)},
        {**after, "0.bias": torch.full((4,), math.nan)},
        {**after, "0.bias": "anna"},
        {3: torch.zeros(2), "0.bias": torch.zeros(4)},
        None,
    ]
    for number, wrong in enumerate(odd):
        out = control.release(before, wrong, run="r", round=number)
        assert (out.decision.answer, out.state) == ("withhold", {}), number
    assert control.release({}, after, run="r", round=99).decision.answer == "withhold"
    assert len(read_ledger(control.ledger.path)) == len(odd) + 1
    assert "anna" not in control.ledger.path.read_text()


def test_without_a_ledger_nothing_passes(door, metering, tmp_path):
    metering(QUIET)
    (tmp_path / "ledger.jsonl").write_text("not a ledger\n")
    control, (before, after) = door(), states()
    out = control.release(before, after, run="r", round=1)
    assert (out.decision.answer, out.state) == ("withhold", {})
    assert out.decision.reasons == ("The ledger could not be written (BadInput), so nothing may pass.",)
    assert not control.receive(before, run="r", round=1).passes
    (tmp_path / "ledger.jsonl").unlink()
    (tmp_path / "ledger.jsonl").mkdir()
    assert not door().receive(before, run="r", round=1).passes


def test_the_same_update_is_decided_once(door, metering):
    meter, (before, after) = metering(QUIET), states()
    first = door().release(before, after, run="r", round=1)
    meter.answer = LOUD
    again = door().release(before, after, run="r", round=1)
    assert again.decision == first.decision
    assert len(meter.records) == 1
    assert [r.value for r in again.metered.readings] == [0.0, 0.1]
    assert not door().release(before, after, run="r", round=2).decision.passes, "another round is another decision"
    assert not door().release(before, states(0.02)[1], run="r", round=1).decision.passes, "and another update"
    meter.answer = QUIET
    assert not door().release(before, after, run="r", round=2).decision.passes
    assert len(read_ledger(door().ledger.path)) == 3


def test_what_leaves_is_what_was_measured(door, metering):
    meter, (before, after) = metering(QUIET), states()
    out = door(defence=chain(Pruning(0.9))).release(before, after, run="r", round=1)
    assert all(torch.equal(out.state[name], value) for name, value in meter.records[0].state_after.items())
    assert not torch.equal(out.state["3.weight"], after["3.weight"])


def test_a_defence_that_cannot_be_applied_lets_nothing_leave(door, metering):
    metering(QUIET)
    lenient = {"when_not_judged": "send"}
    for number, missing in enumerate(({"network": None}, {"training": None})):
        out = door(lenient, defence=NOISE, **missing).release(*states(), run="r", round=number)
        assert (out.decision.answer, out.state) == ("withhold", {})
        assert out.decision.reasons == ("The defence stopped with Misconfigured, so nothing may pass.",)


def test_half_precision_stays_half(door, metering):
    metering(QUIET)
    before, after = ({name: value.half() for name, value in state.items()} for state in states())
    out = door(defence=NOISE).release(before, after, run="r", round=1)
    assert {value.dtype for value in out.state.values()} == {torch.float16}


def test_a_repeat_has_the_same_noise_and_nothing_else_has(door, metering):
    metering(QUIET)
    before, after = states()
    first, again = (door(defence=NOISE).release(before, after, run="r", round=1).state for _ in range(2))
    other = door(defence=NOISE).release(before, after, run="r", round=2).state
    assert all(torch.equal(first[name], again[name]) for name in after)
    noise = [torch.cat([(state[name] - before[name]).flatten() for name in after]) for state in (first, other)]
    assert abs(float(torch.corrcoef(torch.stack(noise))[0, 1])) < 0.1
    assert noise[0].std() == pytest.approx(4.0, rel=0.05)


def test_who_was_stopped_before_the_answer_gets_it_the_next_time(door, metering, monkeypatch):
    """Stopped when the line is written and nothing has left: the next process sends what was decided, once."""
    meter, (before, after) = metering(QUIET), states()
    written = Ledger._write

    def stopped(self, *given):
        written(self, *given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "_write", stopped)
        with pytest.raises(KeyboardInterrupt):
            door(defence=NOISE).release(before, after, run="r", round=1)
    out = door(defence=NOISE).release(before, after, run="r", round=1)
    assert out.decision.passes
    assert len(meter.records) == 1
    (entry,) = read_ledger(door().ledger.path)
    assert entry.leaving == digest(out.state)
    measured = meter.records[0].state_after
    assert all(torch.equal(out.state[name], measured[name]) for name in after)


def test_a_repeat_with_another_defence_or_secret_does_not_leave(door, metering, tmp_path):
    metering(QUIET)
    before, after = states()
    assert door(defence=NOISE).release(before, after, run="r", round=1).decision.passes
    for _ in range(2):
        out = door().release(before, after, run="r", round=1)
        assert (out.decision.answer, out.state) == ("withhold", {})
    secret_path(tmp_path / "ledger.jsonl").unlink()
    assert not door(defence=NOISE).release(before, after, run="r", round=1).decision.passes
    assert [e.decision for e in read_ledger(tmp_path / "ledger.jsonl")] == ["send", "withhold", "withhold"]


def test_epsilon_is_of_all_releases_and_the_budget_ends_them(door, metering):
    meter, spent = metering(QUIET), [NOISE.claim(Participation(TRAINING, n)).epsilon for n in (1, 2, 3)]
    control = door({"privacy": {"epsilon": (spent[1] + spent[2]) / 2}, "limits": {"warn_at": 1.0}}, defence=NOISE)
    before, after = states()
    assert control.release(before, after, run="a", round=1).decision.passes
    meter.answer = LOUD
    assert not control.release(before, after, run="a", round=2).decision.passes, "what is withheld spends nothing"
    meter.answer = QUIET
    assert control.release(before, after, run="a", round=1).decision.passes, "nor does a repeat"
    assert control.release(before, after, run="b", round=1).decision.passes
    last = control.release(before, after, run="c", round=1)
    assert (last.decision.answer, last.state) == ("withhold", {}), "a new run's name buys no new budget"
    found = [e.epsilon for e in read_ledger(control.ledger.path)]
    assert found == pytest.approx([spent[0], spent[0], spent[1], spent[1]])


def test_epsilon_goes_on_when_the_noise_changes(door, metering):
    """Two kinds of noise are counted together: at least as dear as the weaker once, at most as it twice."""
    metering(QUIET)
    before, after = states()
    weak = chain(ClipAndNoise(1.0, 3.0))
    door(defence=NOISE).release(before, after, run="a", round=1)
    door(defence=weak).release(before, after, run="a", round=2)
    found = read_ledger(door().ledger.path)[-1].epsilon
    assert weak.claim(Participation(TRAINING, 1)).epsilon < found < weak.claim(Participation(TRAINING, 2)).epsilon


def test_an_update_that_left_without_a_claim_has_no_bound(door, metering):
    metering(QUIET)
    before, after = states()
    assert door().release(before, after, run="a", round=1).decision.passes
    budget = {"privacy": {"epsilon": 1e6}}
    assert not door(budget, defence=NOISE).release(before, after, run="a", round=2).decision.passes
    assert not door(budget).release(before, after, run="a", round=3).decision.passes


def test_a_smaller_delta_than_the_defences_costs_more(door, metering):
    metering(QUIET)
    before, after = states()
    door({"privacy": {"delta": 1e-9}}, defence=NOISE).release(before, after, run="a", round=1)
    (entry,) = read_ledger(door().ledger.path)
    assert entry.epsilon == pytest.approx(ClipAndNoise(1.0, 4.0, 1e-9).claim(Participation(TRAINING, 1)).epsilon)


def test_honest_models_come_in_and_crafted_ones_do_not(door, tmp_path):
    honest = Architecture("small-cnn", 1, 2, 28)
    control = door(network=honest)
    state = honest.build().state_dict()
    assert control.receive(state, run="r", round=1).answer == "send"
    assert control.receive(state, run="r", round=1).answer == "send"
    crafted = FrontedNetwork(honest, Front(30)).build().state_dict()
    assert control.receive(crafted, run="r", round=2).answer == "withhold"
    found = read_ledger(tmp_path / "ledger.jsonl")
    assert [(e.direction, e.decision, e.guard.refused, e.guard.ran) for e in found] == [
        ("in", "send", False, True),
        ("in", "withhold", True, False),
    ]
    assert "drift" in found[1].guard.checks


def test_models_that_cannot_be_judged_do_not_come_in(door, monkeypatch):
    state = states()[0]
    assert door(network=None).receive(state, run="r", round=1).answer == "withhold"
    assert door().receive({"a": "anna"}, run="r", round=2).answer == "withhold"
    assert door().receive(None, run="r", round=3).answer == "withhold"

    def lost():
        raise BadInput("/data/anna is gone")

    control = door(own=lost)
    assert control.receive(state, run="/a/path", round=4).answer == "withhold"
    found = read_ledger(control.ledger.path)
    assert len(found) == 4
    assert found[-1].reasons == ("The guard stopped with BadInput, so nothing may pass.",)
    assert "anna" not in control.ledger.path.read_text()
    assert "/a/path" not in control.ledger.path.read_text()


def test_the_secret_is_the_sites_alone(tmp_path):
    ledger = tmp_path / "ledger.jsonl"
    key = noise_key(ledger, "a")
    assert key == noise_key(ledger, "a") != noise_key(ledger, "b")
    secret = secret_path(ledger)
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [secret.name]
    secret.chmod(0o644)
    with pytest.raises(Misconfigured, match="chmod 600"):
        noise_key(ledger, "a")
    secret.chmod(0o600)
    secret.write_bytes(b"short")
    with pytest.raises(BadInput, match="32 bytes"):
        noise_key(ledger, "a")


def test_a_secret_fills_the_whole_generator():
    """A seed does not: torch uses 32 bits of it."""
    seeds = [torch.Generator().manual_seed(seed) for seed in (7, 7 + 2**40)]
    assert torch.equal(*(torch.randn(100, generator=each) for each in seeds))
    keys = [b"k" * 32, b"k" * 31 + b"l"]
    drawn = [torch.randn(100_000, generator=secret_generator(key)) for key in keys]
    assert torch.equal(drawn[0], torch.randn(100_000, generator=secret_generator(keys[0])))
    assert abs(float(torch.corrcoef(torch.stack(drawn))[0, 1])) < 0.02
    assert abs(float(drawn[0].mean())) < 0.02
    assert float(drawn[0].std()) == pytest.approx(1, abs=0.02)


FILE = """
[site]
images = "phantom/chest"
size = 28
[model]
name = "lenet5"
[training]
lr = 0.1
"""


def test_a_file_opens_the_door(tmp_path, metering):
    meter = metering(QUIET)
    file = tmp_path / "appetite.toml"
    file.write_text(FILE + "[[defence]]\nname = 'clip-and-noise'\nclip_norm = 1.0\nnoise_multiplier = 0.5\n")
    control = open_site(file)
    before = control.subject.network.build().state_dict()
    assert control.receive(before, run="r", round=1).passes
    assert control.release(before, {n: v + 1 for n, v in before.items()}, run="r", round=1).decision.passes
    assert meter.records[0].training.images == len(control.subject.own())
    assert len(verify_ledger(tmp_path / "ledger.jsonl").entries) == 2
    assert open_site(file, tmp_path / "other.jsonl").ledger.path.name == "other.jsonl"


def test_the_federations_classes_may_be_more_than_the_sites(tmp_path):
    file = tmp_path / "appetite.toml"
    plain = open_site(_written(file, FILE)).subject
    more = ["effusion", *reversed(load("phantom/chest", Request(28)).classes)]
    ordered = open_site(_written(file, FILE.replace("size = 28", f"size = 28\nclasses = {more}"))).subject
    assert (plain.network.outputs, ordered.network.outputs) == (2, 3)
    assert torch.equal(ordered.own().labels, 2 - plain.own().labels)


def test_images_may_be_turned_as_the_application_turns_them(tmp_path):
    file, both = tmp_path / "appetite.toml", FILE.replace("size = 28", 'size = 28\npublic = "phantom/chest"')
    plain = open_site(_written(file, both)).subject
    turned = open_site(_written(file, both.replace("size = 28", "size = 28\ntransposed = true"))).subject
    assert torch.equal(turned.own().images, plain.own().images.transpose(2, 3))
    assert torch.equal(turned.public().images, plain.public().images.transpose(2, 3))


def test_a_site_without_images_can_still_inspect_models(tmp_path):
    text = FILE.replace('images = "phantom/chest"', "classes = ['normal', 'opacity']")
    control = open_site(_written(tmp_path / "appetite.toml", text))
    before = control.subject.network.build().state_dict()
    assert control.receive(before, run="r", round=1).answer == "send"
    assert control.release(before, before, run="r", round=1).decision.answer == "withhold"


def test_public_images_count_in_the_same_classes(tmp_path):
    both = FILE.replace("size = 28", 'size = 28\npublic = "phantom/chest"')
    file, found = tmp_path / "appetite.toml", load("phantom/chest", Request(28)).classes
    plain = open_site(_written(file, both)).subject.public()
    turned = both.replace("size = 28", f"size = 28\nclasses = {list(reversed(found))}")
    assert torch.equal(open_site(_written(file, turned)).subject.public().labels, 1 - plain.labels)


def _written(file, text):
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("lr = 0.1", "lr = 0.1\n[[defence]]\nname = 'dp-sgd'\nclip_norm = 1.0\nnoise_multiplier = 1.0"), "dp-sgd"),
        (("lr = 0.1", "lr = 0.1\n[[defence]]\nname = 'fed-bn'"), "no BatchNorm"),
        (("lr = 0.1", "lr = 0.1\nlr_decay = 0.5\nlr_decay_every = 2"), "lr_decay"),
        (("lr = 0.1", "lr = 0.1\nfrozen = ['nothing.*']"), "nothing"),
        (("size = 28", "size = 28\nclasses = ['cat', 'dog']"), "none of cat, dog"),
        (('images = "phantom/chest"\nsize = 28', ""), "site.size"),
        (("lenet5", "lenet6"), "lenet5"),
    ],
)
def test_what_cannot_work_is_said_when_the_door_is_opened(change, said, tmp_path):
    with pytest.raises((BadInput, Misconfigured), match=said):
        open_site(_written(tmp_path / "appetite.toml", FILE.replace(*change)))
