"""Images find their shapes on a coarse grid first, with few unknowns, and details follow.

Pixel by pixel, images that start alike share out what their batches' mean statistics say, and none gets anywhere; and
a single image ends in one of the many local minima that its fine structure has.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from fluoroscope.attacks.common.checkpoint import Checkpoint
from fluoroscope.attacks.common.engine import Budget, descend
from fluoroscope.attacks.common.optimisers import Adam, Schedule
from fluoroscope.attacks.gradient_inversion.row_layout import Evaluated, Layout, ObjectiveAndGradients, one_by_one


class OnAGrid:
    """A client as a function of what is added to `base` on a grid of fewer points, drawn smoothly between them."""

    def __init__(self, client: Evaluated, base: Tensor, divisor: int, box: tuple[float, float] | None) -> None:
        self.shape = (*base.shape[:2], *(max(1, side // divisor) for side in base.shape[2:]))
        self._client, self._base, self._box = client, base, box

    def images(self, grid: Tensor) -> Tensor:
        size = self._base.shape[2:]
        drawn = self._base + nn.functional.interpolate(grid, size=size, mode="bicubic", align_corners=False)
        return drawn if self._box is None else drawn.clamp(*self._box)

    def evaluate(self, grid: Tensor, logits: Tensor) -> ObjectiveAndGradients:
        """The client's objective at the images that the grid draws."""
        with torch.enable_grad():
            grid = grid.detach().requires_grad_()
            images = self.images(grid)
        value, to_images, to_logits = self._client.evaluate(images.detach(), logits)
        (to_grid,) = torch.autograd.grad(images, grid, to_images)
        return value, to_grid, to_logits


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
        client: Evaluated,
        images: Tensor,
        logits: Tensor,
        box: tuple[float, float] | None,
        rng: torch.Generator,
        on_iteration: Callable[[int], None],
        checkpoint: Checkpoint | None = None,
        key: str = "",
    ) -> Tensor:
        """Better images to start from than `images`; the labels are held."""
        for number, divisor in enumerate(self.divisors):
            on_grid = OnAGrid(client, images, divisor, box)
            grid = images.new_zeros(on_grid.shape)
            if number == 0:
                grid = self.noise * torch.randn(on_grid.shape, generator=rng).to(images)
            layout = Layout(on_grid.shape, logits[None], optimised=False)
            outcome = descend(
                layout.over(one_by_one([on_grid])),
                grid.flatten()[None],
                Adam(self.lr),
                Schedule(warmup=10, decay="cosine"),
                Budget(self.iterations),
                on_iteration=partial(_report, on_iteration, number * self.iterations),
                keeper=None if checkpoint is None else checkpoint.keeper(number, key),
            )
            images = on_grid.images(outcome.best.reshape(on_grid.shape)).detach()
        return images


def _report(on_iteration: Callable[[int], None], done: int, iteration: int) -> None:
    on_iteration(done + iteration)
