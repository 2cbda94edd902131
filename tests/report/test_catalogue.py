"""One catalogue of sentences: each that is used is there, each that is there is used, and none stands elsewhere."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

import fluoroscope.report
from fluoroscope.errors import Misconfigured
from fluoroscope.findings import read_findings
from fluoroscope.report.audit_report import render_audit
from fluoroscope.report.catalogue import Catalogue, catalogue
from fluoroscope.report.grades import GRADES

FOLDER = Path(fluoroscope.report.__file__).parent
SOURCES = {path.name: path.read_text() for path in [*FOLDER.glob("*.py"), *FOLDER.glob("*.html")]}


def asked():
    """Keys as the sources write them; `{...}` in one stands for anything."""
    text = "\n".join(SOURCES.values())
    found = re.findall(r'(?:say|plain|said|t|words)\(\s*f?"([a-z_]+\.[^"]+)"', text)
    found += re.findall(r'"((?:question|reference|picture|page|guarded|answer|leaks|column|grade)\.[a-z_.-]+)"', text)
    found += [
        f"{group}.{{}}" for group in ("leaks", "holds", "unclear", "untested", "glossary", "attacker", "attacker.who")
    ]
    return {re.sub(r"\\?\{[^}]*\}", "[^.]+", each) for each in found}


def test_no_sentence_is_unused():
    patterns = [re.compile(each.replace(".", r"\.").replace(r"[^\.]+", "[^.]+")) for each in asked()]
    unused = [key for key in catalogue().entries if not any(pattern.fullmatch(key) for pattern in patterns)]
    assert not unused


def test_the_template_has_no_words_of_its_own():
    bare = re.sub(r"\{%.*?%\}|\{\{.*?\}\}", "", SOURCES["audit.html"], flags=re.DOTALL)
    text = re.sub(r"<[^>]*>", " ", bare)
    assert not re.findall(r"[A-Za-z]{2,}", text)
    assert not re.findall(r'(?:aria-label|alt|title)="[^"{]*[A-Za-z]', bare)


def test_every_glossary_word_that_a_sentence_names_is_explained():
    words = catalogue()
    for key, text in words.entries.items():
        for shown, word in re.findall(r"\[([^\]|]+)(?:\|([^\]]+))?\]", text):
            assert f"glossary.{(word or shown).lower()}" in words, (key, shown)
    assert all(f"grade.words.{each}" in words and f"grade.meaning.{each}" in words for each in GRADES)


def test_the_page_speaks_the_catalogues_language(audit):
    """With every sentence replaced, none of the English ones is left."""
    english = catalogue()
    turned = {
        key: re.sub(r"(\{\{\d\}\}|\{[^}]*\}|\[[^\]]*\])|[A-Za-z]", lambda found: found.group(1) or "¤", text)
        for key, text in english.entries.items()
    }
    page = render_audit(read_findings(audit), words=Catalogue("xx", turned))
    assert '<html lang="xx">' in page
    said = re.sub(r"<[^>]+>", "", re.sub(r"<(style|script|svg).*?</\1>", "", page, flags=re.DOTALL))
    for key in ("answer.title", "grade.legend", "section.defences_words", "change.title", "found.why", "page.foot"):
        assert english.entries[key] not in said


def test_what_is_filled_in_cannot_become_markup():
    said = catalogue().say("change.use", setting="<script>alert(1)</script>")
    assert "<script>" not in said
    assert "&lt;script&gt;" in said


def test_words_are_explained_where_they_stand():
    said = replace(catalogue(), entries={"a.b": "see [Updates|update] & `x`", "glossary.update": 'what "leaves"'}).say(
        "a.b"
    )
    assert 'href="#word-update">Updates<span class="tip" aria-hidden="true">what &#34;leaves&#34;</span></a>' in said
    assert said.endswith(" &amp; <code>x</code>")


def test_an_unknown_language_or_sentence_is_named():
    with pytest.raises(Misconfigured, match="'tlh'"):
        catalogue("tlh")
    with pytest.raises(Misconfigured, match=r"no\.such"):
        catalogue().say("no.such")
