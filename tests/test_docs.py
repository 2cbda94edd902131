"""What docs/extending.md shows must run, and pages must not point at nothing."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from fluoroscope.attacks import ATTACKS
from fluoroscope.data import SOURCES
from fluoroscope.defences import DEFENCES
from fluoroscope.models import MODELS

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(DOCS.rglob("*.md"))


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_links_between_pages_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} points at {target}"


def test_every_page_is_in_the_index():
    linked = set(re.findall(r"\]\(([^)#\s]+\.md)\)", (DOCS / "index.md").read_text()))
    missing = {str(page.relative_to(DOCS)) for page in PAGES if page.parent.name != "decisions"} - linked - {"index.md"}
    assert not missing
