"""Findings in short, and the tables that are made of them."""

import json

from fluoroscope.studies.claims.kept import keep
from fluoroscope.studies.claims.tables import tables

ROWS = [
    {"data": "folder:cxr", "lr": 0.1, "ssim": 0.123456789, "rate": 0.5, "rate_low": 0.4, "rate_high": 0.6,
     "curves": {"mse": [1.0]}, "paper": {"ssim": 0.2}},
    {"data": "folder:cxr", "lr": 1.0, "ssim": None, "rate": 0.7, "rate_low": 0.6, "rate_high": 0.8, "paper": None,
     "failed": "too | large."},
]  # fmt: skip


def write(folder, **more):
    path = folder / "p4/table-2/findings.json"
    path.parent.mkdir(parents=True)
    head = {"study": "p4/table-2", "size": "small", "seed": 0, "seconds": 125.4, "date": "2026-01-02"}
    path.write_text(json.dumps({**head, "rows": ROWS, **more}))


def test_what_is_kept_has_numbers_and_no_curves(tmp_path):
    write(tmp_path / "runs")
    (path,) = keep(tmp_path / "runs", tmp_path / "kept")
    assert path == tmp_path / "kept/p4/table-2.json"
    read = json.loads(path.read_text())
    assert read["rows"][0]["ssim"] == 0.12346
    assert "curves" not in read["rows"][0]
    assert (read["seconds"], read["date"]) == (125, "2026-01-02")
    assert tables(tmp_path / "kept") == tables(tmp_path / "runs")
    assert keep(tmp_path / "kept", tmp_path / "again")[0].read_text() == path.read_text(), "it stays the same"


def test_a_table_per_study(tmp_path):
    write(tmp_path)
    page = tables(tmp_path)
    assert "## p4/table-2: Images that do not converge" in page
    assert "`fluoroscope study run p4/table-2 --data folder:cxr` (2026-01-02, 2 min). In every row: data cxr." in page
    assert "| lr | ssim | ssim, paper | rate | failed |" in page
    assert "| 0.1 | 0.123 | 0.2 | 0.5 (0.4 to 0.6) | – |" in page
    assert "too \\| large." in page
    assert "`p4/table-1`" in page.partition("## No findings")[2]
