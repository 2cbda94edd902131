"""What stands between a client and those who watch: one defence per file, at one of three seams."""

from fluoroscope.defences import (  # noqa: F401  # each file enters itself in the registry
    adaptive_clipping,
    central_dp,
    clip_and_noise,
    clipping,
    dp_sgd,
    fed_bn,
    hidden_layers,
    homomorphic,
    local_dp,
    metric_privacy,
    percentile_gaussian,
    percentile_privacy,
    pruning,
    quantisation,
    svt_privacy,
)
from fluoroscope.defences.chain import NO_DEFENCE, Chain, chain
from fluoroscope.defences.contract import (
    AdaptiveServerDefence,
    CountedDefence,
    Defence,
    Participation,
    Released,
    SealingDefence,
    ServerDefence,
    StatisticsDefence,
    TrainingDefence,
    UpdateDefence,
    WholeStateDefence,
)
from fluoroscope.defences.registry import DEFENCES

__all__ = [
    "DEFENCES",
    "NO_DEFENCE",
    "AdaptiveServerDefence",
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
    "WholeStateDefence",
    "chain",
]
