"""Large images as a sum of grids, from coarse to fine: a descent moves broad parts of one as fast as single pixels.

Adam moves every coordinate by about its step size, whatever the gradient is. Where these are pixels, a change of
brightness over half an image takes as many steps as it takes a pixel, and is undone by its neighbours meanwhile.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fluoroscope.attacks.common.descent import Evaluate

COARSEST = 7
"""Points of the coarsest grid's shorter side, at least."""


@dataclass(frozen=True, eq=False)
class Pyramid:
    """What is added to `start` (n, channels, h, w) on grids that have half the points each time, in [0, 1]."""

    start: Tensor

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Of the grids, the finest first: one number per pixel."""
        sides = [tuple(self.start.shape[2:])]
        while min(sides[-1]) // 2 >= COARSEST:
            sides.append(tuple(side // 2 for side in sides[-1]))
        return [(*self.start.shape[:2], *each) for each in sides]

    @property
    def origin(self) -> Tensor:
        """(1, coordinates): where the images are `start`."""
        return self.start.new_zeros(1, sum(torch.Size(shape).numel() for shape in self.shapes))

    def images(self, coordinates: Tensor) -> Tensor:
        """Those of one row of coordinates."""
        return self._drawn(coordinates).clamp(0, 1)

    def over(self, evaluate: Evaluate) -> Evaluate:
        """The same objective, of coordinates in the place of pixels.

        A pixel at the end of its range is moved as if it were not: what pulls it back may come from a coarser grid.
        """

        def of_coordinates(x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
            with torch.enable_grad():
                x = x.detach().requires_grad_()
                drawn = torch.stack([self._drawn(row).flatten() for row in x])
            values, to_pixels = evaluate(drawn.detach().clamp(0, 1), rows)
            (to_coordinates,) = torch.autograd.grad(drawn, x, to_pixels)
            return values, to_coordinates

        return of_coordinates

    def _drawn(self, coordinates: Tensor) -> Tensor:
        shapes = self.shapes
        parts = torch.split(coordinates, [torch.Size(shape).numel() for shape in shapes])
        finest, *coarser = (part.view(shape) for part, shape in zip(parts, shapes, strict=True))
        drawn, size = self.start + finest, self.start.shape[2:]
        for grid in coarser:
            drawn = drawn + nn.functional.interpolate(grid, size=size, mode="bilinear", align_corners=False)
        return drawn
