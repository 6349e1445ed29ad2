"""Sorted groups -> the values shown to be faults: centers, thresholds of both sides, centers anew. NumPy alone."""

from __future__ import annotations

import numpy as np

from rovrl.faults.evidence import LEAST, SMALLEST, Side, search, search_together
from rovrl.robust.outliers.bulk import SortedGroups
from rovrl.robust.outliers.dispersion import Design

SHARE, SMALL = 0.75, 8
"""No more than this share of a group is rejected; of a group with fewer than 8 responses, fewer than half."""
CLEAR, DOUBTFUL = 0.35, 0.3
"""Groups with at most this share of hits on a side tell their rate; with at least that share, another center is tried."""
STRAY, STRAY_CHANCE = 1.5, 0.02
"""Hits farther than 1.5 times what is usual are rare: a center that needs them is the less likely."""
ROUNDS = 8


def shown(groups: SortedGroups, strata: np.ndarray) -> tuple[np.ndarray, Side, Side, float]:
    """(which values are shown to be faults, in the original order; both sides; the unit of what is kept)

    `strata` gives each group its stratum: a step, or whatever may have a fault rate of its own.
    """
    design = Design(np.where(groups.size >= SMALLEST, groups.size, 0), strata)
    low, high = np.zeros_like(groups.size), groups.size
    above = below = Side()
    unit = 0.0
    for round_ in range(ROUNDS):
        center = groups.median(low, high)
        kept = (groups.place >= low[groups.group]) & (groups.place < high[groups.group])
        unit = groups.unit(groups.residual(center), kept)
        if unit == 0:
            break
        if round_ == 0:
            center = groups.densest(center, LEAST * unit)
            unit = groups.unit(groups.residual(center), kept)
        residual = groups.residual(center)
        above, below = search(groups, residual, unit, design), search(groups, -residual, unit, design)
        if above.hits + below.hits == 0:
            above, below = search_together(groups, residual, unit, design)
        new = _ranges(groups, _recentred(groups, center, above, below), above, below)
        if all(np.array_equal(a, b) for a, b in zip(new, (low, high), strict=True)):
            break
        low, high = new
    return _mask(groups, low, high), above, below, unit


def _ranges(groups: SortedGroups, center: np.ndarray, above: Side, below: Side) -> tuple[np.ndarray, np.ndarray]:
    """Between which ranks the members of each group lie that are within both thresholds."""
    residual = groups.residual(center)
    return groups.count(residual < -below.threshold), groups.size - groups.count(residual > above.threshold)


def _recentred(groups: SortedGroups, center: np.ndarray, above: Side, below: Side) -> np.ndarray:
    """The centers, moved to the hits of one side where that makes a group's hits likelier at the rates of all groups.

    In a group with most of its members hit, the center lies among the faults, and its honest members look like hits.
    """
    nearest = min(above.threshold, below.threshold)
    if not np.isfinite(nearest):
        return center
    ends = tuple(side.threshold if np.isfinite(side.threshold) else nearest for side in (below, above))
    residual = groups.residual(center)
    down, up = groups.count(residual < -ends[0]), groups.count(residual > ends[1])
    clear = np.maximum(down, up) <= CLEAR * groups.size
    usual = _usual(residual[clear[groups.group]], ends)
    members = float(groups.size[clear].sum())
    rates = tuple((float(count[clear].sum()) + 0.5) / (members + 1) for count in (down, up))
    best, likeliest = _likelihood(groups, residual, ends, usual, rates), center.copy()
    doubtful = np.maximum(down, up) >= DOUBTFUL * groups.size
    for low, high in ((np.zeros_like(down), down), (groups.size - up, groups.size)):
        other = groups.median(low, high)
        found = _likelihood(groups, groups.residual(other), ends, usual, rates)
        better = doubtful & (high > low) & (found > best)
        best, likeliest = np.where(better, found, best), np.where(better, other, likeliest)
    return likeliest


def _usual(residual: np.ndarray, ends: tuple[float, ...]) -> tuple[float, ...]:
    """How far hits usually are, downwards and upwards: 1.5 times the distance that 95 % of them do not exceed."""
    sides = -residual[residual < -ends[0]], residual[residual > ends[1]]
    return tuple(
        STRAY * (float(np.quantile(hits, 0.95)) if len(hits) else end) for hits, end in zip(sides, ends, strict=True)
    )


def _likelihood(
    groups: SortedGroups,
    residual: np.ndarray,
    ends: tuple[float, ...],
    usual: tuple[float, ...],
    rates: tuple[float, ...],
) -> np.ndarray:
    """The log-likelihood of each group's hits below and above, and of their distance."""
    down, up = groups.count(residual < -ends[0]), groups.count(residual > ends[1])
    stray = groups.count((residual < -usual[0]) | (residual > usual[1]))
    none = max(1 - sum(rates), 0.05)
    bulk = groups.size - down - up
    return down * np.log(rates[0]) + up * np.log(rates[1]) + bulk * np.log(none) + stray * np.log(STRAY_CHANCE)


def _mask(groups: SortedGroups, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """What is rejected, in the original order; nothing in a group of which too much would be."""
    gone = low + groups.size - high
    allowed = np.where(groups.size < SMALL, 2 * gone < groups.size, gone <= SHARE * groups.size)
    inside = (groups.place >= low[groups.group]) & (groups.place < high[groups.group])
    rejected = np.zeros(len(groups.values), bool)
    rejected[groups.order] = ~inside & allowed[groups.group]
    return rejected
