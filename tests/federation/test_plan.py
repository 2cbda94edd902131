"""Plans: what is wrong is named by its key."""

import os

import pytest

from fluoroscope.errors import BadInput, FluoroscopeError, Misconfigured
from fluoroscope.federation.plan import parse_plan, read_plan
from fluoroscope.federation.task import load_task


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"training": {"lr": -1}}, r"training\.lr: .*greater than 0, not -1"),
        ({"training": {"learning_rate": 1}}, r"no key 'training\.learning_rate'"),
        ({"trainning": {}}, r"no key 'trainning'; did you mean 'training'\?$"),
        ({"rounds": 0}, r"rounds: .*greater than or equal to 1, not 0"),
        ({"rounds": "many"}, r"rounds: .*integer.*'many'"),
        ({"data": {"size": 8}}, r"data\.size: .*28, not 8"),
        (
            {"training": {"optimiser": "lion"}},
            r"training\.optimiser: .*'sgd', 'adam', 'adamw' or 'gradient', not 'lion'",
        ),
        ({"training": {"lr": float("inf")}}, r"training\.lr: .*finite"),
        ({"training": {"lr_decay": 0.1}}, "lr_decay needs lr_decay_every"),
        ({"records": {"rounds": [0]}}, r"records\.rounds"),
        ({"records": {"rounds": [7]}, "rounds": 2}, r"records\.rounds has none of the 2 rounds"),
        ({"records": {"clients": []}}, r"records\.clients"),
        ({"data": {"source": ""}}, r"data\.source"),
        ({"training": {"optimiser": "adam", "momentum": 0.9}}, "momentum and nesterov belong to sgd"),
        ({"strategy": {"fraction": 0}}, r"strategy\.fraction"),
        ({"records": {"rounds": "some"}}, r"records\.rounds"),
        ({"model": 3}, r"model: write a table, \{ name = \.\.\., .* \}, not 3"),
        (
            {"training": {"normalisation": [0.5, 0.5]}},
            r"training\.normalisation: write a table, \{ mean = \.\.\., std = \.\.\. \}, not \[0\.5, 0\.5\]",
        ),
        (
            {"training": {"normalisation": {"mean": 0.5, "std": [1]}}},
            r"training\.normalisation\.mean: write a list, \[\.\.\.\], not 0\.5",
        ),
    ],
)
def test_errors_name_the_key(content, message):
    with pytest.raises(Misconfigured, match=message):
        parse_plan(content)


def test_an_empty_plan_is_a_plan():
    assert parse_plan({}).rounds >= 1


def test_paths_are_relative_to_the_file(tmp_path, monkeypatch):
    (tmp_path / "images").mkdir()
    (tmp_path / "weights.pt").touch()
    text = '[data]\nsource = "folder:images"\n[model]\nname = "resnet18"\nweights = "weights.pt"\n'
    (tmp_path / "plan.toml").write_text(text)
    monkeypatch.chdir("/")
    plan = read_plan(tmp_path / "plan.toml")
    assert plan.data.source == f"folder:{(tmp_path / 'images').resolve()}"
    assert plan.model.weights == str((tmp_path / "weights.pt").resolve())


def test_files_that_are_no_plan(tmp_path):
    with pytest.raises(BadInput, match=r"cannot read the plan .*nowhere\.toml"):
        read_plan(tmp_path / "nowhere.toml")
    (tmp_path / "bad.toml").write_text("rounds = = 3")
    with pytest.raises(BadInput, match=r"bad\.toml is not valid TOML.*line 1"):
        read_plan(tmp_path / "bad.toml")


def test_the_fingerprint_knows_what_decides_a_round():
    base = parse_plan({})
    assert base.fingerprint == parse_plan({"rounds": 9}).fingerprint
    assert base.fingerprint != parse_plan({"training": {"lr": 0.5}}).fingerprint
    assert base.fingerprint != parse_plan({"partition": {"clients": 2}}).fingerprint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("seed = " + "9" * 5000, "is not valid TOML: .*4300 digits"),
        ("x = " + "[" * 5000 + "]" * 5000, "too deeply; at most 16 levels"),
        ("x = " + "[" * 20 + "]" * 20, "nested deeper than 16 levels"),
        ("rounds = 1180591620717411303424", "rounds: at most 1e.12 is possible, not a number of 22 digits"),
        ("rounds = 1000000", "rounds: .*less than or equal to 100000"),
        ("seed = 9223372036854775808", "seed: at most"),
        ("[training]\nlr = 1e300", "training.lr: at most 1e.12 is possible, not 1e.300"),
        ("[partition]\nsigma0 = -1e308", "partition.sigma0: at most 1e.12"),
        ('[data]\nsource = "folder:a\\u0000b"', "data.source holds the character NUL"),
        ("x = " + "1" * 2**20, "at most 1,048,576"),
    ],
)
def test_what_no_plan_needs_is_refused_with_its_limit(tmp_path, text, message):
    (tmp_path / "plan.toml").write_text(text)
    with pytest.raises(FluoroscopeError, match=message):
        read_plan(tmp_path / "plan.toml")


def test_a_byte_order_mark_is_no_harm(tmp_path):
    (tmp_path / "plan.toml").write_bytes(b"\xef\xbb\xbfrounds = 3\n")
    assert read_plan(tmp_path / "plan.toml").rounds == 3


@pytest.mark.parametrize("name", ["a\0b.toml", "pipe.toml"])
def test_what_is_no_file_is_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(BadInput, match=r"cannot read the plan|is no file"):
        read_plan(tmp_path / name)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"partition": {"name": "iid", "clients": 10**9}}, "at most 10,000 clients are simulated, not 1,000,000,000"),
        ({"data": {"source": "phantom/chest", "images": 10**11}}, "images must be .* at most 10,000,000"),
        ({"data": {"source": "phantom/chest", "images": 10**7, "size": 256}}, "take 2441 GB; at most 8 GB are made"),
        ({"strategy": {"name": "fedprox", "proximal_mu": -5}}, "proximal_mu must be between 0 and 1e.12, not -5"),
        ({"strategy": {"name": "fedadam", "tau": 1e308}}, "tau: at most 1e.12"),
    ],
)
def test_plans_that_would_take_all_memory_are_refused_with_the_limit(changes, message):
    def whole():
        task = load_task(parse_plan({"data": {"source": "phantom/chest", "images": 40, "size": 28}, **changes}))
        task.round_config(1)

    with pytest.raises(FluoroscopeError, match=message):
        whole()
