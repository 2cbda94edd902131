"""Attacks that guess who took part and whose image was trained on: scores of candidates, no images."""

from fluoroscope.attacks.inference import lira as _lira
from fluoroscope.attacks.inference import loss_threshold as _loss_threshold
from fluoroscope.attacks.inference import participation as _participation
from fluoroscope.attacks.inference import rmia as _rmia
from fluoroscope.attacks.inference import source as _source
from fluoroscope.attacks.inference.registry import INFERENCE_ATTACKS, InferenceAttack

__all__ = ["INFERENCE_ATTACKS", "InferenceAttack"]

del _lira, _loss_threshold, _participation, _rmia, _source
