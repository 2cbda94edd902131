"""The rules that findings are rated by, one per kind of attack: what is asked, how grave a leak is, what to do."""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["critical", "high", "medium", "low", "unknown", "none"]
"""`unknown`: nobody has shown that it leaks, and nobody that it does not."""


@dataclass(frozen=True)
class RiskRule:
    """What is asked of every setting."""

    id: str
    name: str
    title: str
    asks: str
    severity: Severity
    """Where it leaks."""
    remedy: str


RISK_RULES = (
    RiskRule(
        "reconstruction", "Reconstruction", "Images recovered from an update",
        "From one client's update no attack recovers an image that is told apart from other patients' images.",
        "critical", "Use the recommended setting, or search for one with `fluoroscope calibrate`.",
    ),
    RiskRule(
        "crafted-model", "CraftedModel", "Images read out by a crafted model",
        "A model that the server crafted reads no image out of a client's update.",
        "critical", "Let every client inspect a model before it trains it (the guard).",
    ),
    RiskRule(
        "membership", "Membership", "Who was trained on",
        "Nobody tells whether an image was among a client's training images better than by guessing.",
        "high", "Train with differential privacy, or on more images for fewer rounds.",
    ),
    RiskRule(
        "source", "Source", "Which hospital an image came from",
        "Nobody tells which client an image was trained by better than by guessing.",
        "medium", "Train with differential privacy, or on more images for fewer rounds.",
    ),
    RiskRule(
        "client-inference", "ClientInference", "Which hospitals take part",
        "Nobody tells whether a client takes part better than by guessing.",
        "medium", "Clip and noise the aggregate, or say openly who takes part.",
    ),
    RiskRule(
        "label-counts", "LabelCounts", "How many patients have which finding",
        "From one client's update nobody tells the numbers of its labels better than from public images.",
        "medium", "Use the recommended setting, or aggregate updates before anybody sees one.",
    ),
    RiskRule(
        "claim", "Claim", "What the defence claims",
        "Canaries prove no larger epsilon than the defence claims.",
        "critical", "Do not rely on this defence: its implementation or its accounting is wrong.",
    ),
    RiskRule(
        "attacker", "Attacker", "An attacker of whom no kind of attack is told",
        "Every attacker of the plan is tried, and each kind of attack is told by itself.",
        "critical", "Run the audit again with this version; finished cells are not run twice.",
    ),
)  # fmt: skip
"""All of them, whether an audit tried them or not."""

_BY_ID = {rule.id: rule for rule in RISK_RULES}


def rule_of(kind: str) -> RiskRule:
    """The rule of a kind of attack; the attacker's own where there is none.

    Example:
        >>> rule_of("membership").severity
        'high'
    """
    return _BY_ID.get(kind, _BY_ID["attacker"])
