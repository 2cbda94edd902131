"""docs/claims.md and docs/study-tables.md are what the commands make of the findings that are kept beside them."""

import json
from pathlib import Path

import pytest

from fluoroscope.studies import STUDIES
from fluoroscope.studies.claims.judge import judged
from fluoroscope.studies.claims.page import markdown
from fluoroscope.studies.claims.tables import tables

DOCS = Path(__file__).parents[3] / "docs"
KEPT = DOCS / "study-findings"
NAMED = "docs/study-findings"
REMEDY = "run `fluoroscope study claims docs/study-findings > docs/claims.md`, and the same with --tables"


@pytest.fixture(autouse=True)
def ours(monkeypatch):
    """Without the studies that other tests enter."""
    for name in [name for name in STUDIES if name.startswith("t/")]:
        monkeypatch.delitem(STUDIES._parts, name)


def test_the_page_of_claims_is_made_from_the_kept_findings():
    assert (DOCS / "claims.md").read_text(encoding="utf-8") == markdown(judged(KEPT), NAMED), REMEDY


def test_the_page_of_tables_is_made_from_the_kept_findings():
    assert (DOCS / "study-tables.md").read_text(encoding="utf-8") == tables(KEPT, NAMED), REMEDY


@pytest.mark.parametrize("path", sorted(KEPT.rglob("*")), ids=lambda path: path.name)
def test_kept_findings_hold_numbers_and_no_image_curve_or_path(path):
    assert path.is_dir() or path.suffix == ".json"
    if path.is_file():
        read = json.loads(path.read_text(encoding="utf-8"))
        assert all("curves" not in row and "/" not in row["data"].removeprefix("phantom/") for row in read["rows"])
