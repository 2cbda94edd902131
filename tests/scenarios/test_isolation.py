"""An attack in a process of its own: it finds no truth there, gives the guesses that it gave here, and may die."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from fluoroscope.attacks import ATTACKS
from fluoroscope.attacks.common.checkpoint import Checkpoint
from fluoroscope.attacks.common.engine import Budget
from fluoroscope.audit import reconstruction
from fluoroscope.audit.reconstruction import Reconstruction
from fluoroscope.cells import CellContext
from fluoroscope.data import Request, load
from fluoroscope.errors import BadInput, Misconfigured, Unsupported
from fluoroscope.federation.client_round import client_round
from fluoroscope.federation.plan import parse_plan
from fluoroscope.federation.run import federate
from fluoroscope.models import Architecture
from fluoroscope.scenarios import isolated_process, recorded_update
from fluoroscope.scenarios.isolation import AttackDied, run_isolated
from fluoroscope.threat_models import THREATS, observe
from fluoroscope.types import LocalTraining, Network, Sgd
from tests.cells.test_engine import alive, wait_for
from tests.data.pictures import save
from tests.scenarios.dishonest import Ends, OwnNetwork, OwnProblem, Thief, fingerprint

ROOT = Path(__file__).parents[2]
CONTENT = {
    "rounds": 1,
    "partition": {"name": "counts", "train": [[6, 6], [1, 0]], "validation": 2, "test": 10, "auxiliary": 8},
    "model": {"name": "small-cnn"},
    "training": {"lr": 0.05, "batch_size": 4},
    "records": {"rounds": [1]},
}


def rng() -> torch.Generator:
    return torch.Generator().manual_seed(5)


def observed(network: Network):
    images = load("phantom/chest", Request(size=32, images=1, seed=1)).batch
    state = network.build().state_dict()
    training = LocalTraining(Sgd(0.05), 1, 1)
    return observe(client_round(network, state, images, training, rng()).record, THREATS.get("curious-server"))


@pytest.fixture(scope="module")
def hospital(tmp_path_factory) -> Path:
    """A folder of pictures, and a run beside it."""
    folder = tmp_path_factory.mktemp("hospital")
    made = load("phantom/chest", Request(size=28, images=60, seed=2)).batch
    for i, (image, label) in enumerate(zip(made.images, made.labels, strict=True)):
        save(folder / "pictures" / ("normal", "sick")[int(label)] / f"{i}.png", (image[0] * 255).byte().numpy())
    return folder


def plan_of(hospital: Path):
    return parse_plan({**CONTENT, "data": {"source": f"folder:{hospital}/pictures", "size": 28}})


def stolen(told: dict, truth: torch.Tensor, hospital: Path) -> set[str]:
    """What of the truth is in a thief's report."""
    files = [path for path in hospital.rglob("*") if path.is_file() and path.stat().st_size]
    secret = {hashlib.sha256(path.read_bytes()).hexdigest(): path.name for path in files}
    found = {secret[digest] for digest in told["digests"] if digest in secret}
    found |= {"an image in memory" for image in truth if fingerprint(image) in told["images"]}
    return found | ({"a private batch"} if told["batches"] else set())


def check_that_nothing_was_found(told: dict, truth: torch.Tensor, hospital: Path) -> None:
    assert told["read"], "it did look"
    assert not stolen(told, truth, hospital)
    assert told["mode"] == "0o700"
    assert set(told["own files"]) <= {"observations.pickle"}
    assert told["argv"] == ["-c"]
    assert not [path for path in told["paths"] if Path(path).is_relative_to(hospital.parent)]
    assert not [path for path in told["paths"] if hospital.is_relative_to(path) and len(Path(path).parts) > 2]
    assert "FLUOROSCOPE_SECRET" not in told["environment"]
    assert not Path(told["cwd"]).exists(), "it is cleaned up"


