"""What a reader meets without scrolling: the answer, one sentence per attacker, a picture, what to change."""

import json
import re

import pytest

from fluoroscope.findings import NO_DEFENCE, read_findings
from fluoroscope.report.audit_report import render_audit, render_numbers
from fluoroscope.report.first_screen import first_screen
from fluoroscope.report.reference import known_gains, reference_command, standing
from fluoroscope.report.traced import Traced
from fluoroscope.report.view import View, setting_today


def viewed(audit):
    return View(audit, Traced(audit.document), blur=False)


def changed(folder, tmp_path, change):
    """The audit of `folder`, changed; without pictures, which stay behind."""
    document = json.loads((folder / "findings.json").read_text())
    for cell in document["cells"]:
        cell["gallery"] = []
    change(document)
    (tmp_path / "findings.json").write_text(json.dumps(document))
    return read_findings(tmp_path)


def plain(markup):
    bare = re.sub(r'<span class="tip".*?</span>', "", str(markup))
    return re.sub(r"<[^>]+>", "", bare)


@pytest.fixture(scope="module")
def first(audit):
    return first_screen(viewed(read_findings(audit)))


def test_the_answer_the_grade_and_whom_it_is_about(first):
    assert first.answer == "No. As it stands, images of patients can be recovered."
    assert first.grade == "E"
    assert "without any protection" in first.remarks[0]
    assert [(each.grade, plain(each.title)) for each in first.attackers] == [
        ("E", "Whoever runs the server, and looks"),
        ("C", "A server that cheats"),
        ("A", "Another hospital that takes part"),
        ("?", "An outsider"),
    ]
    said = plain(first.attackers[0].sentence)
    assert said.startswith("It recovered images of 7 of 8 patients of north (8 images), each told apart")
    assert said.endswith("Somebody who guesses would get 12% right.")


def test_what_to_change_its_price_and_what_was_not_seen(first):
    assert [plain(words) for words in first.change] == [
        "Use “dp-sgd ε=8”.", "Right diagnoses of the model: 90% without it, 65% with it.",
        "Next: put that in place, and audit again before it trains on images of patients.",
    ]  # fmt: skip
    assert first.attackers[0].then[0] == "A"
    unseen = " ".join(map(plain, first.unseen))
    assert "how many patients have which diagnosis" in unseen
    assert "3 of" in unseen
    assert "Attacks that this program does not have" in unseen


def test_three_patients_in_three_stages(first):
    assert [plain(column) for column in first.picture.columns] == ["Known before", "Recovered", "Original"]
    assert [len(row) for row in first.picture.rows] == [3, 3], "the tale has two patients"
    assert {alt for row in first.picture.rows for _, alt in row} >= {"Original, patient 1", "Recovered, patient 2"}


def test_nothing_recommended_names_what_leaks_least(audit, tmp_path):
    def change(document):
        document["recommendation"] = {"defence": None, "text": {"text": "Nothing helps.", "numbers": []}}
        document["verdicts"][0]["stopped_by"] = None
        for level in document["verdicts"][0]["levels"]:
            level["level"] = level["kinds"][0]["level"] = "leaks"

    said = [plain(words) for words in first_screen(viewed(changed(audit, tmp_path, change))).change]
    assert said[0] == "No setting that was tried stops all that leaks."
    assert said[1].startswith("The least leaky of them is “dp-sgd ε=8”, and it still leaks: grade D")
    assert "90% without it" in said[2]
    assert "fluoroscope calibrate" in said[-1]


@pytest.mark.parametrize(
    ("levels", "answer"),
    [
        (("leaks", "holds", "holds", "holds"), "critical"),
        (("holds", "holds", "leaks", "holds"), "leaks"),
        (("holds", "unclear", "holds", "holds"), "unclear"),
        (("holds", "not tested", "holds", "holds"), "unclear"),
        (("holds",) * 4, "holds"),
        (("not tested",) * 4, "untested"),
    ],
)
def test_the_answer_follows_from_the_worst(audit, tmp_path, levels, answer):
    def change(document):
        for verdict, level in zip(document["verdicts"], levels, strict=True):
            verdict["level"] = level
            for each in verdict["levels"]:
                each["level"] = level
                for kind in each["kinds"]:
                    kind["level"] = level

    view = viewed(changed(audit, tmp_path, change))
    assert first_screen(view).answer == view.words.say(f"answer.{answer}")


def test_the_federations_own_setting_is_todays(audit, tmp_path):
    def change(document):
        document["own"] = "dp-sgd ε=8"
        document["verdicts"][0]["level"] = "holds"

    found = changed(audit, tmp_path, change)
    assert setting_today(found.findings) == "dp-sgd ε=8"
    assert first_screen(viewed(found)).attackers[0].grade == "A"
    assert setting_today(read_findings(audit).findings) == NO_DEFENCE
    assert "own protection, “dp-sgd ε=8”" in plain(render_audit(found))


def test_a_broken_promise_is_the_worst_grade(audit, tmp_path):
    def change(document):
        document["own"] = "dp-sgd ε=8"
        scores = {"epsilon": {"value": 1.0}, "epsilon_lower": {"value": 3.0}, "epsilon_lower_any": {"value": 3.0}}
        document["cells"].append(
            {"id": "claim", "kind": "claim", "threat": None, "defence": "dp-sgd ε=8", "status": "done",
             "settings": {}, "scores": scores}
        )  # fmt: skip

    found = changed(audit, tmp_path, change)
    first = first_screen(viewed(found))
    assert first.grade == "E"
    assert "refute its claim" in plain(first.remarks[-1])
    assert "Is the promised privacy kept?" in render_audit(found)


def test_numbers_alone_have_a_first_screen_too(audit):
    page = render_numbers(read_findings(audit))
    assert "No. As it stands, images of patients can be recovered." in page
    assert "patients of client 1" in plain(page)
    assert "What it looks like" not in page
    assert "Who was found?" in page


def test_the_known_federations_were_measured():
    assert len(known_gains("reconstruction")) == 10
    assert reference_command().startswith("python examples/reference/measure.py")
    assert all(0 <= gain <= 1 for gain in known_gains("reconstruction"))
    assert standing("reconstruction", 2.0).below == 10
    assert standing("reconstruction", -1.0).below == 0
    assert standing("membership", 0.5) is None, "too few to say"


def test_the_first_screen_answers_ten_questions(first):
    """Those of docs/report.md; a leak, and a setting that stops it."""
    server = first.attackers[0]
    said = {
        "is it safe": plain(first.answer).startswith("No."),
        "for whom": "patients of north (" in plain(server.sentence),
        "who could attack": len(first.attackers) == 4 and all(each.title for each in first.attackers),
        "what to change": plain(first.change[0]).startswith("Use "),
        "its price": "Right diagnoses" in plain(first.change[1]),
        "not tested": len(first.unseen) > 1,
        "how sure": re.match(r"How sure: \d+ patients were attacked, so the true share is \d+%", plain(server.sure)),
        "beside others": "known federations" in plain(server.beside),
        "outside": bool(first.safe or first.unsafe),
        "next": plain(first.change[-1]).startswith("Next: "),
    }
    assert [question for question, answered in said.items() if not answered] == []


def test_one_measurement_is_not_sure(audit, tmp_path):
    def lone(findings):
        for cell in findings["cells"]:
            if cell["kind"] == "reconstruction" and "told_apart" in cell["scores"]:
                cell["scores"]["told_apart"] |= {"low": None, "high": None}

    found = first_screen(viewed(changed(audit, tmp_path, lone)))
    assert "nobody can say" in plain(found.attackers[0].sure)
