"""`fluoroscope policy` and `fluoroscope ledger` as a site's engineer types them."""

import json

import pytest

from fluoroscope.site.ledger import Ledger
from tests.cli.test_cli import fluoroscope
from tests.site.test_ledger import clock, entry

POLICY = """
[site]
images = "phantom/chest"
size = 28
public = "phantom/chest"
[model]
name = "lenet5"
[training]
lr = 0.1
"""


@pytest.fixture
def ledger(tmp_path):
    held = Ledger(tmp_path / "ledger.jsonl", clock)
    for number in range(1, 5):
        held.append(entry(number, decision="warn", reasons=("reconstruction could not be judged.",)))
    return held.path


def test_a_new_policy_is_written_once_and_passes_its_check(tmp_path):
    assert fluoroscope("policy", "init", cwd=tmp_path).returncode == 0
    written = (tmp_path / "appetite.toml").read_text()
    again = fluoroscope("policy", "init", cwd=tmp_path)
    assert again.returncode == 2
    assert "is there already" in again.stderr
    assert (tmp_path / "appetite.toml").read_text() == written
    checked = fluoroscope("policy", "check", cwd=tmp_path)
    assert checked.returncode == 0
    assert "every update is withheld" in checked.stdout
    assert not (tmp_path / "ledger.jsonl").exists(), "a check decides nothing"


def test_check_loads_what_the_policy_names(tmp_path):
    (tmp_path / "appetite.toml").write_text(POLICY)
    done = fluoroscope("policy", "check", "appetite.toml", "--json", cwd=tmp_path)
    said = json.loads(done.stdout)
    assert said["known"] == [
        "images: 1000 of 1 x 28 x 28, of 664 patients.",
        "model: lenet5, 8714 parameters, 2 outputs.",
        "training: Sgd(lr=0.1, momentum=0.0, weight_decay=0.0, nesterov=False), 1000 images per epoch, 125 steps of 8 "
        "images at most, CrossEntropy(class_weights=None, label_smoothing=0.0), pixels in [0, 1].",
        "public images: 500.",
    ]
    assert said["gaps"] == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("phantom/chest", "folder:nowhere"), "nowhere"),
        (("public =", "publik ="), "did you mean 'public'"),
        (("lenet5", "lenet55"), "did you mean 'lenet5'"),
        (('public = "phantom/chest"', 'public = "folder:nowhere"'), "nowhere"),
        (("lr = 0.1", "lr = -1"), "training.lr"),
        (("lr = 0.1", "normalisation = [0.5, 0.5]"), "write a table, { mean = ..., std = ... }"),
    ],
)
def test_what_is_wrong_with_a_policy_is_one_sentence(change, said, tmp_path):
    (tmp_path / "appetite.toml").write_text(POLICY.replace(*change))
    done = fluoroscope("policy", "check", "appetite.toml", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_whole_ledger_prints_its_head(ledger):
    done = fluoroscope("ledger", "verify", ledger, "--json", cwd=ledger.parent)
    said = json.loads(done.stdout)
    assert (done.returncode, said["lines"], said["broken"], said["interrupted"]) == (0, 4, None, False)
    plain = fluoroscope("ledger", "verify", ledger, cwd=ledger.parent)
    assert said["head"] in plain.stdout
    Ledger(ledger, clock).append(entry(5))
    later = fluoroscope("ledger", "verify", ledger, "--head", said["head"][:12], cwd=ledger.parent)
    assert (later.returncode, "1 lines have come since" in later.stdout) == (0, True)


def test_a_removed_line_and_a_cut_end_are_code_4(ledger):
    head = json.loads(fluoroscope("ledger", "verify", ledger, "--json", cwd=ledger.parent).stdout)["head"]
    lines = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(b"".join([lines[0], *lines[2:]]))
    done = fluoroscope("ledger", "verify", ledger, cwd=ledger.parent)
    assert (done.returncode, "BROKEN: line 2 " in done.stdout) == (4, True)
    assert fluoroscope("ledger", "show", ledger, cwd=ledger.parent).returncode == 2
    ledger.write_bytes(b"".join(lines[:3]))
    assert fluoroscope("ledger", "verify", ledger, cwd=ledger.parent).returncode == 0
    noted = fluoroscope("ledger", "verify", ledger, "--head", head, cwd=ledger.parent)
    assert (noted.returncode, "no line has the noted head" in noted.stdout) == (4, True)


def test_an_interrupted_write_is_said_and_is_no_break(ledger):
    ledger.write_bytes(ledger.read_bytes() + b'{"before":')
    done = fluoroscope("ledger", "verify", ledger, cwd=ledger.parent)
    assert done.returncode == 0
    assert "a process was stopped there" in done.stdout


def test_show_is_a_table_or_json(ledger):
    done = fluoroscope("ledger", "show", ledger, cwd=ledger.parent)
    assert "4: reconstruction could not be judged." in done.stdout
    said = json.loads(fluoroscope("ledger", "show", ledger, "--json", cwd=ledger.parent).stdout)
    assert [each["decision"] for each in said["entries"]] == ["warn"] * 4


def test_a_ledger_that_is_not_there_is_code_2(tmp_path):
    for what in ("verify", "show"):
        assert fluoroscope("ledger", what, "none.jsonl", cwd=tmp_path).returncode == 2
    (tmp_path / "empty.jsonl").touch()
    assert fluoroscope("ledger", "verify", "empty.jsonl", cwd=tmp_path).returncode == 0
    assert fluoroscope("ledger", "verify", "empty.jsonl", "--head", "abc", cwd=tmp_path).returncode == 2
