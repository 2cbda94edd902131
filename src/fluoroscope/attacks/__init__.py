"""Attacks: from an Observation to a guess. None of them can reach the truth."""

from fluoroscope.attacks.closed_form import patches as _patches
from fluoroscope.attacks.closed_form import span as _span
from fluoroscope.attacks.gradient_inversion import named as _named
from fluoroscope.attacks.learned import cocktail_party as _cocktail_party
from fluoroscope.attacks.learned import decoder as _decoder
from fluoroscope.attacks.learned import feature_decoder as _feature_decoder
from fluoroscope.attacks.learned import map_inversion as _map_inversion
from fluoroscope.attacks.learned import ridge as _ridge
from fluoroscope.attacks.learned import start as _start
from fluoroscope.attacks.registry import ATTACKS, Attack, check_applies

__all__ = ["ATTACKS", "Attack", "check_applies"]

del _cocktail_party, _decoder, _feature_decoder, _map_inversion, _named, _patches, _ridge, _span, _start
