"""The optimisation attacks of the papers, as declarations (spec section 3.1)."""

from dataclasses import replace

from fluoroscope.attacks.closed_form.rgap.attack import RGap
from fluoroscope.attacks.common.engine import Budget
from fluoroscope.attacks.common.initialisation import Initialisation, Normal, TransformedGaussian, Uniform
from fluoroscope.attacks.common.lbfgs import BatchedLbfgs
from fluoroscope.attacks.common.optimisers import Adam, Schedule
from fluoroscope.attacks.gradient_inversion.attack import Inversion
from fluoroscope.attacks.gradient_inversion.distances import (
    AdaptiveGaussian,
    Cosine,
    Distance,
    Gaussian,
    LayerL2,
    RelativeLayerL2,
    SquaredL2,
)
from fluoroscope.attacks.gradient_inversion.label_handling import Chosen, Inferred, Optimised, Restored
from fluoroscope.attacks.gradient_inversion.objective import Objective
from fluoroscope.attacks.gradient_inversion.regularisers import GroupConsistency, SquaredNorm, TotalVariation
from fluoroscope.attacks.gradient_inversion.simulated_clients.global_model import ModelObjective
from fluoroscope.attacks.gradient_inversion.simulated_clients.p1_public_code import P1PublicCode
from fluoroscope.attacks.gradient_inversion.stages import CoarseFirst, StatisticsFirst
from fluoroscope.attacks.gradient_inversion.surrogate import LearnedPoints
from fluoroscope.attacks.registry import ATTACKS


def _add(name: str, attack: Inversion) -> None:
    ATTACKS.add(name, replace(attack, name=name))


def _p4(distance: Distance, start: Initialisation) -> Inversion:
    """P4: image and label from the same distribution, L-BFGS at lr .1, 100 iterations, pixels free."""
    return Inversion(
        Objective(distance),
        start,
        Optimised(start),
        BatchedLbfgs(lr=0.1),
        Schedule(),
        Budget(100),
        box=None,
    )


# P1 without its gradient term: exact BatchNorm statistics and total variation alone.
_add(
    "bn-only",
    Inversion(Objective(batchnorm_weight=0.01, regularisers=(TotalVariation(4.0),)), stages=CoarseFirst()),
)

# P1, both terms, and what is left where the statistics are withheld.
BARE = Objective(RelativeLayerL2(), 1.0, regularisers=(TotalVariation(0.4), SquaredNorm(1e-4)))
BOTH = Objective(RelativeLayerL2(), 0.01, batchnorm_weight=0.01, regularisers=(TotalVariation(4.0), SquaredNorm(1e-4)))
EPOCHWISE = Inversion(
    BOTH,
    bare=BARE,
    budget=Budget(220),
    stages=StatisticsFirst(iterations=30, lr=0.003),
)
_add("epochwise", EPOCHWISE)
# The same for many steps and epochs in an order that nobody knows; see surrogate.py.
_add(
    "surrogate",
    replace(
        EPOCHWISE,
        objective=replace(BOTH, steps="surrogate"),
        bare=replace(BARE, steps="surrogate"),
        stages=LearnedPoints(iterations=30, lr=0.003),
    ),
)
# What P1's public code does instead; see p1.py.
_add(
    "p1-reference",
    Inversion(
        P1PublicCode(),
        optimiser=Adam(0.1, betas=(0.9, 0.9)),
        schedule=Schedule(warmup=100, decay="cosine"),
        budget=Budget(1000),
        box=None,
    ),
)

# Zhu et al. 2019 and Zhao et al. 2020: N(0, 1) for image and label, L-BFGS at its default lr.
DLG = replace(_p4(SquaredL2(), Normal()), optimiser=BatchedLbfgs(lr=1.0))
_add("dlg", DLG)
_add("idlg", replace(DLG, labels=Inferred()))

# Wang et al. 2020 with P4's best fixed lambda; then P4's four configurations.
_add("sapag", _p4(Gaussian(), TransformedGaussian()))
_add("eucl-tg", _p4(SquaredL2(), TransformedGaussian()))
_add("eucl-unif", _p4(SquaredL2(), Uniform()))
_add("ag-tg", _p4(AdaptiveGaussian(), TransformedGaussian()))
_add("ag-unif", _p4(AdaptiveGaussian(), Uniform()))

ATTACKS.add("r-gap", RGap())

# The next papers draw N(0, 1) in normalised pixels; 1/2 and 1/4 are about the same in pixels from 0 to 1.
MID_GREY = Normal(0.5, 0.25)


# Geiping et al. 2020. In training mode BatchNorm hides an image's contrast, so this is the one to expect the least of.
_add(
    "inverting-gradients",
    Inversion(
        Objective(Cosine(), regularisers=(TotalVariation(0.3),)),
        MID_GREY,
        Restored(),
        Adam(0.1, signed=True),
        Schedule(decay="steps"),
        Budget(1200),
    ),
)

# Yin et al. 2021, with the statistics of the client's batch where they had the model's running ones.
_add(
    "gradinversion",
    Inversion(
        Objective(LayerL2(), 0.001, batchnorm_weight=0.01, regularisers=(TotalVariation(1.0), SquaredNorm(1e-4))),
        MID_GREY,
        Restored(),
        Adam(0.1),
        Schedule(warmup=20, decay="cosine"),
        Budget(400),
        restarts=4,
        group=GroupConsistency(0.01),
    ),
)

# Yin et al. 2020.
_add(
    "deepinversion",
    Inversion(
        ModelObjective(batchnorm_weight=0.03, regularisers=(TotalVariation(0.3), SquaredNorm(1e-4))),
        MID_GREY,
        Chosen(),
        Adam(0.1),
        Schedule(warmup=20, decay="cosine"),
        Budget(400),
    ),
)
