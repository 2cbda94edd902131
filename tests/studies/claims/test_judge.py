"""Claims are judged by findings, and every claim asks for rows that its study has."""

import json

import pytest

from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.studies import STUDIES
from fluoroscope.studies.claims.claim import Claim, claims, parsed
from fluoroscope.studies.claims.judge import judge, judged
from fluoroscope.studies.claims.page import as_data, markdown

RUN = "fluoroscope study run p4/table-2 --data folder:cxr"
USUAL = {
    "id": "x",
    "paper": "P4",
    "where": "table II",
    "what": "Fast fails more.",
    "theirs": "21 against 5",
    "study": "p4/table-2",
    "rules": ["fast > slow"],
    "values": {
        "fast": {"measure": "failed_images", "rows": {"lr": 1.0}},
        "slow": {"measure": "failed_images", "rows": {"lr": 0.1}},
    },
}


def findings(*rows, **more):
    return {"study": "p4/table-2", "size": "small", "seed": 0, "date": "2026-01-02", "rows": list(rows), **more}


def row(lr, count, low, high, **more):
    ends = {"failed_images_low": low, "failed_images_high": high}
    return {"data": "folder:cxr", "lr": lr, "failed_images": count, **ends, **more}


def test_a_claim_is_judged_by_its_rows():
    claim = parsed(USUAL)
    found = judge(claim, findings(row(1.0, 21, 15, 30), row(0.1, 5, 2, 11)))
    assert (found.status, found.ours) == ("agrees", "21 (15 to 30); 5 (2 to 11)")
    assert (found.on, found.date, found.command) == ("cxr", "2026-01-02", RUN)
    assert judge(claim, findings(row(1.0, 5, 2, 11), row(0.1, 21, 15, 30))).status == "differs"
    assert judge(claim, findings(row(1.0, 9, 4, 16), row(0.1, 5, 2, 11))).status == "unclear"


def test_the_command_says_size_and_seed():
    rows = (row(1.0, 21, 15, 30), row(0.1, 5, 2, 11))
    found = judge(parsed(USUAL), findings(*rows, size="paper", seed=3))
    assert found.command == "fluoroscope study run p4/table-2 --size paper --seed 3 --data folder:cxr"
    two = findings({**rows[0], "data": "phantom/chest"}, rows[1])
    assert judge(parsed(USUAL), two).command.endswith("p4/table-2 --sets SETS")
    phantoms = findings(*({**each, "data": "phantom/chest"} for each in rows))
    assert judge(parsed(USUAL), phantoms).command.endswith("run p4/table-2")


def test_what_was_not_run_is_said():
    claim = parsed(USUAL)
    assert judge(claim, None).status == "not run"
    missing = judge(claim, findings(row(1.0, 21, 15, 30)))
    assert (missing.status, missing.reason) == ("not run", "no row with lr 0.1 has failed_images.")
    failed = judge(claim, findings(row(1.0, 21, 15, 30), row(0.1, 5, 2, 11, failed="too large.")))
    assert failed.status == "not run", "a cell that failed measured nothing"
    twice = judge(claim, findings(row(1.0, 21, 15, 30), row(0.1, 5, 2, 11), row(0.1, 6, 2, 11)))
    assert (twice.status, twice.reason) == ("not run", "2 rows have lr 0.1: the study was changed.")


def test_a_claim_about_every_strategy_is_counted():
    claim = parsed({**USUAL, "each": "strategy", "why": "small."})
    rows = [
        row(lr, failed, 0, 99, strategy=s)
        for s, pair in {"a": (3, 1), "b": (1, 3)}.items()
        for lr, failed in zip((1.0, 0.1), pair, strict=True)
    ]
    found = judge(claim, findings(*rows))
    assert (found.status, found.ours, found.reason) == ("differs", "holds for 1 of 2", "small.")
    assert judge(claim.model_copy(update={"at_least": 1}), findings(*rows)).status == "agrees"


def test_seeds_give_an_interval():
    claim = parsed({**USUAL, "rules": ["a > 0.5"], "values": {"a": {"measure": "accuracy"}}})
    one = {"data": "phantom/brain", "accuracy": 0.6, "accuracy_std": 0.1, "seeds": 5}
    assert judge(claim, findings(one)).status == "unclear"  # 2.776 * .1 / sqrt(5) = .124
    assert judge(claim, findings(one)).ours == "0.6 (0.476 to 0.724)"
    assert judge(claim, findings({**one, "accuracy_std": 0.05})).status == "agrees"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rules": []}, "says in not_here"),
        ({"rules": ["fast > other"]}, "which no value has"),
        ({"verdict": "agrees"}, "Extra inputs"),
    ],
)
def test_a_claim_without_a_rule_or_with_a_verdict_is_refused(change, message):
    with pytest.raises(BadInput, match=message):
        parsed({**USUAL, **change})


def test_damaged_and_moved_findings_are_named(tmp_path):
    with pytest.raises(BadInput, match="there is no folder"):
        judged(tmp_path / "none")
    with pytest.raises(Misconfigured, match="--paper must be"):
        judged(tmp_path, "P5")
    folder = tmp_path / "p4/table-2"
    folder.mkdir(parents=True)
    (folder / "findings.json").write_text("{")
    with pytest.raises(BadInput, match="is damaged"):
        judged(tmp_path, "P4")
    (folder / "findings.json").write_text(json.dumps({"study": "p4/table-1", "rows": []}))
    with pytest.raises(BadInput, match="it was moved"):
        judged(tmp_path, "P4")


def test_the_page_counts_and_explains(tmp_path):
    found = judged(tmp_path)
    page = markdown(found)
    assert f"{len(found)} claims: not run" in page
    assert all(heading in page for heading in ("## P1", "## P2", "## P3", "## P4"))
    assert "SVHN was not to be had" in page
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in rows}) == 1, "a table of one width"
    data = as_data(found)["claims"]
    assert [each["id"] for each in data] == [claim.id for claim in claims()]


@pytest.mark.parametrize("claim", [c for c in claims() if c.rules], ids=lambda c: c.id)
def test_every_claim_asks_for_rows_that_its_study_has(claim: Claim):
    given = {"Omniglot": "folder:omniglot"}
    rows = [cell.settings for cell in STUDIES.get(claim.study).grid("small", given)]
    groups = {} if claim.each is None else {row[claim.each]: [] for row in rows}
    for one in rows:
        groups.setdefault(one[claim.each] if claim.each else None, []).append(one)
    for group in groups.values():
        for selector in claim.values.values():
            fit = [r for r in group if all(_fits(r.get(k, "missing"), v) for k, v in selector.rows.items())]
            assert len(fit) == 1 if selector.of == "only" else fit, selector


def test_claims_have_names_of_their_own_and_cover_the_papers():
    found = claims()
    assert len({claim.id for claim in found}) == len(found)
    assert len(found) >= 40
    named = {claim.study for claim in found}
    assert named <= set(STUDIES)


def _fits(have, asked):
    return have in asked if isinstance(asked, list) else have == asked
