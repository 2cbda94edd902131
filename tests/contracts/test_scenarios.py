"""Every scenario twice: as it is, and with the private images overwritten once the update is made. Guesses are equal.

A control beside each shows that an attack that looked at the images would be found out.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
import torch
from torch import Tensor

from fluoroscope.attacks import ATTACKS
from fluoroscope.attacks.imprint import MediLeak, Peeling
from fluoroscope.attacks.inference import INFERENCE_ATTACKS
from fluoroscope.audit import participation, reconstruction
from fluoroscope.audit.participation import Participation
from fluoroscope.audit.reconstruction import Reconstruction as ReconstructionCell
from fluoroscope.cells import CellContext
from fluoroscope.data import Request, load
from fluoroscope.defences import NO_DEFENCE
from fluoroscope.federation.plan import parse_plan
from fluoroscope.models import Architecture
from fluoroscope.scenarios import malicious_round, recorded_update
from fluoroscope.scenarios.malicious_round import cast, participants_of
from fluoroscope.types import LocalTraining, PrivateBatch, Reconstruction, Sgd
from tests.contracts.test_attacks import prior, public, quick, recorded

CONTENT = {
    "rounds": 1,
    "data": {"source": "phantom/chest", "size": 28, "images": 120},
    "partition": {"name": "counts", "train": [[6, 6], [2, 8], [1, 0]], "validation": 2, "test": 10, "auxiliary": 8},
    "model": {"name": "small-cnn"},
    "training": {"lr": 0.05, "batch_size": 4},
    "records": {"rounds": [1]},
}


@contextmanager
def destroyed(*batches: PrivateBatch) -> Iterator[None]:
    """Other numbers in the place of these images and labels, in the same memory; in the end they are put back."""
    kept = [(tensor, tensor.clone()) for batch in batches for tensor in (batch.images, batch.labels)]
    for tensor, value in kept:
        tensor.copy_(1 - value)
    try:
        yield
    finally:
        for tensor, value in kept:
            tensor.copy_(value)


class Peeks:
    """An attack that has found a way to the truth."""

    needs = frozenset()

    def __init__(self, truth: PrivateBatch) -> None:
        self.truth = truth

    def run(self, observations, rng, on_iteration=None, checkpoint=None):
        return [Reconstruction(self.truth.images.clone(), None, 0.0) for _ in observations]


def same(these: list[Reconstruction], those: list[Reconstruction]) -> bool:
    pairs = list(zip(these, those, strict=True))
    return all(torch.equal(a.images, b.images) and a.objective == b.objective for a, b in pairs) and bool(pairs)


class TestARecordedUpdate:
    """`fluoroscope attack`, for every attack. In this process, where an attack could look."""

    @pytest.fixture(autouse=True)
    def here(self, monkeypatch):
        monkeypatch.setattr(recorded_update, "run_isolated", lambda attack, *rest: attack.run(*rest))

    def guesses(self, name, attack, record, truth, tmp_path, blind: bool) -> list[Reconstruction]:
        evidence = recorded_update.Evidence(record, truth, prior(), "", public(), NO_DEFENCE)
        where = tmp_path / ("blind" if blind else "seeing")
        with destroyed(*[truth] * blind):
            told = (name, attack, evidence, (), 0, "cpu", where, lambda i, n: None)
            return [recorded_update.attack_record(*told).guess]

    def unchanged(self, name, attack, record, truth, tmp_path) -> bool:
        seeing, blind = (self.guesses(name, attack, record, truth, tmp_path, each) for each in (False, True))
        return same(seeing, blind)

    @pytest.mark.parametrize("name", list(ATTACKS))
    def test_one_image(self, name, tmp_path):
        truth = load("phantom/chest", Request(size=32, images=1, seed=3)).batch
        assert self.unchanged(name, quick(name, 1), recorded(name, truth), truth, tmp_path)

    @pytest.mark.parametrize(("images", "batch_size"), [(4, 4), (4, 2)])
    @pytest.mark.parametrize(
        "name", [pytest.param("epochwise", marks=pytest.mark.slow), "gradinversion", "inverting-gradients", "bn-only"]
    )
    def test_a_batch(self, name, images, batch_size, tmp_path):
        """Coarse grids, unrolled steps and groups."""
        truth = load("phantom/chest", Request(size=32, images=images, seed=3)).batch
        assert self.unchanged(name, quick(name, 1), recorded(name, truth, batch_size), truth, tmp_path)

    def test_who_peeks_is_found_out(self, tmp_path):
        truth = load("phantom/chest", Request(size=32, images=1, seed=3)).batch
        assert not self.unchanged("peeks", Peeks(truth), recorded("dlg", truth), truth, tmp_path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Federations are trained once."""
    return tmp_path_factory.mktemp("audit")


@pytest.fixture
def everybodys(monkeypatch):
    """The images that a cell of an audit has loaded, all of them, and the copies that it has made of its victims'."""
    held: list[PrivateBatch] = []
    for module in (reconstruction, participation):

        def load_task(plan, loaded=module.load_task):
            task = loaded(plan)
            held.append(task.images.batch)
            return task

        monkeypatch.setattr(module, "load_task", load_task)
    subset = PrivateBatch.subset

    def taken(self, indices):
        held.append(subset(self, indices))
        return held[-1]

    monkeypatch.setattr(PrivateBatch, "subset", taken)
    return held


