"""Plans: what is wrong is named by its key."""

import pytest

from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.federation.plan import parse_plan, read_plan


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
