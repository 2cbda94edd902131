"""NVFlare's SVTPrivacy: a random part of the update, cut and with Laplace noise, by the sparse vector technique.

What a round costs, for two clients whose updates may differ in everything (relation: replace). d numbers leave, c =
ceil(fraction * d) are asked for, every one is cut to -gamma..gamma, and its size to 0..gamma:

- The threshold has noise of scale gamma / epsilon_threshold, and a size moves by gamma at most: epsilon_threshold.
- A number is accepted where its size with noise of scale 2 c gamma / epsilon_query exceeds the threshold. Moving the
  threshold along makes refusals free, and an acceptance costs epsilon_query / c (Lyu, Su and Li 2017). The
  technique stops at c acceptances. This filter does not: it accepts all that exceed the threshold, and chooses c of
  them afterwards, so what is bounded is d acceptances: epsilon_query * d / c, ten times what its own ledger says.
- Each chosen number has range 2 gamma and leaves with noise of scale 2 c gamma / epsilon_release: epsilon_release / c.
  By default epsilon_release is c * noise_var. So every number costs noise_var, and a network of ten million weights a
  hundred thousand.

The sum holds with delta = 0. At a delta above 0 the same noise counts less (Renyi DP): the claim is the smaller.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from fluoroscope.defences import accounting
from fluoroscope.defences.accounting import DELTA
from fluoroscope.defences.contract import Participation, dp_claim, scalars_void
from fluoroscope.defences.range_checks import above, at_least
from fluoroscope.defences.registry import DEFENCES
from fluoroscope.defences.whole_state import changes, with_changes
from fluoroscope.errors import Misconfigured
from fluoroscope.types import PrivacyClaim, UpdateRecord

Draws = np.random.Generator | np.random.RandomState


@dataclass(frozen=True)
class SvtBudget:
    """What one round may spend, as the filter splits it; delta is 0."""

    chosen: int
    """c: how many numbers are released."""
    threshold: float
    query: float
    """For c acceptances, as the filter counts it."""
    release: float
    values: int
    """d: of how many."""

    @property
    def selection(self) -> float:
        """What choosing costs, whatever is accepted."""
        return self.threshold + self.query * self.values / self.chosen

    @property
    def total(self) -> float:
        """What the round costs."""
        return self.selection + self.release

    @property
    def ledger(self) -> float:
        """What the filter's own accountant writes down."""
        return self.threshold + self.query + self.release


