"""Do rewards crowd far out, where a tail would thin out? A heavy tail may be long, but it holds fewer the farther one looks.

On a logarithmic scale the density of |z| bends downwards for every common law: normal, exponential, log-normal, Student's t
(towards a straight line, Pareto's). So the straight line that fits the stretch [c/4, c] holds, continued, at least what an
honest tail has in [c, rc]. Faults of one size among honest tails make a hump there that rises above the line.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rovrl.audit.arrays import Array

LEAST, LOWEST = 2.5, 0.625
"""No hump is looked for nearer than this many usual spreads; below the second there is no tail."""
BASE = 4.0
"""The stretch below c that the line is fitted to begins at c/4."""
WIDTHS = (1.3, 1.5, 1.8)
"""The humps that are tried reach from c to so many times c."""
STEP = 0.1
"""From one c to the next, on the logarithmic scale."""
FEWEST, FEWEST_BASE = 4, 40
"""Rewards in a hump, and below it, with fewer of which nothing is said."""
EXCESS = 1.5
"""A hump holds this many times what the line allows."""
ERROR = 0.1
"""The chance of the clearest hump, times the number of humps that were tried, must be below this. They overlap, and most tails
bend: an honest t with 3 degrees of freedom gets there in about one run of a hundred."""
SLOPES = np.linspace(0.1, 12, 120)


class Crowd(NamedTuple):
    """A hump of |z|: its ends, how many lie in it, and how many the line through the stretch below allows."""

    low: float
    high: float
    found: int
    allowed: float


def crowd(z: Array) -> Crowd | None:
    """The clearest hump of |z|, if it lies on both sides; None where the tail thins out, and for rewards that have few values.

    A hump on one side alone may be a bonus, and is nobody's fault.
    """
    far = np.sort(np.abs(z[np.isfinite(z)]))
    far = far[far > LOWEST]
    if len(far) < FEWEST_BASE + FEWEST or len(np.unique(far)) < 0.8 * len(far):
        return None
    logs = np.log(far)
    sums = np.concatenate([[0.0], np.cumsum(logs)])
    best, clearest, tried = None, 0.0, 0
    for low in np.arange(math.log(LEAST), logs[-1], STEP).tolist():
        begin, end = np.searchsorted(logs, [low - math.log(BASE), low]).tolist()
        if end - begin < FEWEST_BASE:
            continue
        total = float(sums[end] - sums[begin]) - (end - begin) * (low - math.log(BASE))
        for width in WIDTHS:
            found = int(np.searchsorted(logs, low + math.log(width), side="right")) - end
            tried += 1
            clear, allowed = _exceeds(end - begin, total, found, math.log(width)) if found >= FEWEST else (0.0, 0.0)
            if clear > clearest and found > EXCESS * allowed:
                best, clearest = Crowd(math.exp(low), math.exp(low) * width, found, allowed), clear
    if best is None or 0.5 * math.erfc(clearest / 2**0.5) * tried > ERROR:
        return None
    return best if _on_both_sides(z, best) else None


def _exceeds(base: int, total: float, found: int, width: float) -> tuple[float, float]:
    """By how much `found` rewards in a hump exceed the line through `base` rewards below it, and how many that allows.

    The line's slope is unknown: the likelihood of the base's places (`total`: the sum of their logarithms from its beginning)
    and of the count, with one slope for both, against each on its own.
    """
    inside = -np.expm1(-SLOPES * math.log(BASE))
    beyond = np.exp(-SLOPES * math.log(BASE)) * -np.expm1(-SLOPES * width)
    places = base * np.log(SLOPES / inside) - SLOPES * total
    share = beyond / (inside + beyond)
    n = base + found
    free = places.max() + found * math.log(found / n) + base * math.log(base / n)
    bound = (places + found * np.log(share) + base * np.log1p(-share)).max()
    fitted = int(places.argmax())
    allowed = float(base * beyond[fitted] / inside[fitted])
    return math.copysign(math.sqrt(max(2 * (free - bound), 0.0)), found - allowed), allowed


def _on_both_sides(z: Array, hump: Crowd) -> bool:
    """Whether each side holds more than half of what the line allows for both."""
    inside = z[(np.abs(z) >= hump.low) & (np.abs(z) <= hump.high)]
    above = int((inside > 0).sum())
    return min(above, len(inside) - above) > 0.5 * hump.allowed
