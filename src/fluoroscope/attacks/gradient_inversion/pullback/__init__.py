"""A client's single step as a function of its images and labels, and the pullback of what an attack compares."""

from fluoroscope.attacks.gradient_inversion.pullback.autograd import AutogradPullback
from fluoroscope.attacks.gradient_inversion.pullback.choice import pullback_for
from fluoroscope.attacks.gradient_inversion.pullback.contract import Pullback, Statistics, Tape
from fluoroscope.attacks.gradient_inversion.pullback.statistics import (
    StatisticsPullback,
    StatisticsTape,
    SweptStatistics,
)
from fluoroscope.attacks.gradient_inversion.pullback.tangent import TangentPullback

__all__ = [
    "AutogradPullback",
    "Pullback",
    "Statistics",
    "StatisticsPullback",
    "StatisticsTape",
    "SweptStatistics",
    "TangentPullback",
    "Tape",
    "pullback_for",
]
