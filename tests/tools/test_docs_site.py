"""The site of the documentation: navigation, pages out of notebooks; slowly, the whole of it without a network."""

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import fluoroscope

pytest.importorskip("mkdocs")

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.fixture
def site_tool(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    import docs_site

    return docs_site


def test_the_index_is_the_navigation(site_tool, tmp_path):
    (tmp_path / "why").mkdir()
    for name in ("index.md", "2.md", "1.md"):
        (tmp_path / "why" / name).touch()
    index = """# All\n\n## One\n\n- [a](a.md): words [b](b.md)\n- [n](deep/n.ipynb)\n\n## Two\n
- [a](a.md#part)\n- [a](a.md)\n- [why](why/index.md)\n"""
    assert site_tool.navigation(index, tmp_path) == [
        {"Start": "index.md"},
        {"One": ["a.md", "deep/n.md"]},
        {"Two": [{"Why": ["why/index.md", "why/1.md", "why/2.md"]}]},
    ]


@pytest.mark.parametrize(
    ("page", "target", "there"),
    [
        ("index.md", "tutorials/own-model.ipynb", "tutorials/own-model.md"),
        ("index.md", "attacks.md", "attacks.md"),
        ("papers/p1.md", "../decisions/index.md", "../decisions/index.md"),
        ("flower.md", "../examples/flower-app/README.md", "repository/examples/flower-app/README.md"),
        ("papers/p1.md", "../../src/fluoroscope/rng.py", "../repository/src/fluoroscope/rng.md"),
        ("repository/examples/flower-app/README.md", "../../docs/flower.md", "../../../flower.md"),
        ("index.md", "https://example.org/a.ipynb", "https://example.org/a.ipynb"),
    ],
)
def test_links_lead_to_what_the_site_has(site_tool, page, target, there):
    assert site_tool.moved(page, target) == there


def test_a_notebook_is_a_page(site_tool):
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "\n", "Words."]},
        {"cell_type": "code", "source": ["one = 1\n", "one"]},
    ]
    made = site_tool.markdown_of({"cells": cells}, "mine.ipynb")
    assert made.startswith('# Title\n\n<a href="mine.ipynb" download>')
    assert made.endswith("Words.\n\n```python\none = 1\none\n```\n")


def test_the_reference_has_every_public_name():
    shown = re.findall(r"^::: (\S+)$", (DOCS / "reference.md").read_text(), re.MULTILINE)
    assert sorted(name.rsplit(".", 1)[1] for name in shown) == sorted(set(fluoroscope.__all__) - {"__version__"})


def test_the_list_of_decisions_is_whole():
    linked = re.findall(r"\]\((\d{4}-[^)]+\.md)\)", (DOCS / "decisions/index.md").read_text())
    assert linked == sorted(path.name for path in (DOCS / "decisions").glob("0*.md"))


class Addresses(HTMLParser):
    """What a page points at, what it loads, and what can be pointed at in it."""

    def __init__(self, page: Path):
        super().__init__()
        self.links, self.loaded, self.anchors = set(), set(), set()
        self.feed(page.read_text())

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.anchors |= {found[key] for key in ("id", "name") if found.get(key)}
        if tag == "a" and found.get("href"):
            self.links.add(found["href"])
        elif tag != "a":
            self.loaded |= {found[key] for key in ("href", "src") if found.get(key)}


def build(docs, out):
    """As `make docs`; never with --quiet, under which mkdocs does not count its warnings and --strict lets all pass."""
    configuration = out.parent / f"{out.name}.yml"
    text = (ROOT / "mkdocs.yml").read_text().replace("docs_dir: docs", f"docs_dir: {docs}")
    for path in ("tools/", "src]"):
        text = text.replace(f"[{path}", f"[{ROOT}/{path}")
    configuration.write_text(text)
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", configuration, "--site-dir", out],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True,
    )  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site") / "built"
    built = build(DOCS, folder)
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return folder


@pytest.mark.slow
def test_a_link_to_nothing_and_a_page_that_nobody_lists_stop_the_build(tmp_path):
    docs = tmp_path / "docs"
    (docs / "assets").mkdir(parents=True)
    (docs / "index.md").write_text("# All\n\n## One\n\n- [a](a.md)\n")
    (docs / "a.md").write_text("# A\n\n[x](nowhere.md), [y](index.md#nothing)\n")
    (docs / "b.md").write_text("# B\n")
    built = build(docs, tmp_path / "site")
    assert built.returncode == 1
    for word in ("nowhere.md", "#nothing", "b.md"):
        assert word in built.stderr


@pytest.mark.slow
def test_every_link_of_the_site_works_and_nothing_is_loaded_from_elsewhere(site):
    pages = {path: Addresses(path) for path in site.rglob("*.html") if path.name != "404.html"}
    assert len(pages) > 40
    for page, found in pages.items():
        assert not [each for each in found.loaded if urlsplit(each).netloc], page.name
        for address in found.links | found.loaded:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            target = target / "index.html" if target.is_dir() else target
            assert target.exists(), f"{page.name} points at {address}"
            if parts.fragment and target in pages:
                assert unquote(parts.fragment) in pages[target].anchors, f"{page.name} points at {address}"
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//", style.read_text()), style.name


@pytest.mark.slow
def test_every_notebook_has_a_page_with_its_code(site):
    for notebook in DOCS.rglob("*.ipynb"):
        page = site / notebook.relative_to(DOCS).with_suffix(".html")
        code = [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]
        assert len(re.findall(r'<div class="[^"]*highlight"', page.read_text())) >= len(code)
        assert page.with_suffix(".ipynb").exists()


@pytest.mark.slow
def test_the_search_answers_in_a_page_that_was_opened_as_a_file(site, chromium):
    page = chromium.new_page()
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / "index.html").as_uri())
    page.click(".md-search__input")
    page.keyboard.type("canaries")
    page.wait_for_selector(".md-search-result__item")
    assert "defences.html" in page.get_attribute(".md-search-result__link >> nth=0", "href")
    assert not [address for address in asked if not address.startswith(("file:", "data:"))]
    page.close()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["index.html", "report.html", "reference.html"])
def test_axe_finds_no_grave_violation_in_the_site(site, chromium, name, scheme):
    pytest.importorskip("axe_playwright_python")
    page = chromium.new_page(color_scheme=scheme)
    page.goto((site / name).as_uri())
    page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run({runOnly: ['wcag2a', 'wcag2aa']})")
    page.close()
    assert [(each["id"], each["nodes"][0]["html"][:200]) for each in found["violations"]] == []