class TestTheTruthIsElsewhere:
    @pytest.mark.slow
    def test_a_thief_among_the_attacks_of_a_recorded_update(self, hospital, monkeypatch):
        run = hospital / "run"
        federate(plan_of(hospital), run)
        monkeypatch.chdir(hospital)
        monkeypatch.setattr(sys, "argv", ["fluoroscope", "attack", str(run)])
        monkeypatch.setenv("FLUOROSCOPE_SECRET", str(hospital))
        evidence = recorded_update.gather(run, 1, "client-2")
        told = ("thief", Thief(), evidence, (), 0, "cpu", run / "attacks/thief/checkpoint", lambda i, n: None)
        attacked = recorded_update.attack_record(*told)
        check_that_nothing_was_found(json.loads(attacked.guess.nothing), evidence.truth.images, hospital)

        # The same thief, where attacks used to run: the report would show it.
        monkeypatch.setattr(recorded_update, "run_isolated", lambda attack, *rest: attack.run(*rest))
        here = json.loads(recorded_update.attack_record(*told).guess.nothing)
        assert {"an image in memory", "a private batch", "run.json", "0.png"} <= stolen(
            here, evidence.truth.images, hospital
        )

    def test_a_thief_among_the_attacks_of_an_audit(self, hospital, monkeypatch):
        guesses, truths = [], []
        stand_in = reconstruction.stand_in_round

        def isolated(*everything):
            guesses.extend(run_isolated(*everything))
            return guesses

        monkeypatch.setattr(Reconstruction, "attack", property(lambda self: Thief()))
        monkeypatch.setattr(reconstruction, "run_isolated", isolated)
        monkeypatch.setattr(
            reconstruction,
            "stand_in_round",
            lambda task, state, number, victims, *rest: (
                truths.append(victims.images) or stand_in(task, state, number, victims, *rest)
            ),
        )
        cell = Reconstruction("none", plan_of(hospital).model_dump_json(), "thief", "client-2", 1, victims=2)
        cell.run(CellContext(0, hospital / "audit", hospital / "audit/checkpoints/0"))
        assert len(guesses) == len(truths) == 2
        check_that_nothing_was_found(json.loads(guesses[0].nothing), torch.cat(truths), hospital)

    def test_a_part_of_a_tensor_does_not_bring_the_whole_along(self, tmp_path):
        seen = observed(Network.of(OwnNetwork(), (1, 32, 32)))
        whole = torch.full((1000, 1, 32, 32), 0.7071)
        part = replace(seen, public_mean=whole[3])
        isolated_process.write_task(
            isolated_process.Task(Thief(), [part], rng().get_state(), 1, None), tmp_path / "task"
        )
        assert (tmp_path / "task").stat().st_size < whole.nbytes / 4
        assert torch.equal(isolated_process._read(tmp_path / "task").observations[0].public_mean, whole[3])


class TestTheSameGuesses:
    @pytest.mark.parametrize(
        "network",
        [
            Architecture("lenet5", 1, 2, 32, weights="start.pt"),
            pytest.param(Network.of(OwnNetwork(), (1, 32, 32)), marks=pytest.mark.slow),
        ],
        ids=lambda network: network.name,
    )
    def test_as_in_this_process(self, network, tmp_path, monkeypatch):
        """Also where weights are named by a path that begins in our working directory."""
        monkeypatch.chdir(tmp_path)
        torch.save(Architecture("lenet5", 1, 2, 32).build().state_dict(), "start.pt")
        attack = replace(ATTACKS.get("inverting-gradients"), budget=Budget(4), restarts=2, snapshots=2)
        seen = [observed(network), replace(observed(network), round=2)]
        here, told = attack.run(seen, rng()), []
        there = run_isolated(attack, seen, rng(), lambda i, n: told.append((i, n)), Checkpoint(tmp_path / "kept"))
        for one, two in zip(here, there, strict=True):
            assert torch.equal(one.images, two.images)
            assert torch.equal(one.start, two.start)
            assert torch.equal(one.labels, two.labels)
            assert (one.objective, one.restarts, one.diverged) == (two.objective, two.restarts, two.diverged)
            assert torch.equal(torch.tensor(one.trace), torch.tensor(two.trace))
            assert list(one.snapshots) == list(two.snapshots) == [2, 4]
            assert all(torch.equal(one.snapshots[i], two.snapshots[i]) for i in (2, 4))
        assert told == [(i, 4) for i in range(4)]
        assert [path.name for path in (tmp_path / "kept").iterdir()] == ["descent-0000.safetensors"]


