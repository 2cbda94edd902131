"""What is safe: of the upper bounds, and never what could not be measured."""

import math
from dataclasses import replace

import pytest

from fluoroscope.calibration.measured import Leak
from fluoroscope.calibration.target import Target, parse_target
from fluoroscope.errors import Misconfigured
from fluoroscope.scores.intervals import Interval


def around(mean: float, half: float, n: int = 24) -> Interval:
    return Interval(mean, mean - half, mean + half, n)


QUIET = Leak(
    attack="ridge",
    leak=around(0.0, 0.01),
    told_apart=around(1 / 24, 0.1),
    chance=1 / 24,
    line_up=around(0.25, 0.1),
    line_up_chance=0.25,
    p_value=0.5,
    rdlv=around(0.05, 0.01),
    ssim=around(0.4, 0.05),
    gave_up=0,
    victims=24,
)


@pytest.mark.parametrize(
    ("text", "found", "met"),
    [
        ("holds", QUIET, True),
        ("holds", replace(QUIET, leak=around(0.01, 0.011)), False),
        ("holds", replace(QUIET, line_up=around(0.4, 0.11)), False),
        ("holds", replace(QUIET, p_value=0.04), False),
        ("holds", replace(QUIET, leak=Interval(0.0, math.nan, math.nan, 1)), False),
        ("leak<=.02", replace(QUIET, p_value=0.01), True),
        ("leak<=.005", QUIET, False),
        ("told-apart<=1.5x", QUIET, True),
        ("told-apart<=1.2x", QUIET, False),
        ("rdlv<=0", QUIET, False),
        (" rdlv <= .07 ", QUIET, True),
        ("ssim<=0.5", QUIET, True),
    ],
)
def test_targets_are_of_the_upper_bound(text, found, met):
    assert parse_target(text).met_by(found) is met


def test_they_are_read_and_written():
    for text in ("holds", "leak<=0.02", "told-apart<=2x", "rdlv<=0", "ssim<=0.5"):
        assert str(parse_target(text)) == text
    for wrong in ("rdlv<0", "psnr<=3", "rdlv<=", "0", "told-apart<=2", "hold"):
        with pytest.raises(Misconfigured, match="must read like"):
            parse_target(wrong)


def test_how_many_victims_would_show_it():
    """An interval twice too wide needs four times as many."""
    wide = replace(QUIET, leak=around(0.0, 0.04))
    assert Target("holds").needed(wide) == pytest.approx(4 * 24, abs=1)
    assert Target("holds").needed(QUIET) is None
    assert Target("holds").needed(replace(QUIET, leak=around(0.3, 0.04))) is None, "it leaks: no number shows otherwise"
