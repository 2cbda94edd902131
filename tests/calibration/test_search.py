"""The search against a known threshold: right, near, and with few questions."""

import pytest

from fluoroscope.calibration.knobs import KNOBS
from fluoroscope.calibration.search import Knob, questions, weakest_safe
from fluoroscope.errors import Misconfigured


@pytest.mark.parametrize("threshold", [0.13, 1.0, 7.7, 42.0, 99.0])
def test_the_least_safe_value_is_found_to_ten_percent_with_at_most_twelve_attacks(threshold):
    found = weakest_safe(KNOBS["percentile-gaussian"], lambda value: value >= threshold)
    assert threshold <= found.least <= 1.1 * threshold
    assert len(found.tried) <= 12
    assert len(found.tried) <= questions(KNOBS["percentile-gaussian"], 0.1)
    assert len({value for value, _ in found.tried}) == len(found.tried), "nothing is asked twice"


def test_the_ends_are_answers_too():
    knob = Knob("x", 0.1, 10.0)
    assert weakest_safe(knob, lambda value: True).least == 0.1
    never = weakest_safe(knob, lambda value: False)
    assert never.least is None
    assert len(never.tried) == 1


@pytest.mark.parametrize("threshold", range(2, 16))
def test_whole_numbers_that_fall(threshold):
    """Fewer bits are stronger."""
    found = weakest_safe(KNOBS["quantisation"], lambda bits: bits <= threshold)
    assert found.least == threshold
    assert all(value == int(value) for value, _ in found.tried)


def test_a_precision_that_is_none_is_refused():
    with pytest.raises(Misconfigured, match="precision"):
        weakest_safe(Knob("x", 0.1, 10.0), lambda value: True, precision=0.0)


@pytest.mark.parametrize(
    ("knob", "value", "firmer"),
    [
        (Knob("noise", 0.1, 100.0), 3.0, 6.0),
        (Knob("noise", 0.1, 100.0), 70.0, 100.0),
        (Knob("epsilon", 100.0, 0.1), 3.0, 1.5),
        (Knob("bits", 16, 2, whole=True), 8, 7),
        (Knob("bits", 16, 2, whole=True), 2, 2),
        (Knob("sparsity", 0.1, 1.0, a_share=True), 0.9, 0.95),
    ],
)
def test_twice_as_strong(knob, value, firmer):
    assert knob.firmer(value, 2.0) == pytest.approx(firmer)
    assert knob.firmer(value, 1.0) == pytest.approx(value)
