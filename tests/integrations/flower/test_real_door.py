"""The mods with the real door: what cannot be read stands in its ledger, once, without what it held."""

from flwr.app import ConfigRecord

from fluoroscope.federation.guard import REFUSED
from fluoroscope.integrations.flower import site_mod
from fluoroscope.site.control import SiteControl, Subject
from fluoroscope.site.ledger import Ledger, read_ledger, verify_ledger
from fluoroscope.site.policy import Policy

from .conftest import NETWORK, context, message, stock_app


def test_an_unreadable_message_stands_in_the_ledger_once(tmp_path):
    control = SiteControl(Policy(), Ledger(tmp_path / "ledger.jsonl"), Subject(NETWORK))
    hidden = {"more": ConfigRecord({"weights": b"patient-17" * 500})}
    for _ in range(2):
        reply = stock_app([site_mod(control)])(message(records=hidden), context())
        assert reply.error.code == REFUSED
    assert not verify_ledger(control.ledger.path).broken
    (line,) = read_ledger(control.ledger.path)
    assert (line.direction, line.round, line.decision) == ("in", 3, "withhold")
    assert "patient" not in control.ledger.path.read_text()


def test_a_door_whose_ledger_cannot_be_written_is_shut(tmp_path):
    (tmp_path / "ledger.jsonl").mkdir()
    control = SiteControl(Policy(), Ledger(tmp_path / "ledger.jsonl"), Subject(NETWORK))
    for records in (None, {"more": ConfigRecord({"weights": b"x" * 5000})}):
        assert stock_app([site_mod(control)])(message(records=records), context()).error.code == REFUSED
