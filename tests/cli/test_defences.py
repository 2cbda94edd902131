"""`fluoroscope defences`: counts epsilon, and prints other people's filters as tables of a plan."""

import json
import tomllib

import pytest

from fluoroscope.defences import DEFENCES
from tests.cli.test_cli import fluoroscope


def test_the_list_has_every_defence_with_its_settings(tmp_path):
    done = fluoroscope("defences", "list", "--json", cwd=tmp_path)
    rows = {row["defence"]: row["settings"] for row in json.loads(done.stdout)["defences"]}
    assert set(rows) == set(DEFENCES)
    assert "noise_var=0.1" in rows["svt-privacy"]
    assert "svt-privacy" in fluoroscope("defences", "list", cwd=tmp_path).stdout


def test_a_claim_is_counted_for_one_round_and_for_all(tmp_path):
    asked = ("svt-privacy", "local-dp:clip_norm=1,sensitivity=2,epsilon=0.5", "percentile-privacy")
    done = fluoroscope("defences", "claim", *asked, "--weights", 7_000_000, "--json", cwd=tmp_path)
    svt, local, percentile = json.loads(done.stdout)["claims"]
    assert svt["one"]["epsilon"] == pytest.approx(3836, rel=0.01)
    assert "70001 with a delta of 0" in svt["one"]["statement"]
    assert 0 < local["one"]["epsilon"] < 0.5 < local["all"]["epsilon"]
    assert percentile["all"]["epsilon"] is None
    shown = fluoroscope("defences", "claim", *asked, "--weights", 7_000_000, cwd=tmp_path).stdout
    assert "3,836" in shown
    assert "not differential privacy: nothing is random." in shown


def test_a_privacy_json_becomes_tables(tmp_path):
    filters = [{"name": "SVTPrivacy", "args": {"fraction": 0.1, "epsilon": 0.2}}]
    content = {"scopes": [{"name": "a", "task_result_filters": filters}], "default_scope": "a"}
    (tmp_path / "privacy.json").write_text(json.dumps(content))
    done = fluoroscope("defences", "import", "privacy.json", cwd=tmp_path)
    assert tomllib.loads(done.stdout) == {"defence": [{"name": "svt-privacy", "epsilon": 0.2}]}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("claim", "svt"), "no 'svt'"),
        (("claim", "local-dp"), "needs the setting 'clip_norm'"),
        (("import", "none.json"), "none.json cannot be read"),
    ],
)
def test_what_is_wrong_is_one_sentence(arguments, words, tmp_path):
    done = fluoroscope("defences", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert not done.stdout
