"""What docs/extending.md shows must run, and pages must not point at nothing."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from fluoroscope.attacks import ATTACKS
from fluoroscope.attacks.common.engine import Budget
from fluoroscope.data import SOURCES
from fluoroscope.defences import DEFENCES
from fluoroscope.models import MODELS

DOCS = Path(__file__).parents[1] / "docs"
SOURCE = DOCS.parent / "src" / "fluoroscope"
PAGES = sorted([*DOCS.rglob("*.md"), *DOCS.rglob("*.ipynb")])
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))


def prose(page: Path) -> str:
    """The page without its programs; of a notebook what is not code."""
    text = page.read_text()
    if page.suffix == ".ipynb":
        told = [cell["source"] for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"]
        text = "\n\n".join("".join(lines) for lines in told)
    return re.sub(r"```.*?```", "", text, flags=re.DOTALL)


def anchors(page: Path) -> set[str]:
    """What `#...` can point at: anchors that are written out, and headings as GitHub names them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return slugs | set(re.findall(r'<a id="([^"]+)">', page.read_text()))


@pytest.fixture
def registries_as_they_were(monkeypatch):
    """What the examples register is gone after the test."""
    for registry in (ATTACKS, DEFENCES, MODELS, SOURCES):
        list(registry)  # third parties first, so that they are not lost
        monkeypatch.setattr(registry, "_parts", dict(registry._parts))


@pytest.mark.usefixtures("registries_as_they_were")
def test_the_examples_of_extending_run(tmp_path, monkeypatch):
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "extending.md").read_text(), re.DOTALL)
    assert len(blocks) >= 6
    module = ModuleType("extending")
    monkeypatch.setitem(sys.modules, "extending", module)
    monkeypatch.chdir(tmp_path)
    for number, block in enumerate(blocks, 1):
        exec(compile(block, f"docs/extending.md, block {number}", "exec"), vars(module))


def test_the_examples_of_the_api_page_run(capsys):
    (block,) = re.findall(r"```python\n(.*?)```", (DOCS / "api.md").read_text(), re.DOTALL)
    exec(compile(block.replace('"idlg"', "QUICK"), "docs/api.md", "exec"), {"QUICK": quick_idlg()})
    assert "1 images: SSIM" in capsys.readouterr().out


def quick_idlg():
    return replace(ATTACKS.get("idlg"), budget=Budget(2))


@pytest.mark.parametrize("page", [*PAGES, *DOCS.parent.glob("*.md")], ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", prose(page)):
        if "://" in target:
            continue
        other = page.parent / target if target else page
        assert other.exists(), f"{page.name} points at {target}"
        assert not anchor or anchor in anchors(other), f"{page.name} points at {target}#{anchor}"


@pytest.mark.parametrize("name", ["bibliography.md", "glossary.md"])
def test_an_anchor_is_there_once(name):
    written = re.findall(r'<a id="([^"]+)">', (DOCS / name).read_text())
    assert len(written) == len(set(written))


def test_paths_in_the_table_of_architecture_exist():
    rows = re.findall(r"^\|.*\|$", (DOCS / "architecture.md").read_text(), re.MULTILINE)
    named = {path for row in rows for path in re.findall(r"`([\w/]+(?:/|\.py))`", row)}
    assert len(named) >= 40
    assert not {path for path in named if not (SOURCE / path).exists()}


@every_page
def test_paths_with_a_room_exist_on_every_page(page):
    """`room/file.py` and `room/part/`, below src/fluoroscope; `tests/...` and `src/...` below the repository."""
    rooms = {folder.name for folder in SOURCE.iterdir() if folder.is_dir()}
    named = re.findall(r"`((?:\w+/)+(?:\w+\.py)?)`", prose(page))
    missing = [
        path
        for path in named
        if not (DOCS.parent / path).exists()
        and not (SOURCE / path).exists()
        and (path.endswith(".py") or path.split("/")[0] in rooms)
    ]
    assert not missing


def test_every_page_is_in_the_index():
    linked = set(re.findall(r"\]\(([^)#\s]+\.(?:md|ipynb))\)", (DOCS / "index.md").read_text()))
    pages = {str(page.relative_to(DOCS)) for page in PAGES if page.parent.name != "decisions"}
    assert not pages - linked - {"index.md"}
