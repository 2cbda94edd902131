import pytest

from fluoroscope.errors import Misconfigured
from fluoroscope.registry import Registry


def test_names_lead_to_parts():
    parts: Registry[int] = Registry("parts")
    parts.add("one", 1)
    assert parts.get("one") == 1
    assert "one" in parts
    assert list(parts) == ["one"]


def test_a_wrong_name_gets_the_nearest_and_all_known():
    parts: Registry[int] = Registry("parts")
    parts.add("resnet18", 1)
    parts.add("lenet5", 2)
    with pytest.raises(Misconfigured, match=r"'resnet-18'.*did you mean 'resnet18'\? Known: lenet5, resnet18"):
        parts.get("resnet-18")


def test_a_name_is_given_once():
    parts: Registry[int] = Registry("parts")
    parts.add("one", 1)
    with pytest.raises(Misconfigured, match="already has a part named 'one'"):
        parts.add("one", 2)


def test_third_parties_come_in_by_entry_point(monkeypatch):
    class Point:
        name = "theirs"

        def load(self):
            return 7

    monkeypatch.setattr("fluoroscope.registry.entry_points", lambda group: [Point()] if "parts" in group else [])
    assert Registry("parts").get("theirs") == 7


def test_a_former_name_leads_to_the_part_and_is_not_listed():
    parts: Registry[int] = Registry("parts")
    parts.alias("global", "central")
    parts.add("central", 1)
    assert parts.get("global") == parts.get("central") == 1
    assert "global" in parts
    assert list(parts) == ["central"]
    assert (parts.current("global"), parts.current("central")) == ("central", "central")
    with pytest.raises(Misconfigured, match=r"did you mean 'central'\? Known: central\."):
        parts.get("globl")
    for taken in ("global", "central"):
        with pytest.raises(Misconfigured, match=f"already has a part named '{taken}'"):
            parts.add(taken, 2)
        with pytest.raises(Misconfigured, match=f"already has a part named '{taken}'"):
            parts.alias(taken, "central")
