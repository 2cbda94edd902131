"""The optimisation attacks of the papers, as declarations (spec section 3.1)."""

from fluoroscope.attacks.inversion.attack import Inversion
from fluoroscope.attacks.inversion.priors import TotalVariation
from fluoroscope.attacks.inversion.simulation import Objective
from fluoroscope.attacks.registry import ATTACKS

# P1 without its gradient term: exact BatchNorm statistics and total variation alone.
ATTACKS.add("bn-only", Inversion(Objective(batchnorm_weight=0.01, priors=(TotalVariation(4.0),))))
