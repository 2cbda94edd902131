"""P1's figures 3, 5, 6 and 7: `Do Gradient Inversion Attacks Make Federated Learning Unsafe?`

The paper prints few numbers: the prior's SSIM with the high-risk client's image is .37 (section III-D). What only
its plots show is not copied here.
"""

from dataclasses import replace
from typing import Any, Literal

from fluoroscope.studies.p1 import figures as draw
from fluoroscope.studies.p1.cells import Inverted, Without
from fluoroscope.studies.p1.federation import STAGES
from fluoroscope.studies.study import Settings, Size, Study, enter

SIZES: tuple[Literal["small", "paper"], ...] = ("small", "paper")
VICTIMS: dict[Size, int] = {"small": 12, "paper": 20}
"""Clients of one image; of clients with several, as many as have these images together."""
PRIOR_SSIM = {"ssim_prior": 0.37}
BUDGETS = {"epochwise": 100, "bn-only": 100, "inverting-gradients": 150, "p1-reference": 200}
"""Iterations in the small size; in the paper's, an attack has its own."""


def _full(size: Size, attack: str = "epochwise", **changes: Any) -> Inverted:  # noqa: ANN401  # fields of Inverted
    """P1's attack, or another, on the high-risk client late in training."""
    iterations = BUDGETS.get(attack) if size == "small" else None
    cell = replace(Inverted(attack, size, STAGES[size][-1], VICTIMS[size], iterations=iterations), **changes)
    return replace(cell, victims=cell.victims // (cell.batch_size * cell.local_steps))


def _ablation(size: Size) -> list[Inverted]:
    deprived: tuple[Without, ...] = ("nothing", "bn loss", "checkpoint", "prior", "right prior")
    others = ("inverting-gradients", "p1-reference", "bn-only", "span")
    early = STAGES[size][1]  # P1: round 10 of 100
    return [_full(size, without=what, round=early) for what in deprived] + [
        _full(size, name, round=early) for name in others
    ]


def _stages(size: Size) -> list[Inverted]:
    return [_full(size, round=r, start=start) for start in ("pretrained", "scratch") for r in STAGES[size]]


def _batches(size: Size) -> list[Inverted]:
    deprived: tuple[Without, ...] = ("nothing", "bn loss", "prior")
    sizes = (1, 4) if size == "small" else (1, 2, 4, 8)
    ours = [_full(size, batch_size=n, without=what) for what in deprived for n in sizes]
    return ours + [_full(size, "inverting-gradients", batch_size=n) for n in sizes]


def _steps(size: Size) -> list[Inverted]:
    counts = (1, 2, 4) if size == "small" else (1, 2, 4, 8)
    return [_full(size, local_steps=n, without=what) for what in ("nothing", "unrolling") for n in counts]


def _noise(size: Size) -> list[Inverted]:
    levels = (0.0, 10.0, 50.0) if size == "small" else (0.0, 1.0, 5.0, 10.0, 25.0, 50.0)
    return [_full(size, sigma0=level) for level in levels]


def _high_risk(row: Settings) -> dict[str, float] | None:
    one_image = row["batch_size"] == row["local_steps"] == 1
    return dict(PRIOR_SSIM) if one_image else None


enter(
    Study(
        "p1/fig-3",
        "What the attack on the high-risk client needs",
        "Without the BN loss or the current checkpoint the attack fails; without a prior, or with a wrong one, the "
        "reconstruction lacks anatomical coherence.",
        {size: _ablation(size) for size in SIZES},
        draw.pictures,
    ),
    Study(
        "p1/fig-5",
        "Leakage by training stage, and from scratch",
        "Later rounds leak more; a network trained from scratch gives less recognisable inversions.",
        {size: _stages(size) for size in SIZES},
        draw.by_round,
    ),
    Study(
        "p1/fig-6",
        "Leakage by batch size, local steps and noise",
        "Larger batches, more local steps and more noise all reduce the leak; the BN loss and the prior both matter.",
        {size: [*_batches(size), *_steps(size), *_noise(size)] for size in SIZES},
        draw.quantified,
        _high_risk,
    ),
    Study(
        "p1/fig-7",
        "SSIM of prior and reconstruction, name and date of birth burned in",
        "A reconstruction whose SSIM is at or below the prior's (.37) leaked nothing useful; noise brings it there.",
        {size: [replace(cell, burn_in=True) for cell in _noise(size)] for size in SIZES},
        draw.pictures,
        _high_risk,
    ),
)
