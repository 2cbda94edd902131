"""What the studies took: a cell that two of them share counts once."""

import json

import pytest

from fluoroscope.studies.claims.cost import Cost, costs
from fluoroscope.studies.claims.tables import tables


def write(folder, study, seconds, rows):
    path = folder / study / "findings.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"study": study, "size": "small", "seed": 0, "seconds": seconds, "rows": rows}))


def row(lr, seconds=None, **more):
    return {"data": "folder:cxr", "lr": lr, **({} if seconds is None else {"seconds": seconds}), **more}


def test_a_shared_cell_counts_once_and_rows_share_as_their_attacks_do(tmp_path):
    write(tmp_path, "p4/table-1", 40.0, [row(0.1, 9.0, paper={"mse": 1.0}), row(1.0, 27.0)])
    write(tmp_path, "p4/table-2", 20.0, [row(0.1, 9.0, paper=None, curves={"mse": [1.0]}), row(2.0, 9.0)])
    assert costs(tmp_path) == [Cost("p4/table-1", 40.0, pytest.approx(40.0)), Cost("p4/table-2", 20.0, 10.0)]
    page = tables(tmp_path).partition("## What they took")[2]
    assert "took 0.0 hours" in page
    assert page.index("| p4/table-1 | 0.7 | 0.7 |") < page.index("| p4/table-2 | 0.3 | 0.2 |")


def test_without_every_rows_seconds_all_count_alike(tmp_path):
    write(tmp_path, "p4/table-1", 40.0, [row(0.1, 9.0), row(1.0)])
    write(tmp_path, "p4/table-2", 40.0, [row(1.0), row(2.0)])
    assert [cost.own for cost in costs(tmp_path)] == [40.0, 20.0]