@DEFENCES.register("svt-privacy")
@dataclass(frozen=True)
class SvtPrivacy:
    """A fraction of the changes per step, cut to `gamma` and with Laplace noise; the rest is sent as 0.

    Parameters and BatchNorm's statistics alike, as NVFlare 2.9 does to a DXO of the kind WEIGHT_DIFF. Single numbers
    (arrays without a dimension) pass as they are.

    Example:
        >>> budget = SvtPrivacy().budget(values=11_000_000)
        >>> budget.chosen, round(budget.ledger, 1), round(budget.total, 1)
        (1100000, 110000.1, 110001.0)
    """

    fraction: float = 0.1
    """How much of the update is asked for."""
    epsilon: float = 0.1
    """Of the choice alone, as NVFlare counts it."""
    noise_var: float = 0.1
    """Where `epsilon_release` is not given: the epsilon of each number that is released. More of it is less noise."""
    gamma: float = 1e-5
    """The largest change per step."""
    tau: float = 1e-6
    """The size from which a change is likely to be chosen."""
    replace: bool = True
    """Whether a number may be chosen twice, so that fewer are sent."""
    epsilon_threshold: float | None = None
    epsilon_query: float | None = None
    """Together `epsilon`; without them 1 : (2 c)^(2/3)."""
    epsilon_release: float | None = None
    """Of all numbers that are released, together."""
    steps: int | None = None
    """What the client reports as NUM_STEPS_CURRENT_ROUND; None: its true number of steps. 1 where it reports none."""
    delta: float = DELTA

    def __post_init__(self) -> None:
        above("fraction", self.fraction, 0, below=math.nextafter(1, 2))
        above("delta", self.delta, 0, below=1)
        if not math.isfinite(self.tau):
            raise Misconfigured(f"tau must be a number, not {self.tau}.")
        for name in ("epsilon", "noise_var", "gamma", "epsilon_threshold", "epsilon_query", "epsilon_release"):
            if getattr(self, name) is not None:
                above(name, getattr(self, name), 0)
        if self.steps is not None:
            at_least("steps", self.steps, 1)
        self.budget(1)  # the parts of epsilon have to fit

    def budget(self, values: int) -> SvtBudget:
        """What a round costs in which so many numbers leave.

        Raises:
            Misconfigured: the parts of epsilon do not add up to it.
        """
        chosen = min(values, math.ceil(self.fraction * values))
        threshold, query = self.epsilon_threshold, self.epsilon_query
        if threshold is None:
            threshold = self.epsilon / (1 + (2 * chosen) ** (2 / 3)) if query is None else self.epsilon - query
        if query is None:
            query = self.epsilon - threshold
        if threshold <= 0 or query <= 0 or not math.isclose(threshold + query, self.epsilon, rel_tol=1e-5):
            raise Misconfigured(
                f"epsilon_threshold {threshold:g} and epsilon_query {query:g} must be above 0 and add up to epsilon = "
                f"{self.epsilon:g}: leave one of them out."
            )
        release = self.epsilon_release or chosen * self.noise_var
        return SvtBudget(chosen, threshold, query, release, values)

    def claim(self, participation: Participation) -> PrivacyClaim:
        if participation.open_scalars:
            return scalars_void()
        if participation.values is None:
            return PrivacyClaim(
                statement="not differential privacy that could be counted: epsilon grows with the number of weights, "
                "which is not known here"
            )
        rounds, budget = participation.rounds, self.budget(participation.values)
        released = accounting.laplace(budget.chosen / budget.release, budget.chosen * rounds)
        counted = accounting.epsilon(
            accounting.together(accounting.pure(budget.selection, rounds), released), self.delta
        )
        at_delta_0 = budget.total * rounds
        spent = at_delta_0 if counted is None else min(counted, at_delta_0)
        told = (
            f"local DP for all images of a client at once, of its update; {at_delta_0:.6g} with a delta of 0. How many "
            "images they are counts as public"
        )
        return dp_claim(spent, self.delta, "client", "replace", "local", told)

    def send(self, record: UpdateRecord, rng: torch.Generator) -> UpdateRecord:
        steps = self.steps or record.training.steps
        plain = {name: change.cpu().numpy() for name, change in sorted(changes(record).items())}
        flat = np.concatenate([value.ravel().astype(np.float64) for value in plain.values()]) / steps
        draws = np.random.default_rng(int(torch.randint(2**62, (), generator=rng)))
        parts = np.split(self.released(flat, draws) * steps, np.cumsum([value.size for value in plain.values()])[:-1])
        left = {
            name: torch.as_tensor(value if value.ndim == 0 else part.reshape(value.shape))
            for (name, value), part in zip(plain.items(), parts, strict=True)
        }
        return with_changes(record, left)

    def released(self, values: NDArray[np.float64], draws: Draws) -> NDArray[np.float64]:
        """What is sent in the place of these changes per step; `draws` are used in the order of the filter's own."""
        budget = self.budget(values.size)
        threshold = self.tau + draws.laplace(scale=self.gamma / budget.threshold)
        cut = values.clip(-self.gamma, self.gamma)
        sizes, scale = np.abs(cut), 2 * self.gamma * budget.chosen / budget.query
        waiting, accepted = np.arange(values.size), np.zeros(values.size, bool)
        while values.size - waiting.size < budget.chosen:  # who was refused is asked again
            above_it = sizes[waiting] + draws.laplace(scale=scale, size=waiting.size) >= threshold
            accepted[waiting[above_it]] = True
            waiting = waiting[~above_it]
        chosen = draws.choice(np.flatnonzero(accepted), size=budget.chosen, replace=self.replace)
        noise = draws.laplace(scale=2 * self.gamma * budget.chosen / budget.release, size=budget.chosen)
        sent = np.zeros_like(values)
        sent[chosen] = cut[chosen] + noise  # of a number that was chosen twice, one value leaves
        return sent