class TestAnAuditsReconstruction:
    def guesses(self, cell, context, everybodys, monkeypatch, blind: bool, attack=None) -> list[Reconstruction]:
        found: list[Reconstruction] = []

        def run(chosen, *rest, **how):
            unique = {batch.images.data_ptr(): batch for batch in everybodys}.values()
            assert len(unique) > 1
            with destroyed(*(unique if blind else ())):
                made = (attack(everybodys) if attack else chosen).run(*rest)
            found.extend(made)
            return made

        everybodys.clear()
        monkeypatch.setattr(reconstruction, "run_isolated", run)
        cell.run(context)
        return found

    @pytest.mark.parametrize("client", ["client-1", "client-3"])
    def test_recorded_clients_and_stand_ins(self, client, folder, everybodys, monkeypatch, tmp_path):
        cell = ReconstructionCell("none", parse_plan(CONTENT).model_dump_json(), "any", client, 1, victims=2)
        monkeypatch.setattr(ReconstructionCell, "attack", property(lambda self: quick("bn-only", 1)))
        seeing, blind = (
            self.guesses(cell, CellContext(0, folder, tmp_path / str(b)), everybodys, monkeypatch, b)
            for b in (False, True)
        )
        assert len(seeing) == (2 if client == "client-3" else 1)
        assert same(seeing, blind)

    def test_what_a_rehearsal_chooses(self, folder, everybodys, monkeypatch, tmp_path):
        """The rehearsal's guesses and those of the attacks that it chose."""
        cell = ReconstructionCell("none", parse_plan(CONTENT).model_dump_json(), "auto", "client-3", 1, victims=2)
        chosen = {name: quick("bn-only", iterations) for name, iterations in (("short", 1), ("longer", 2))}
        monkeypatch.setattr(ReconstructionCell, "attack", property(lambda self: chosen))
        seeing, blind = (
            self.guesses(cell, CellContext(0, folder, tmp_path / str(b)), everybodys, monkeypatch, b)
            for b in (False, True)
        )
        assert len(seeing) > 4, "two attacks in the rehearsal, and two on the two victims"
        assert same(seeing, blind)

    def test_who_peeks_is_found_out(self, folder, everybodys, monkeypatch, tmp_path):
        monkeypatch.setattr(ReconstructionCell, "attack", property(lambda self: quick("bn-only", 1)))
        cell = ReconstructionCell("none", parse_plan(CONTENT).model_dump_json(), "any", "client-1", 1)
        seeing, blind = (
            self.guesses(
                cell,
                CellContext(0, folder, tmp_path),
                everybodys,
                monkeypatch,
                each,
                lambda held: Peeks(min((batch for batch in held if len(batch) > 1), key=len)),
            )
            for each in (False, True)
        )
        assert not same(seeing, blind)


class TestAMaliciousRound:
    def found(self, monkeypatch, decoder, blind: bool) -> tuple[Tensor, Tensor]:
        held = cast(load("phantom/chest", Request(size=28, images=200, seed=0)), 2, 20, 0)
        clients = participants_of(held.clients, lambda n: LocalTraining(Sgd(0.05), n, n))
        observe = malicious_round.observe

        def observe_then(*told):
            seen = observe(*told)
            stack.enter_context(destroyed(*(held.clients if blind else ())))
            return seen

        monkeypatch.setattr(malicious_round, "observe", observe_then)
        with ExitStack() as stack:
            done = malicious_round.malicious_round(
                Architecture("lenet5", 1, 2, 28),
                None,
                clients,
                0,
                held.auxiliary,
                MediLeak(40),
                decoder(held),
                "plain sum",
                0,
            )
        monkeypatch.undo()
        return done.recovered.images, done.recovered.confidence

    def test_what_is_recovered_is_in_the_sum(self, monkeypatch):
        seeing, blind = (self.found(monkeypatch, lambda held: Peeling(), each) for each in (False, True))
        assert len(seeing[0])
        assert all(map(torch.equal, seeing, blind))

    def test_who_peeks_is_found_out(self, monkeypatch):
        def peeks(held):
            def decode(crafted, update):
                found = Peeling()(crafted, update)
                found.images[0] = held.clients[0].images[0]
                return found

            return decode

        seeing, blind = (self.found(monkeypatch, peeks, each) for each in (False, True))
        assert not torch.equal(seeing[0], blind[0])


class TestAGameOfParticipation:
    def scores(self, folder, everybodys, monkeypatch, play, blind: bool) -> list[float]:
        found: list[float] = []

        class Played:
            def run(self, observations, candidates, rng, pool=None):
                unique = {batch.images.data_ptr(): batch for batch in everybodys}.values()
                with destroyed(*(unique if blind else ())):
                    scores = play(observations, candidates, rng)
                found.append(float(scores.mean()))
                return scores

        everybodys.clear()
        monkeypatch.setattr(participation, "INFERENCE_ATTACKS", {"participation": Played()})
        cell = Participation("none", parse_plan(CONTENT).model_dump_json(), "client-1", "client-2", games=2)
        cell.run(CellContext(0, folder, folder))
        return found

    def test_what_is_scored_is_the_model(self, folder, everybodys, monkeypatch):
        play = INFERENCE_ATTACKS.get("participation").run
        seeing, blind = (self.scores(folder, everybodys, monkeypatch, play, each) for each in (False, True))
        assert len(seeing) == 4
        assert len(set(seeing)) > 1
        assert seeing == blind

    def test_who_peeks_is_found_out(self, folder, everybodys, monkeypatch):
        def peeks(observations, candidates, rng):
            return everybodys[0].images.mean()[None, None]

        seeing, blind = (self.scores(folder, everybodys, monkeypatch, peeks, each) for each in (False, True))
        assert seeing != blind
