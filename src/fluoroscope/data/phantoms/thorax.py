"""The bodies of the chest phantom: torso, lungs, heart, bones. The patient's left is on the right, as on a film."""

from dataclasses import dataclass

import numpy as np

from fluoroscope.data.phantoms.canvas import Canvas, band
from fluoroscope.data.phantoms.draws import Draws, Floats


@dataclass(frozen=True)
class Frame:
    """The measures that other parts are placed by, each (rows, 1, 1)."""

    width: Floats
    """Of the rib cage, from the midline."""
    apex: Floats
    dome: Floats
    """Height of the right diaphragm."""
    clavicle: Floats
    heart_x: Floats
    heart_y: Floats


def frame(draws: Draws, depth: Floats) -> Frame:
    """Depth of breath (rows, 1, 1) belongs to the image, all else to the patient."""
    draws = draws.child("frame")
    apex = draws.normal(-0.76, 0.04)
    dome = draws.normal(0.36, 0.08) + 0.03 * depth
    return Frame(
        width=draws.normal(0.70, 0.04) + 0.01 * depth,
        apex=apex,
        dome=dome,
        clavicle=apex + draws.normal(0.22, 0.03),
        heart_x=draws.normal(0.14, 0.02),
        heart_y=dome - draws.uniform(0.10, 0.16),
    )


@dataclass(frozen=True)
class Thorax:
    """What the X-ray meets, and where air lets it through."""

    density: Floats
    air: Floats
    """How much of each pixel is aerated lung, 0 to 1."""


def thorax(canvas: Canvas, draws: Draws, measures: Frame) -> Thorax:
    """The whole trunk; densities add up, as they do along an X-ray."""
    ax = np.abs(canvas.x)
    t = np.clip((canvas.y - measures.apex) / 0.86, 1e-4, 1)
    wall = measures.width * (t * (2 - t)) ** draws.child("wall").uniform(0.42, 0.54)
    tissue = _soft_tissue(canvas, draws.child("torso"), measures, ax, wall)
    lungs, below = _lungs(canvas, draws.child("lungs"), measures, ax, wall)
    covered, middle = _mediastinum(canvas, draws.child("mediastinum"), measures)
    air = lungs * (1 - 0.9 * covered)
    within = np.clip(1.3 - (ax / (measures.width + 0.12)) ** 2, 0, 1)
    ribs = _ribs(canvas, draws.child("ribs"), measures, ax, wall)
    density = tissue - air * draws.child("habitus").uniform(0.30, 0.42)
    density += middle * (1 - 0.5 * below) + below * within * draws.child("belly").uniform(0.16, 0.28)
    density += ribs * (0.45 + 0.55 * lungs) * (1 - 0.5 * covered)
    density += _shoulders(canvas, draws.child("shoulders"), measures, ax)
    density += _spine(canvas, draws.child("spine"))
    density += _breasts(canvas, draws.child("breasts"), measures, ax)
    density -= _gas(canvas, draws.child("gas"), measures) * below
    return Thorax(density, air)


def _soft_tissue(canvas: Canvas, draws: Draws, m: Frame, ax: Floats, wall: Floats) -> Floats:
    y = canvas.y
    torso = m.width + draws.uniform(0.07, 0.16) + 0.05 * y
    neck, shoulder = draws.uniform(0.22, 0.32), draws.uniform(-0.08, 0.06) + m.apex
    # The trapezius falls from the neck like an exponential; the deltoid rounds it off.
    slope = 0.5 * np.exp(-np.maximum(ax - neck, 0) / draws.uniform(0.16, 0.28))
    top = shoulder - slope + 1.3 * np.maximum(ax - 0.86, 0) ** 2
    arm = torso - 0.02 + draws.uniform(0.1, 0.45) * (y - draws.uniform(-0.1, 0.45))
    gap = canvas.inside(ax - torso, 0.02) * canvas.inside(arm - ax, 0.02)
    body = canvas.inside(y - top, 0.025) * (1 - gap)
    thick = np.sqrt(np.clip(1 - (ax / (torso + 0.04)) ** 2, 0, 1))
    muscle = 0.07 * np.exp(-(((ax - wall - 0.03) / 0.07) ** 2)) * canvas.inside(y - m.apex - 0.1, 0.1)
    streaks = 0.012 * canvas.waves(draws, 0.25, 1.0, 20) + 0.006 * canvas.waves(draws, 0.06, 0.25, 20)
    # Tissue thins out towards the skin line.
    rim = np.clip((y - top) * 5, 0, 1)
    tissue: Floats = body * (0.34 + 0.07 * rim + 0.17 * thick + 0.05 * np.clip(y + 0.4, 0, 1) + muscle + streaks)
    return tissue


