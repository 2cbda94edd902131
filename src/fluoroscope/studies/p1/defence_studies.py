"""P1's figures 4, 8, 9, 10 and 11: which clients leak, and what stops it."""

from fluoroscope.studies.p1 import defence_figures as draw
from fluoroscope.studies.p1.defended import HIGH_RISK, Defended
from fluoroscope.studies.p1.federation import STAGES, Named, Scale
from fluoroscope.studies.study import Size, Study, enter

SCALE: dict[Size, Scale] = {"small": "small-clients", "paper": "paper"}
LEARNED = "map-inversion"
"""Of the attackers that learn, the one for networks with BatchNorm."""
VICTIMS: dict[Size, int] = {"small": 12, "paper": 20}
"""Patients in the one-image client's place."""
SIZES: tuple[Size, ...] = ("small", "paper")


def _one(size: Size, client: int, late: bool = True, defence: tuple[Named, ...] = (), **more: str) -> Defended:
    scale = SCALE[size]
    server_round = STAGES[scale][-1 if late else 0]
    return Defended(client, scale, server_round, VICTIMS[size], defence, quick=size == "small", **more)


def _clients(size: Size) -> tuple[int, ...]:
    return (1, 3, 4, 9) if size == "small" else tuple(range(1, 10))


def _noise(sigma0: float) -> tuple[Named, ...]:
    return (("percentile-gaussian", (("noise_scale", sigma0),)),) if sigma0 else ()


def _by_noise(size: Size, data: str) -> list[Defended]:
    levels = (0.0, 1.0, 10.0, 50.0) if size == "small" else (0.0, 1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0)
    clients = [_one(size, client, defence=_noise(s), data=data) for s in levels for client in _clients(size)]
    return clients + [_one(size, HIGH_RISK, defence=_noise(s), data=data, attack_name=LEARNED) for s in levels]


def _by_round(size: Size) -> list[Defended]:
    return [_one(size, client, late) for late in (False, True) for client in _clients(size)]


def _nine(size: Size) -> list[Defended]:
    """Every client of P1 early and late; the one-image client and those of eight by attacks that P1 did not have."""
    scale: Scale = "nine" if size == "small" else "paper"
    first, *later = STAGES[scale]

    def attacked(client: int, server_round: int, attack: str = "epochwise") -> Defended:
        return Defended(client, scale, server_round, VICTIMS[size], attack_name=attack, quick=size == "small")

    by_p1 = [attacked(client, r) for r in (first, later[-1]) for client in range(1, 10)]
    beside = [attacked(HIGH_RISK, r, attack) for attack in ("span", LEARNED) for r in (first, *later)]
    return by_p1 + beside + [attacked(client, later[-1], "feature-decoder") for client in (1, 5)]


def _private(size: Size) -> list[Defended]:
    """DP-SGD needs a network without BatchNorm, which takes the statistics from P1's attack, but not from span."""
    levels = (
        ((1.0, 0.0), (1.0, 0.5), (1.0, 2.0))
        if size == "small"
        else tuple((clip, noise) for clip in (0.1, 1.0) for noise in (0.0, 0.1, 0.5, 1.0, 2.0))
    )
    private = [(("dp-sgd", (("clip_norm", clip), ("noise_multiplier", noise))),) for clip, noise in levels]
    defences: list[tuple[Named, ...]] = [(), *private]
    return [
        _one(size, HIGH_RISK, defence=defence, model="resnet18-gn", attack_name=attack)
        for attack in ("span", "epochwise", "ridge")
        for defence in defences
    ]


def _kept_at_home(size: Size) -> list[Defended]:
    hidden: tuple[Named, ...] = (("hidden-layers", (("layers", ("conv1", "bn1")),)),)
    fed_bn: list[tuple[Named, ...]] = [(("fed-bn", (("parameters", kept),)),) for kept in (False, True)]
    ways: tuple[tuple[Named, ...], ...] = ((), *fed_bn, hidden)
    return [_one(size, HIGH_RISK, defence=way, attack_name=name) for name in ("epochwise", "span") for way in ways]


enter(
    Study(
        "p1/fig-4",
        "Leakage by client and round, no defence",
        "Only the client with one image leaks; the others stay at the prior in every round.",
        {size: _by_round(size) for size in SIZES},
        draw.by_client,
    ),
    Study(
        "p1/nine-clients",
        "P1's nine clients, 30 rounds: P1's attack and others",
        "Only the client with one image leaks (fig. 4, with all nine clients).",
        {size: _nine(size) for size in SIZES},
        draw.by_client,
    ),
    Study(
        "p1/fig-8",
        "Leakage and accuracy by noise σ₀, chest",
        "With more noise the high-risk client's RDLV falls to 0 and below, and so does the test accuracy.",
        {size: _by_noise(size, "phantom/chest") for size in SIZES},
        draw.by_noise,
    ),
    Study(
        "p1/fig-8-fundus",
        "Leakage and accuracy by noise σ₀, fundus",
        "The same on retinal photographs.",
        {size: _by_noise(size, "phantom/fundus") for size in SIZES},
        draw.by_noise,
    ),
    Study(
        "p1/fig-9",
        "Leakage, accuracy and ε under DP-SGD",
        "DP-SGD prevents the leak at a greater cost in accuracy than noise on the update.",
        {size: _private(size) for size in SIZES},
        draw.by_epsilon,
    ),
    Study(
        "p1/fig-10",
        "Reconstructions among all clients' images: t-SNE of the embeddings",
        "The high-risk client's reconstruction lies by its image; those of others lie apart from theirs.",
        {size: [_one(size, client) for client in _clients(size)] for size in SIZES},
        draw.projected,
    ),
    Study(
        "p1/fig-11",
        "Image identifiability by k, with and without noise",
        "Noise brings identifiability down; it is highest for the high-risk client.",
        {size: [_one(size, c, defence=_noise(s)) for s in (0.0, 10.0) for c in _clients(size)] for size in SIZES},
        draw.by_k,
        curves=True,
    ),
    Study(
        "frontier/kept-at-home",
        "The one-image client: BatchNorm or the first layer stay at home",
        "P1 section IV names both as defences without measuring them.",
        {size: _kept_at_home(size) for size in SIZES},
        draw.by_defence,
    ),
)
