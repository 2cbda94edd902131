"""`fluoroscope report`, `compare` and `gate`: on the findings alone."""

import json
import shutil

import pytest

from fluoroscope.report.browser import find_browser
from tests.cli.test_cli import fluoroscope
from tests.report.audits import make_audit


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Two audits; in `weak` the defences stop less, one cell more has failed and one is gone."""
    home = tmp_path_factory.mktemp("findings")
    make_audit(home / "a")
    make_audit(home / "weak", stopped=0.6)
    document = json.loads((home / "weak/findings.json").read_text())
    document["cells"][-3]["status"], document["cells"][-3]["reason"] = "failed", "no memory"
    del document["cells"][-1]
    (home / "weak/findings.json").write_text(json.dumps(document))
    return home


def test_report_writes_the_page(home):
    done = fluoroscope("report", "a", "--out", "pages/a.html", "--json", cwd=home)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"page": "pages/a.html"}
    assert "What was found" in (home / "pages/a.html").read_text(encoding="utf-8")


@pytest.mark.skipif(find_browser() is None, reason="no Chromium here")
def test_report_prints_a_pdf(home):
    done = fluoroscope("report", "a", "--pdf", cwd=home)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["page:", "a/report.html", "pdf:", "a/report.pdf"]
    assert (home / "a/report.pdf").read_bytes()[:5] == b"%PDF-"


def test_a_pdf_needs_a_browser(home, monkeypatch):
    monkeypatch.setenv("CHROME_BIN", "no-such-browser")
    done = fluoroscope("report", "a", "--out", "x.html", "--pdf", cwd=home)
    assert done.returncode == 2
    assert "CHROME_BIN" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_browser_that_fails_is_named(home, monkeypatch):
    monkeypatch.setenv("CHROME_BIN", shutil.which("false"))
    done = fluoroscope("report", "a", "--out", "x.html", "--pdf", cwd=home)
    assert done.returncode == 2
    assert "could not print" in done.stderr


def test_out_is_the_page(home):
    done = fluoroscope("report", "a", "--pdf", "--out", "x.pdf", cwd=home)
    assert done.returncode == 2
    assert "x.html" in done.stderr


@pytest.mark.parametrize("command", [["report", "none"], ["compare", "a", "none"], ["gate", "none", "--max-rdlv", "0"]])
def test_no_audit_there(home, command):
    done = fluoroscope(*command, cwd=home)
    assert done.returncode == 2
    assert "none/findings.json is missing" in done.stderr


def test_compare_tells_what_changed(home):
    done = fluoroscope("compare", "a", "weak", "--json", cwd=home)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    leak = next(
        change
        for change in found["changes"]
        if (change["defence"], change.get("client"), change.get("round"), change["score"])
        == ("dp-sgd ε=8", "north", 1, "rdlv")
    )
    assert leak["difference"] == pytest.approx(leak["after"]["value"] - leak["before"]["value"])
    assert leak["difference"] > 0
    assert leak["intervals_overlap"] is False
    assert leak["before"]["pointer"].endswith("/scores/rdlv")
    assert next(change for change in found["changes"] if change["score"] == "recovered")["intervals_overlap"] is None
    assert [cell["attack"] for cell in found["only_before"]] == ["span"]
    assert found["only_after"] == []
    assert [(each["before"], each["after"]) for each in found["statuses"]] == [("done", "failed")]


def test_compare_in_words(home):
    done = fluoroscope("compare", "a", "weak", cwd=home)
    assert "reconstruction, defence dp-sgd ε=8" in done.stdout
    assert "do not overlap" in done.stdout
    assert "only in a" in done.stdout
    same = fluoroscope("compare", "a", "a", cwd=home)
    assert same.returncode == 0
    assert "0 changed by more" in same.stdout


def gate(home, *arguments):
    done = fluoroscope("gate", *arguments, "--json", cwd=home)
    return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr


def test_a_kept_limit_passes(home):
    code, found = gate(home, "a", "--min-accuracy", "0.6", "--max-iip", "0.05", "--defence", "clip-and-noise 0.5")
    assert code == 4
    code, found = gate(home, "a", "--min-accuracy", "0.6", "--max-auc", "0.6")
    assert code == 0
    assert found["passed"]
    assert found["defence"] == "dp-sgd ε=8"
    accuracy = next(each for each in found["limits"] if each["metric"] == "accuracy")
    assert accuracy["end"] == "low"
    assert accuracy["pointer"].endswith("/scores/accuracy/low")
    assert {each["end"] for each in found["limits"] if each["metric"] == "auc"} == {"high"}


def test_the_worse_end_of_the_interval_counts(home):
    """Accuracy is 0.647 in 0.627 to 0.667."""
    assert gate(home, "a", "--min-accuracy", "0.64")[0] == 4
    assert gate(home, "a", "--min-accuracy", "0.62")[0] == 0


def test_accuracy_of_an_attack_is_no_utility(home):
    """The source attack's accuracy, a third, is below the limit; the federation's is not."""
    allowed = [word for level in ("leaks", "unclear", "not-tested") for word in ("--allow", level)]
    code, found = gate(home, "a", "--min-accuracy", "0.8", "--defence", "none", *allowed)
    assert code == 0
    assert [each["cell"] for each in found["limits"]] == ["federation-0"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--max-rate", "0"], "crafted-dp failed: the loss became infinite"),
        (["--max-rdlv", "0"], "span-dp was left out: the budget"),
        (["--max-rate", "1", "--defence", "clip-and-noise 0.5"], "crafted-dp failed"),  # whatever the setting
    ],
)
def test_not_measured_is_not_safe(home, arguments, why):
    code, found = gate(home, "a", *arguments)
    assert code == 4
    assert any(why in each["missing"] for each in found["limits"] if each["missing"])
    assert why in fluoroscope("gate", "a", *arguments, cwd=home).stdout


def test_unclear_and_not_tested_break_the_gate_and_can_be_allowed_by_name(home):
    arguments = ("--defence", "clip-and-noise 0.5", "--min-accuracy", "0.6")
    code, found = gate(home, "a", *arguments)
    assert code == 4
    broken = {each["threat"]: each["level"] for each in found["levels"] if not each["passed"]}
    assert broken == {"curious-server": "unclear", "malicious-server": "unclear", "outsider": "not tested"}
    assert gate(home, "a", *arguments, "--allow", "unclear", "--allow", "not-tested")[0] == 0
    said = fluoroscope("gate", "a", *arguments, "--allow", "unclear", cwd=home)
    assert said.returncode == 4
    for words in ("outsider holds", "BROKEN", "allowed", "not tested"):
        assert words in said.stdout


def test_a_broken_limit_in_words(home):
    done = fluoroscope("gate", "weak", "--max-rdlv", "0", "--min-accuracy", "0.5", cwd=home)
    assert done.returncode == 4
    for words in ("BROKEN", "kept", "(high)", "(low)", "/scores/rdlv/high", "failed."):
        assert words in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--allow", "curious-cleint=unclear"], "names no level"),
        (["--max-rdlv", "0", "--defence", "non"], "did you mean 'none'"),
        (["--max-rdlv", "0", "--defence", "wall"], "percentile-gaussian"),
        (["--max-rdlv", "much"], "much"),
    ],
)
def test_wrong_limits(home, arguments, message):
    code, said = gate(home, "a", *arguments)
    assert code == 2
    assert message in said


def test_the_exit_codes_are_told():
    from pathlib import Path

    assert "4" in fluoroscope("gate", "--help", cwd=Path()).stdout
    assert "4 failed a gate" in fluoroscope("--help", cwd=Path()).stdout.replace("\n", " ")
