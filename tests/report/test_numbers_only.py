"""Numbers alone: whatever an audit was told of hospitals, people and machines, none of it is in what leaves."""

import json
import re

import pytest

from fluoroscope.findings import document_of, read_findings
from fluoroscope.findings.pointer import resolve
from fluoroscope.report.audit_report import render_numbers, write_report
from fluoroscope.report.exports.brief import brief
from fluoroscope.report.exports.formats import FORMATS
from fluoroscope.report.numbers_only import numbers_only
from fluoroscope.report.risks import risks
from tests.report.audits import make_audit

NUMBER = re.compile(r'<span class="n" data-finding="([^"]+)" data-format="([^"]+)">([^<]*)</span>')
SECRETS = (
    "Charit", "Mitte", "st-josef", "xray-2024", "anna", "ward7", "mueller", "tumour", "/srv", "/home", "C:\\",
    "gpu-box", "PACS", "secretattack",
)  # fmt: skip
"""Of hospitals, folders, people, classes and machines."""


def poisoned(folder):
    """The audit of the other tests, with a name or a path wherever somebody could write one."""
    make_audit(folder, synthetic=False)
    text = (folder / "findings.json").read_text()
    for old, new in (("north", "Charité Mitte"), ("south", "st-josef"), ("west", "anna")):
        text = re.sub(rf"\b{old}\b", new, text)
    document = json.loads(text)
    labels = {label["label"]: label["label"] for label in document["defences"]}
    labels["clip-and-noise 0.5"] = "noise of mueller"
    document = _relabelled(document, labels)
    document["title"] = "What xray-2024 would leak"
    document["preset"] = "mueller"
    document["plan"] = {"data": {"source": "folder:/srv/xray-2024"}, "model": {"factory": "/home/anna/net.py:Net"}}
    document["versions"]["torch"] = "2.13.0 of gpu-box"
    document["data"] |= {"name": "xray-2024", "licence": "PACS of Charité", "classes": ["tumour ward7", "clear"]}
    document["defences"][1]["parts"] = [{"name": "clip-and-noise", "sigma": 0.5, "file": "/home/anna/defence.py"}]
    document["defences"][1]["claim"]["statement"] = "as mueller says"
    document["threats"][0]["assumed"].append("Sits beside Charité Mitte.")
    document["recommendation"]["text"] = {"text": "Use it at st-josef.", "numbers": []}
    document["safe_to_say"].append({"text": "That anna is safe.", "numbers": []})
    document["left_out"].append("/srv/xray-2024/7.png: unreadable")
    cell = document["cells"][1]
    cell["settings"] |= {"note": "C:\\ward7", "clients": ["anna", "mueller"], "seed": 3, "model": "Net of anna"}
    cell["scores"]["guessed tumour ward7"] = {"value": 3}
    cell["rehearsed"] = [{"attack": "secretattack of anna", "applies": False, "reason": "/srv/xray-2024 is empty"}]
    cell["gallery"] = [{"original": "gallery/anna.png", "reconstruction": "gallery/anna.png", "caption": "anna, ward7"}]
    cell["curves"] = {"of anna": {"x": [1], "y": [1.0], "x_label": "anna", "y_label": "ward7"}}
    (folder / "findings.json").write_text(json.dumps(document))
    (folder / "timing.json").write_text(json.dumps({"seconds": {"anna": 1.0}, "total": 1.0, "machine": "gpu-box"}))
    return read_findings(folder)


def _relabelled(value, labels):
    if isinstance(value, dict):
        return {key: _relabelled(item, labels) for key, item in value.items()}
    if isinstance(value, list):
        return [_relabelled(item, labels) for item in value]
    return labels.get(value, value) if isinstance(value, str) else value


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    return poisoned(tmp_path_factory.mktemp("srv"))


@pytest.fixture(scope="module")
def page(named):
    return render_numbers(named)


def clean(text):
    return [secret for secret in SECRETS if secret.lower() in text.lower()]


def test_the_secrets_are_there_to_be_found(named):
    assert set(clean(json.dumps(named.document, ensure_ascii=False) + (named.folder / "timing.json").read_text())) >= {
        secret for secret in SECRETS if secret != "C:\\"
    }


def test_the_page_has_no_image_path_or_name(named, page):
    assert not clean(page)
    for part in ("<img", "data:", "<script", "<figure", "xlink:href", str(named.folder), "url("):
        assert part not in page
    assert not re.search(r"(?<![<\w])/(?:[\w.-]+/)+[\w.-]+", re.sub(r'data-finding="[^"]*"', "", page))


@pytest.mark.parametrize("name", FORMATS)
def test_no_export_has_a_path_or_name(named, name):
    text = FORMATS[name].write(brief(named, without_names=True))
    assert not clean(text)
    assert str(named.folder) not in text


def test_every_number_is_the_same_number_of_the_audit(named, page):
    """The addresses of the page lead to the same values in findings.json."""
    found = NUMBER.findall(page)
    assert len(found) > 200
    for at, how, text in found:
        value = resolve(named.document, at)
        assert text in ({"–", "(not measured)"} if value is None else {format(value, how)}), at


def test_all_scores_and_levels_are_kept(named):
    bare = numbers_only(named).findings
    for before, after in zip(named.findings.cells, bare.cells, strict=True):
        kept = {name: score for name, score in before.scores.items() if not name.startswith("guessed")}
        assert (after.kind, after.status, after.scores) == (before.kind, before.status, kept)
    for old, new in zip(named.findings.verdicts, bare.verdicts, strict=True):
        assert (old.threat, old.level) == (new.threat, new.level)
        assert [each.level for each in old.levels] == [each.level for each in new.levels]
    assert bare.cells[1].settings == {
        "attack": "epochwise", "client": "client 1", "round": 1, "seed": 3, "clients": ["client 3", "another client"],
    }  # fmt: skip


def test_the_setting_is_known_by_its_parts(named):
    bare = numbers_only(named).findings
    assert [each.label for each in bare.defences] == ["none", "setting 1 (clip-and-noise)", "setting 2", "setting 3"]
    assert bare.defences[1].parts == ({"name": "clip-and-noise", "sigma": 0.5},)


def test_ids_are_those_of_the_audit_with_its_names(named):
    assert [risk.id for risk in brief(named, without_names=True).risks] == [risk.id for risk in risks(named)]


def test_what_was_read_is_not_changed(named):
    before = json.dumps(document_of(named.findings))
    numbers_only(named)
    assert json.dumps(document_of(named.findings)) == before


def test_the_page_is_written(named, page, tmp_path):
    path = write_report(named.folder, out=tmp_path / "page.html", without_names=True)
    assert path.read_text(encoding="utf-8") == page
