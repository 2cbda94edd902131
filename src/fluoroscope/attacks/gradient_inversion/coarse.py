"""Images find their shapes on a coarse grid first, with few unknowns, and details follow.

Pixel by pixel, images that start alike share out what their batches' mean statistics say, and none gets anywhere; and
a single image ends in one of the many local minima that its fine structure has.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from fluoroscope.attacks.common.checkpoint import Checkpoint
from fluoroscope.attacks.common.engine import Budget, descend
from fluoroscope.attacks.common.optimisers import Adam, Schedule
from fluoroscope.attacks.gradient_inversion.row_layout import Layout, ObjectiveAndGradients, RowEvaluate


class OnAGrid:
    """Rows as functions of what is added to `base` on a grid of fewer points, drawn smoothly between them."""

    def __init__(self, evaluate: RowEvaluate, base: Tensor, divisor: int, box: tuple[float, float] | None) -> None:
        """`base` is (rows, n, channels, height, width)."""
        self.shape = (*base.shape[1:3], *(max(1, side // divisor) for side in base.shape[3:]))
        self._evaluate, self._base, self._box = evaluate, base, box

    def images(self, grids: Tensor, rows: Tensor) -> Tensor:
        base = self._base[rows]
        flat = nn.functional.interpolate(grids.flatten(0, 1), size=base.shape[3:], mode="bicubic", align_corners=False)
        drawn = base + flat.view_as(base)
        return drawn if self._box is None else drawn.clamp(*self._box)

    def __call__(self, grids: Tensor, logits: Tensor, rows: Tensor) -> ObjectiveAndGradients:
        """The objective at the images that the grids draw, as any RowEvaluate."""
        with torch.enable_grad():
            grids = grids.detach().requires_grad_()
            images = self.images(grids, rows)
        value, to_images, to_logits = self._evaluate(images.detach(), logits, rows)
        (to_grids,) = torch.autograd.grad(images, grids, to_images)
        return value, to_grids, to_logits


@dataclass(frozen=True)
class CoarseToFine:
    """Descents on grids of an eighth, a quarter and a half of the image's size, each from where the last one ended."""

    divisors: tuple[int, ...] = (8, 4, 2)
    iterations: int = 120
    """On each grid."""
    lr: float = 0.1
    noise: float = 0.05
    """Standard deviation on the first grid: something must tell several images apart."""

    @property
    def total(self) -> int:
        """Iterations in all."""
        return len(self.divisors) * self.iterations

    def __call__(
        self,
        evaluate: RowEvaluate,
        images: Tensor,
        logits: Tensor,
        box: tuple[float, float] | None,
        draws: Sequence[torch.Generator],
        on_iteration: Callable[[int], None],
        checkpoint: Checkpoint | None = None,
        key: str = "",
    ) -> Tensor:
        """Better images to start from than `images`, row by row, each with draws of its own; the labels are held."""
        rows = torch.arange(len(images))
        for number, divisor in enumerate(self.divisors):
            on_grid = OnAGrid(evaluate, images, divisor, box)
            grids = images.new_zeros(len(images), *on_grid.shape)
            if number == 0:
                drawn = torch.stack([torch.randn(on_grid.shape, generator=rng) for rng in draws])
                grids = self.noise * drawn.to(images)
            layout = Layout(on_grid.shape, logits, optimised=False)
            outcome = descend(
                layout.over(on_grid),
                grids.flatten(1),
                Adam(self.lr),
                Schedule(warmup=10, decay="cosine"),
                Budget(self.iterations),
                on_iteration=partial(_report, on_iteration, number * self.iterations),
                keeper=None if checkpoint is None else checkpoint.keeper(number, key),
            )
            images = on_grid.images(outcome.best.view_as(grids), rows).detach()
        return images


def _report(on_iteration: Callable[[int], None], done: int, iteration: int) -> None:
    on_iteration(done + iteration)
