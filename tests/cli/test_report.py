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
    make_audit(home / "patients", synthetic=False)
    document = json.loads((home / "weak/findings.json").read_text())
    document["cells"][-3]["status"], document["cells"][-3]["reason"] = "failed", "no memory"
    del document["cells"][-1]
    (home / "weak/findings.json").write_text(json.dumps(document))
    return home


def test_report_writes_the_page(home):
    done = fluoroscope("report", "a", "--out", "pages/a.html", "--json", cwd=home)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"page": "pages/a.html"}
    assert "Is it safe?" in (home / "pages/a.html").read_text(encoding="utf-8")


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


FORMATS = {"sarif": "findings.sarif", "junit": "junit.xml", "md": "report.md", "json": "report.json",
           "card": "leak-card.md", "dpia": "dpia-annex.md"}  # fmt: skip


def test_every_format_is_written(home):
    asked = [word for name in FORMATS for word in ("--format", name)]
    done = fluoroscope("report", "weak", *asked, cwd=home)
    assert done.returncode == 0, done.stderr
    assert dict(line.split(": ") for line in done.stdout.splitlines()) == {
        name: f"weak/{file}" for name, file in FORMATS.items()
    }
    assert json.loads((home / "weak/findings.sarif").read_text())["version"] == "2.1.0"
    assert not (home / "weak/report.html").exists()


def test_numbers_only_has_files_of_its_own(home):
    done = fluoroscope("report", "weak", "--numbers-only", "--format", "html", "--format", "sarif", cwd=home)
    assert done.returncode == 0, done.stderr
    for name in ("report-numbers.html", "numbers-findings.sarif"):
        text = (home / "weak" / name).read_text(encoding="utf-8")
        assert "north" not in text
        assert "<img" not in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--format", "sarif", "--format", "md", "--out", "x"], "--out names one file"),
        (["--format", "md", "--pdf"], "add --format html"),
        (["--numbers-only", "--show-images"], "--show-images shows patients"),
        (["--mlflow", "http://localhost:1", "--show-images"], "nothing like it is sent"),
        (["--mlflow", "mlruns"], "takes the address of a tracking server"),
        (["--format", "sarif", "--defence", "non"], "did you mean 'none'"),
        (["--format", "sarif", "--accepted", "none.toml"], "none.toml"),
        (["--format", "docx"], "docx"),
    ],
)
def test_what_a_report_cannot_be(home, arguments, message):
    done = fluoroscope("report", "weak", *arguments, cwd=home)
    assert done.returncode == 2
    assert message in done.stderr


def test_patients_are_sent_to_no_server_but_as_numbers(home):
    done = fluoroscope("report", "patients", "--mlflow", "http://localhost:1", cwd=home)
    assert done.returncode == 2
    assert "add --numbers-only" in done.stderr


def test_an_audit_is_logged(home, monkeypatch):
    from tests.report.test_mlflow_tracking import tracking_server

    monkeypatch.setenv("no_proxy", "*")
    with tracking_server() as (address, asked):
        done = fluoroscope("report", "patients", "--numbers-only", "--mlflow", address, cwd=home)
    assert done.returncode == 0, done.stderr
    assert "mlflow: run r1 of experiment 7" in done.stdout
    sent = b"".join(body for _, _, body, _ in asked).decode()
    assert "north" not in sent
    assert "<h1>" in sent


def test_acceptances_and_a_policy_at_the_gate(home):
    code, found = gate(home, "a", "--defence", "clip-and-noise 0.5")
    open_ = [(name, each["level"]) for each in found["levels"] for name in each["open"]]
    assert code == 4
    assert len(open_) == 3
    entry = '[[accepted]]\nid = "{}"\nlevel = "{}"\nowner = "dpo"\nreason = "pilot"\nexpires = {}\n'
    text = "".join(entry.format(name, level, "2999-01-01") for name, level in open_)
    (home / "accepted.toml").write_text(text)
    code, found = gate(home, "a", "--defence", "clip-and-noise 0.5", "--accepted", "accepted.toml")
    assert code == 0
    (home / "accepted.toml").write_text(text.replace("2999", "2001"))
    done = fluoroscope("gate", "a", "--defence", "clip-and-noise 0.5", "--accepted", "accepted.toml", cwd=home)
    assert done.returncode == 4
    assert "was accepted until 2001-01-01: that is over" in done.stdout
    assert "curious-server does not hold: reconstruction-" in done.stdout
    done = fluoroscope("gate", "a", "--write-policy", "gate.toml", cwd=home)
    assert done.returncode == 0, done.stderr
    assert "next: fluoroscope gate DIR --policy gate.toml" in done.stdout
    assert gate(home, "a", "--policy", "gate.toml")[0] == 0
    assert gate(home, "weak", "--policy", "gate.toml")[0] == 4
    again = fluoroscope("gate", "a", "--write-policy", "gate.toml", cwd=home)
    assert again.returncode == 2
    assert "is there already" in again.stderr
    mixed = fluoroscope("gate", "a", "--write-policy", "b.toml", "--max-auc", "1", cwd=home)
    assert mixed.returncode == 2
    assert not (home / "b.toml").exists()
