"""Consolidated lung: the finding that the chest phantom's classes differ by."""

import numpy as np

from fluoroscope.data.phantoms.canvas import Canvas
from fluoroscope.data.phantoms.draws import Draws, Floats
from fluoroscope.data.phantoms.thorax import Frame


def opacity(canvas: Canvas, draws: Draws, m: Frame, present: Floats) -> Floats:
    """One to three patches of cloud, somewhere in the lungs, from faint to dense; present (rows, 1) is 1 or 0."""
    patches, spots = 3, 12
    here = np.concatenate([np.ones_like(m.apex[:, :, 0]), draws.chance(0.45, 2)], axis=1)
    side = np.sign(draws.uniform(-1, 1, patches))
    x = side * draws.uniform(0.24, 0.55, patches)
    top, base = (m.apex + 0.22)[:, :, 0], (m.dome - 0.06)[:, :, 0]
    y = top + (base - top) * draws.uniform(0.0, 1.0, patches) ** 0.7
    radius = draws.uniform(0.08, 0.2, patches)
    total = spots * patches
    x, y, radius = (v.repeat(spots, axis=1) for v in (x, y, radius))
    cloud = canvas.dots(
        x + radius * draws.normal(0, 0.7, total),
        y + radius * draws.normal(0, 0.7, total),
        radius * draws.uniform(0.3, 0.7, total),
        (present * here).repeat(spots, axis=1) * draws.uniform(0.15, 0.6, total),
    )
    texture = 1 + draws.uniform(0.1, 0.45) * canvas.waves(draws, 0.08, 0.6, 48)
    strength = draws.uniform(0.18, 0.40)
    density: Floats = strength * (1 - np.exp(-cloud * np.clip(texture, 0.1, 2)))
    return density