class TestHowItEnds:
    @pytest.mark.parametrize(
        ("how", "kind", "sentence"),
        [
            ("killed", AttackDied, "the process of ends was killed before it gave a guess, perhaps for want of memory"),
            pytest.param("exit", AttackDied, "the process of ends ended with exit code 7 be", marks=pytest.mark.slow),
            ("unsupported", Unsupported, "two steps are too many."),
        ],
    )
    def test_in_one_sentence(self, how, kind, sentence, tmp_path, capfd):
        seen, told = observed(Network.of(OwnNetwork(), (1, 32, 32))), []
        with pytest.raises(kind) as problem:
            run_isolated(Ends(how), [seen], rng(), lambda i, n: told.append((i, n)), Checkpoint(tmp_path / "kept"))
        assert str(problem.value).startswith(sentence)
        assert told == [(0, 9)]
        assert "what an attack prints" not in capfd.readouterr().out
        if kind is Unsupported:
            assert "dishonest.py" in problem.value.__notes__[0], "for --debug"

    @pytest.mark.parametrize(
        ("problem", "kind", "sentence"),
        [
            (OwnProblem("of a plug-in"), Unsupported, "of a plug-in"),
            (Unsupported("It cannot.", "Another can."), Unsupported, "It cannot. Another can."),
            (ValueError("no such value"), ValueError, "no such value"),
            (OSError(28, "No space left on device"), OSError, "[Errno 28] No space left on device"),
            (ExceptionGroup("some", [ValueError()]), RuntimeError, "ExceptionGroup: some (1 sub-exception)"),
            (BadInput("/private/kept/descent-0000 is damaged."), BadInput, "/run/kept/descent-0000 is damaged."),
        ],
    )
    def test_a_problem_comes_back_as_what_it_was(self, problem, kind, sentence):
        sent = json.loads(json.dumps(isolated_process._raised(problem)))
        found = isolated_process.read_problem(sent, lambda text: text.replace("/private", "/run"))
        assert type(found) is kind
        assert str(found) == sentence
        assert getattr(found, "why", None) == getattr(problem, "why", None)

    @pytest.mark.parametrize("name", ["exec", "eval", "SystemExit", "__import__"])
    def test_a_name_from_the_process_calls_nothing_but_an_exception(self, name):
        sent = {"types": [name], "arguments": ["raise KeyboardInterrupt"], "traceback": ""}
        assert type(isolated_process.read_problem(sent, str)) is RuntimeError

    def test_what_cannot_be_sent_is_named(self):
        class Local(nn.Flatten):
            pass

        network = Network.of(nn.Sequential(Local(), nn.Linear(1024, 2)), (1, 32, 32))
        with pytest.raises(Unsupported, match=r"cannot be sent there .*Local.*: define the classes"):
            run_isolated(Ends("exit"), [observed(network)], rng())

    def test_what_cannot_be_imported_is_named(self, tmp_path, monkeypatch):
        (tmp_path / "gone_later.py").write_text("from tests.scenarios.dishonest import Ends\nclass Mine(Ends): pass\n")
        monkeypatch.syspath_prepend(tmp_path)
        import gone_later

        monkeypatch.undo()
        with pytest.raises(Misconfigured, match=r"cannot import what it was sent .*gone_later.*PYTHONPATH"):
            run_isolated(gone_later.Mine("exit"), [observed(Network.of(OwnNetwork(), (1, 32, 32)))], rng())


PROGRAM = """
import sys
from pathlib import Path
from fluoroscope.attacks.common.checkpoint import Checkpoint
from fluoroscope.scenarios.isolation import run_isolated
from fluoroscope.types import Network
from tests.scenarios.dishonest import Ends, OwnNetwork
from tests.scenarios.test_isolation import observed, rng
seen = observed(Network.of(OwnNetwork(), (1, 32, 32)))
run_isolated(Ends("waits"), [seen], rng(), checkpoint=Checkpoint(Path(sys.argv[1])))
"""


def test_it_ends_with_a_killed_parent_and_the_checkpoint_stays(tmp_path):
    kept, temporary = tmp_path / "kept/deep/descent-0000.safetensors", tmp_path / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    program = subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path / "kept")], env=environment)
    try:
        wait_for(kept.exists)
        (private,) = temporary.iterdir()
        child = int(kept.read_text())
        assert alive(child)
    finally:
        program.send_signal(signal.SIGKILL)
        program.wait()
    wait_for(lambda: not alive(child) and not private.exists())
    assert kept.exists()
