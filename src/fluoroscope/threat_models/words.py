"""The three threats in words that a privacy officer reads (spec section 1)."""

from typing import TypedDict


class Words(TypedDict):
    """What is assumed of an attacker."""

    title: str
    short: str
    """Who it is, in a sentence."""
    assumed: list[str]
    can: list[str]
    cannot: list[str]


THREATS_IN_WORDS: dict[str, Words] = {
    "curious-server": {
        "title": "A curious server",
        "short": "a server that looks",
        "assumed": [
            "Follows the protocol, and looks at what it is sent.",
            "Knows the network, the training configuration and how many images each hospital has.",
            "Knows which defence a hospital uses and how it is set, not what it draws at random.",
            "Owns public images of the same kind: their mean is its first guess, and it rehearses rounds on them.",
        ],
        "can": [
            "See one hospital's update by itself, with its BatchNorm statistics where they are sent.",
            "Play that hospital's rounds again and again on public images, behind the same defence.",
            "Read the number of images and the loss that every hospital sends with its update.",
        ],
        "cannot": ["Change the model or the protocol.", "See the images or the labels."],
    },
    "malicious-server": {
        "title": "A malicious server",
        "short": "a server that cheats",
        "assumed": [
            "Sends a model that it has crafted, another one to its victim than to the others.",
            "Owns images of the same kind, to which it fits the model.",
        ],
        "can": ["Change the network and its weights."],
        "cannot": ["See a single hospital's update: Flower's SecAgg+ shows it the sum alone."],
    },
    "curious-client": {
        "title": "A curious hospital",
        "short": "another hospital that takes part",
        "assumed": [
            "Takes part in the training, and wants to know whether another hospital does.",
            "Has a few images like those of the hospital that it looks for.",
        ],
        "can": ["See the global model and the aggregated loss after every round."],
        "cannot": ["See any other hospital's update.", "Change the protocol."],
    },
}