def _lungs(canvas: Canvas, draws: Draws, m: Frame, ax: Floats, wall: Floats) -> tuple[Floats, Floats]:
    left = canvas.inside(canvas.x, 0.08)
    off = ax - draws.uniform(0.27, 0.37)
    off = np.maximum(off, 0.6 * off)  # towards the heart the dome falls less
    drop = (draws.uniform(0.6, 1.2) + draws.uniform(1.5, 4.0) * off**2) * off**2
    surface = m.dome + left * draws.uniform(-0.01, 0.08) + drop
    round_top = 0.16 * np.exp(-np.clip(canvas.y - m.apex, 0, 1) / 0.06)
    beside = canvas.inside(ax - draws.uniform(0.07, 0.11) - round_top, 0.04)
    lungs = canvas.inside(wall - ax, 0.035) * canvas.inside(surface - canvas.y, 0.03) * beside
    return lungs, canvas.inside(canvas.y - surface, 0.04)


def _mediastinum(canvas: Canvas, draws: Draws, m: Frame) -> tuple[Floats, Floats]:
    """Where it hides the lung, and how dense it is."""
    x, y = canvas.x, canvas.y
    knob = m.apex + draws.uniform(0.36, 0.44)
    stalk = draws.uniform(0.10, 0.15)
    widen = np.clip(y - knob, 0, 0.8) * 0.10 + np.clip(knob - y - 0.2, 0, 0.5) * 0.15
    on_left = stalk + widen + draws.uniform(0.02, 0.09) * np.exp(-(((y - knob) / 0.10) ** 2))
    on_left += draws.uniform(0.02, 0.09) * np.exp(-(((y - knob - 0.24) / 0.12) ** 2))
    column = canvas.inside(np.minimum(on_left - x, x + stalk + widen), 0.045)
    # The heart: a tilted ellipse to the patient's left, and the right atrium's rounder bulge.
    size = draws.normal(1.0, 0.10)
    tilt = draws.uniform(0.45, 0.8)
    dx, dy = x - m.heart_x, y - m.heart_y
    cos, sin = np.cos(tilt), np.sin(tilt)
    r2 = ((dx * cos + dy * sin) / (0.41 * size)) ** 2 + ((dy * cos - dx * sin) / (0.29 * size)) ** 2
    heart = canvas.inside((1 - np.sqrt(r2)) * 0.3, 0.04)
    a2 = ((x + 0.02) / (0.20 * size)) ** 2 + ((dy - 0.02) / (0.27 * size)) ** 2
    atrium = canvas.inside((1 - np.sqrt(a2)) * 0.2, 0.045)
    covered = 1 - (1 - column) * (1 - heart) * (1 - atrium)
    bulk = np.sqrt(np.clip(1 - r2, 0, 1))
    haze = np.exp(-((x / 0.22) ** 2))
    return covered, 0.04 * covered + 0.07 * heart * bulk + 0.16 * haze * canvas.inside(y - m.apex + 0.3, 0.2)


def _ribs(canvas: Canvas, draws: Draws, m: Frame, ax: Floats, wall: Floats) -> Floats:
    spacing = draws.uniform(0.135, 0.165)
    reach = ax / (wall + 0.04)
    tangent = reach**2
    high = canvas.y - m.apex - draws.uniform(0.02, 0.1)
    # Behind: leaves the spine almost level and falls towards the side; wider apart lower down.
    behind = high + 0.08 * reach - (draws.uniform(0.16, 0.26) + 0.06 * tangent**2) * tangent
    posterior = _bars(behind / spacing - 0.3 * behind, 0.40) * np.clip((ax - 0.06) * 10, 0, 1)
    posterior = posterior * np.clip(behind * 15 + 1, 0, 1) * np.clip((1.25 - behind) * 3, 0, 1)
    # In front: falls from the chest wall towards the breastbone, and ends in cartilage that casts no shadow.
    front = high - 0.17 - draws.uniform(0.26, 0.38) * (1 - reach)
    anterior = _bars(front / (spacing * 1.1) - 0.3 * front, 0.36) * np.clip((reach - 0.3) * 3, 0, 1)
    anterior = anterior * np.clip(front * 15 + 1, 0, 1) * np.clip((0.95 - front) * 3, 0, 1)
    shell = np.clip((1.10 - reach) * 12, 0, 1)
    # Seen edge on at the side of the chest, a rib is denser.
    both = posterior * (0.8 + 0.5 * tangent**2) + draws.uniform(0.4, 0.8) * anterior
    bones: Floats = draws.uniform(0.05, 0.13) * shell * both
    return bones


