"""Acceptances: an owner, a reason and a last day, or none."""

from datetime import date

import pytest

from fluoroscope.errors import BadInput, Misconfigured
from fluoroscope.findings import read_findings
from fluoroscope.report.accepted import read_accepted, review
from fluoroscope.report.gate import judge
from fluoroscope.report.risks import risks

TODAY = date(2026, 5, 1)
SETTING = "clip-and-noise 0.5"
ENTRY = """
[[accepted]]
id = "{id}"
level = "{level}"
owner = "privacy office"
reason = "the trial ends in June"
expires = {expires}
"""


def written(folder, *entries):
    (folder / "accepted.toml").write_text("".join(ENTRY.format(**entry) for entry in entries))
    return read_accepted(folder / "accepted.toml")


def of(audit, rule, setting=SETTING):
    return next(risk for risk in risks(audit) if (risk.rule.id, risk.defence) == (rule, setting))


@pytest.fixture
def found(audit):
    return read_findings(audit)


def entry(risk, level=None, expires="2026-06-30"):
    return {"id": risk.id, "level": level or risk.level, "expires": expires}


def test_an_acceptance_counts_until_its_last_day(found, tmp_path):
    risk = of(found, "reconstruction")
    accepted = written(tmp_path, entry(risk, expires="2026-05-01"))
    assert set(review(risks(found), accepted, TODAY).accepted) == {risk.id}
    over = review(risks(found), accepted, date(2026, 5, 2))
    assert not over.accepted
    assert over.remarks == (f"{risk.id} was accepted until 2026-05-01: that is over, and it counts again.",)


def test_what_has_changed_is_no_longer_accepted(found, tmp_path):
    risk = of(found, "reconstruction", "none")
    seen = review(risks(found), written(tmp_path, entry(risk, "unclear")), TODAY)
    assert not seen.accepted
    assert "was accepted as unclear, and is now: leaks" in seen.remarks[0]


def test_what_matches_nothing_or_holds_is_said(found, tmp_path):
    holds = of(found, "client-inference")
    ghost = {"id": "source-00000000", "level": "leaks", "expires": "2026-06-30"}
    seen = review(risks(found), written(tmp_path, ghost, entry(holds, "unclear")), TODAY)
    assert not seen.accepted
    assert "is no finding of this audit" in seen.remarks[0]
    assert "holds now" in seen.remarks[1]


def test_the_gate_passes_where_all_that_does_not_hold_is_accepted(found, tmp_path):
    needed = [of(found, rule) for rule in ("reconstruction", "crafted-model", "attacker")]
    for count in range(len(needed) + 1):
        seen = review(risks(found), written(tmp_path, *(entry(risk) for risk in needed[:count])), TODAY)
        judged = judge(found, [], SETTING, review=seen)
        assert judged.passed == (count == len(needed))
        assert {name for each in judged.levels for name in each.open} == {risk.id for risk in needed[count:]}
    assert not judge(found, [], "none", review=seen).passed, "accepted under one setting is not under another"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('owner = "privacy office"\n', ""), "accepted.0.owner: Field required"),
        (('reason = "the trial ends in June"\n', ""), "accepted.0.reason: Field required"),
        (("expires = 2026-06-30\n", ""), "accepted.0.expires: Field required"),
        (("privacy office", "   "), "an owner and a reason need words"),
        (("2026-06-30", '"soon"'), "expires takes a day such as 2027-01-31, not 'soon'"),
        (("2026-06-30", "2026-06-30T10:00:00"), "expires takes a day"),
        (("owner", 'onwer = "x"\nowner'), "there is no key 'accepted.0.onwer'; did you mean 'owner'"),
        (('level = "leaks"', 'level = "holds"'), "accepted.0.level"),
        (("source-00000000", "the leak"), "accepted.0.id"),
    ],
)
def test_an_acceptance_without_its_parts_is_refused(tmp_path, change, message):
    text = ENTRY.format(id="source-00000000", level="leaks", expires="2026-06-30")
    (tmp_path / "accepted.toml").write_text(text.replace(*change))
    with pytest.raises(Misconfigured, match=message.split(" such")[0].replace("[", "\\[")):
        read_accepted(tmp_path / "accepted.toml")


def test_the_same_id_twice_is_refused(tmp_path):
    twice = {"id": "source-00000000", "level": "leaks", "expires": "2026-06-30"}
    with pytest.raises(Misconfigured, match="source-00000000 occurs twice"):
        written(tmp_path, twice, twice)


def test_no_file(tmp_path):
    with pytest.raises(BadInput, match="cannot read the list of accepted findings"):
        read_accepted(tmp_path / "none.toml")
