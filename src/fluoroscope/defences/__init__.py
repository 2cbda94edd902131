"""What stands between a client and those who watch: one defence per file, at one of three seams."""

from fluoroscope.defences import (  # noqa: F401  # each file enters itself in the registry
    central_dp,
    clip_and_noise,
    clipping,
    dp_sgd,
    fed_bn,
    hidden_layers,
    homomorphic,
    metric_privacy,
    percentile_gaussian,
    pruning,
    quantisation,
)
from fluoroscope.defences.chain import NO_DEFENCE, Chain, chain
from fluoroscope.defences.contract import (
    CountedDefence,
    Defence,
    Participation,
    Released,
    SealingDefence,
    ServerDefence,
    StatisticsDefence,
    TrainingDefence,
    UpdateDefence,
)
from fluoroscope.defences.registry import DEFENCES

__all__ = [
    "DEFENCES",
    "NO_DEFENCE",
    "Chain",
    "CountedDefence",
    "Defence",
    "Participation",
    "Released",
    "SealingDefence",
    "ServerDefence",
    "StatisticsDefence",
    "TrainingDefence",
    "UpdateDefence",
    "chain",
]