def _bars(phase: Floats, share: float) -> Floats:
    """Bands that fill this share of each period, denser at their edges as cortical bone is."""
    wave = np.cos(2 * np.pi * phase)
    level = float(np.cos(np.pi * share))
    t = np.clip((wave - level) * 1.4 + 0.35, 0, 1)
    bars: Floats = t * t * (3 - 2 * t) * (1 - 0.3 * np.clip((wave - level) / (1 - level), 0, 1) ** 2)
    return bars


def _shoulders(canvas: Canvas, draws: Draws, m: Frame, ax: Floats) -> Floats:
    y = canvas.y
    out = ax - 0.08
    line = m.clavicle - draws.uniform(0.12, 0.34) * out - draws.uniform(0.02, 0.05) * np.sin(out * 7)
    offset = (y - line) / (0.022 + 0.03 * np.abs(out - 0.3))
    clavicle = band(offset) * canvas.inside(ax - 0.075, 0.015) * canvas.inside(0.83 - ax, 0.04)
    # Scapula: a faint blade beside the lung; humerus: its head and shaft outside.
    blade_x = m.width + draws.uniform(-0.04, 0.08) - 0.25 * (y - m.clavicle - 0.1)
    spread = canvas.inside(0.30 - np.abs(y - m.clavicle - 0.22), 0.08)
    blade = canvas.inside(0.11 - np.abs(ax - blade_x), 0.025) * spread
    arm = ax - m.width - draws.uniform(0.20, 0.28) - 0.15 * (y - m.clavicle)
    head = canvas.inside((1 - np.hypot(arm / 0.10, (y - m.clavicle - 0.03) / 0.12)) * 0.1, 0.02)
    shaft = canvas.inside(0.055 - np.abs(arm - 0.02), 0.015) * canvas.inside(y - m.clavicle - 0.05, 0.04)
    bones = draws.uniform(0.08, 0.15) * clavicle + draws.uniform(0.02, 0.06) * blade
    return bones + 0.10 * np.maximum(head, shaft)


def _spine(canvas: Canvas, draws: Draws) -> Floats:
    x, y = canvas.x, canvas.y
    across = x - draws.normal(0, 0.015) * np.sin(2.5 * y + 1)
    column = band(across / 0.085)
    discs = 0.75 + 0.25 * np.cos(2 * np.pi * y / draws.uniform(0.13, 0.16))
    pipe = band((across + 0.01) / 0.045) * canvas.inside(draws.uniform(-0.3, -0.2) - y, 0.05)
    return draws.uniform(0.02, 0.08) * column * discs - draws.uniform(0.07, 0.14) * pipe


def _breasts(canvas: Canvas, draws: Draws, m: Frame, ax: Floats) -> Floats:
    amount = draws.chance(0.45) * draws.uniform(0.02, 0.09)
    size = draws.uniform(0.8, 1.15)
    low = canvas.y - m.dome + draws.uniform(0.02, 0.14)
    r = np.hypot((ax - draws.uniform(0.40, 0.48)) / (0.34 * size), low / (0.34 * size))
    return amount * canvas.inside((1 - r) * 0.34, 0.04) * np.clip(0.7 + 2 * low, 0, 1)


def _gas(canvas: Canvas, draws: Draws, m: Frame) -> Floats:
    """The stomach's bubble under the left dome, and bowel further down."""
    amount = draws.chance(0.55) * draws.uniform(0.06, 0.2)
    across = (canvas.x - draws.uniform(0.28, 0.48)) / draws.uniform(0.08, 0.16)
    r = np.hypot(across, (canvas.y - m.dome - draws.uniform(0.12, 0.2)) / draws.uniform(0.05, 0.09))
    bubble = amount * canvas.inside((1 - r) * 0.1, 0.03)
    return bubble + canvas.dots(
        draws.uniform(-0.5, 0.5, 8),
        draws.uniform(0.65, 1.05, 8),
        draws.uniform(0.03, 0.07, 8),
        draws.uniform(0, 0.10, 8),
    )
