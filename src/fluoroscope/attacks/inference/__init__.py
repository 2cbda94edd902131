"""Attacks that guess who took part, whose image was trained on and how many have which label: no images."""

from fluoroscope.attacks.inference import learned_counts as _learned_counts
from fluoroscope.attacks.inference import lira as _lira
from fluoroscope.attacks.inference import loss_threshold as _loss_threshold
from fluoroscope.attacks.inference import participation as _participation
from fluoroscope.attacks.inference import restored_counts as _restored_counts
from fluoroscope.attacks.inference import rmia as _rmia
from fluoroscope.attacks.inference import source as _source
from fluoroscope.attacks.inference.label_counts import LABEL_COUNT_ATTACKS, LabelCountAttack
from fluoroscope.attacks.inference.registry import INFERENCE_ATTACKS, InferenceAttack

__all__ = ["INFERENCE_ATTACKS", "LABEL_COUNT_ATTACKS", "InferenceAttack", "LabelCountAttack"]

del _learned_counts, _lira, _loss_threshold, _participation, _restored_counts, _rmia, _source
