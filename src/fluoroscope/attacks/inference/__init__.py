"""Attacks that guess who took part, whose image was trained on and how many have which label or property: no images."""

from fluoroscope.attacks.inference import learned_counts as _learned_counts
from fluoroscope.attacks.inference import learned_share as _learned_share
from fluoroscope.attacks.inference import lira as _lira
from fluoroscope.attacks.inference import loss_threshold as _loss_threshold
from fluoroscope.attacks.inference import loss_trajectory as _loss_trajectory
from fluoroscope.attacks.inference import participation as _participation
from fluoroscope.attacks.inference import restored_counts as _restored_counts
from fluoroscope.attacks.inference import rmia as _rmia
from fluoroscope.attacks.inference import source as _source
from fluoroscope.attacks.inference.label_counts import LABEL_COUNT_ATTACKS, LabelCountAttack
from fluoroscope.attacks.inference.property import PROPERTY_ATTACKS, PropertyAttack, Share
from fluoroscope.attacks.inference.registry import INFERENCE_ATTACKS, InferenceAttack

__all__ = [
    "INFERENCE_ATTACKS",
    "LABEL_COUNT_ATTACKS",
    "PROPERTY_ATTACKS",
    "InferenceAttack",
    "LabelCountAttack",
    "PropertyAttack",
    "Share",
]

del _learned_counts, _learned_share, _lira, _loss_threshold, _loss_trajectory, _participation, _restored_counts
del _rmia, _source
