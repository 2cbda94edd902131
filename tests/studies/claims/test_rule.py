"""Rules decide by intervals: what they leave open is unclear, never agreed."""

import pytest

from fluoroscope.errors import BadInput
from fluoroscope.studies.claims.rule import Measured, Rule

A, B = Measured(0.9, 0.8, 1.0), Measured(0.5, 0.4, 0.6)


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("a > b", "agrees"),
        ("b > a", "differs"),
        ("a > 0.7", "agrees"),
        ("a > 0.85", "unclear"),
        ("a >= 1.2", "differs"),
        ("b < 0.6", "unclear"),
        ("b <= 0.6", "agrees"),
        ("a > 2 * b", "unclear"),
        ("a > 3 * b", "differs"),
        ("b > -1", "agrees"),
        ("a within 0.1 of 0.95", "agrees"),
        ("a within 0.1 of 0.75", "unclear"),
        ("a within 0.1 of b", "differs"),
    ],
)
def test_a_rule_is_decided_by_the_intervals(text, verdict):
    assert Rule.parse(text).verdict({"a": A, "b": B}) == verdict


def test_without_an_interval_the_numbers_decide():
    values = {"a": Measured(5.0), "b": Measured(5.0)}
    assert Rule.parse("a >= b").verdict(values) == "agrees"
    assert Rule.parse("a > b").verdict(values) == "differs"


@pytest.mark.parametrize("text", ["a", "a == b", "a > ", "__import__('os') > 1", "a within b of c", "a > b * 2"])
def test_what_is_no_rule_is_refused(text):
    with pytest.raises(BadInput, match="is no rule"):
        Rule.parse(text)


def test_a_rule_names_what_it_asks_for():
    assert Rule.parse("a > 2 * b").names == {"a", "b"}
    assert Rule.parse("a within 0.1 of 0.37").names == {"a"}
