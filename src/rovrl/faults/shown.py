"""Sorted groups -> the values shown to be faults: centers, thresholds of both sides, then new centers. NumPy alone."""

from __future__ import annotations

import numpy as np

from rovrl.faults.candidates import Side, not_exceeded
from rovrl.faults.evidence import SMALLEST, search, search_together
from rovrl.faults.nearest import LEAST
from rovrl.robust.outliers.bulk import SortedGroups
from rovrl.robust.outliers.dispersion import Design, gamma_share

SHARE, SMALL = 0.75, 8
"""No more than this share of a group is rejected; of a group with fewer than 8 responses, fewer than half."""
CLEAR, DOUBTFUL = 0.35, 0.3
"""Groups with at most this share of hits on a side give the rate; with at least that share, another center is tried."""
STRAY, STRAY_CHANCE = 1.5, 0.02
"""Hits farther than 1.5 times what is usual are rare: a center that needs them is less likely."""
ROUNDS = 8
DISPERSED, MANY, DISPERSED_OF_MANY = 1e-3, 0.4, 1e-5
"""An excess of pairs is excused while centers are misplaced. Once they are settled, chance must make it with the first
probability; where more than this share of all responses is hit, some centers stay misplaced, and the last one is enough."""
SPARED = 0.005
"""If chance spares so few groups with less than this probability, the hits do not come by chance."""


def shown(groups: SortedGroups, strata: np.ndarray) -> tuple[np.ndarray, Side, Side, float]:
    """(which values are shown to be faults, in the original order; both sides; the unit of what is kept)

    `strata` gives each group its stratum: a step, or whatever may have a fault rate of its own.
    """
    design = Design(np.where(groups.size >= SMALLEST, groups.size, 0), strata)
    seen: list[tuple[np.ndarray, np.ndarray]] = []
    now = np.zeros_like(groups.size), groups.size
    above = below = Side()
    unit = 0.0
    while True:
        seen.append(now)
        above, below, unit, new = _round(groups, design, *now, first=len(seen) == 1)
        before = next((k for k, old in enumerate(seen) if _same(old, new)), None)
        if before is not None or len(seen) == ROUNDS:
            cycle = [*seen[before:], new] if before is not None else [now, new]
            now = np.minimum.reduce([low for low, _ in cycle]), np.maximum.reduce([high for _, high in cycle])
            break
        now = new
    if _dispersed(design, above, below) or _spares_too_few(groups, design, *now):
        return np.zeros(len(groups.values), bool), Side(), Side(), unit
    return _mask(groups, *now), above, below, unit


Ranges = tuple[np.ndarray, np.ndarray]
"""The ranks between which the kept members of each group lie: low ≤ rank < high."""


def _round(
    groups: SortedGroups, design: Design, low: np.ndarray, high: np.ndarray, first: bool
) -> tuple[Side, Side, float, Ranges]:
    """Both sides, the unit and what is kept, from the centers and the unit of what was kept before."""
    center = groups.median(low, high)
    kept, residual = groups.between(low, high), groups.residual(center)
    unit = groups.unit(residual, kept)
    if first and unit > 0:
        center = groups.densest(center, LEAST * unit)
        residual = groups.residual(center)
        unit = groups.unit(residual, kept)
    if unit == 0:
        return Side(), Side(), 0.0, (low, high)
    above, below = search(groups, residual, unit, design), search(groups, -residual, unit, design)
    if above.hits + below.hits == 0:
        above, below = search_together(groups, residual, unit, design)
    return above, below, unit, _ranges(groups, _recentred(groups, center, residual, above, below), above, below)


def _same(one: Ranges, other: Ranges) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def _dispersed(design: Design, above: Side, below: Side) -> bool:
    """Whether what was shown follows the prompts after all, about the centers that it leads to."""
    many = above.hits + below.hits > MANY * float(design.members.sum())
    return any(side.p_value < (DISPERSED_OF_MANY if many else DISPERSED) for side in (above, below))


def _spares_too_few(groups: SortedGroups, design: Design, low: np.ndarray, high: np.ndarray) -> bool:
    """Whether fewer groups have nothing rejected than chance would spare: as where groups without contrast were dropped.

    The number that chance spares is about Σ_j (1 - π)^{m_j}, and varies less than a Poisson variable of that mean.
    """
    gone = np.where(design.sizes > 0, low + groups.size - high, 0)
    rate = design.by_stratum(gone) / np.maximum(design.members, 1)
    expected = float(((1 - rate[design.strata]) ** design.sizes)[design.sizes > 0].sum())
    spared = int(((gone == 0) & (design.sizes > 0)).sum())
    return expected > 0 and 1 - gamma_share(spared + 1, expected) < SPARED


def _ranges(groups: SortedGroups, center: np.ndarray, above: Side, below: Side) -> tuple[np.ndarray, np.ndarray]:
    """The ranks between which the members of each group within both thresholds lie."""
    residual = groups.residual(center)
    return groups.count(residual < -below.threshold), groups.size - groups.count(residual > above.threshold)


def _recentred(groups: SortedGroups, center: np.ndarray, residual: np.ndarray, above: Side, below: Side) -> np.ndarray:
    """The centers, moved to the hits of one side where that makes a group's hits likelier at the rates of all groups.

    In a group with most of its members hit, the center lies among the faults, and its honest members look like hits.
    """
    nearest = min(above.threshold, below.threshold)
    if not np.isfinite(nearest):
        return center
    ends = tuple(side.threshold if np.isfinite(side.threshold) else nearest for side in (below, above))
    down, up = groups.count(residual < -ends[0]), groups.count(residual > ends[1])
    clear = np.maximum(down, up) <= CLEAR * groups.size
    usual = _usual(residual[groups.of_members(clear)], ends)
    members = float(groups.size[clear].sum())
    rates = tuple((float(count[clear].sum()) + 0.5) / (members + 1) for count in (down, up))
    doubtful = np.maximum(down, up) >= DOUBTFUL * groups.size
    some, down, up, likeliest = groups.only(doubtful), down[doubtful], up[doubtful], center[doubtful]
    best = _likelihood(some, some.residual(likeliest), ends, usual, rates)
    for low, high in ((np.zeros_like(down), down), (some.size - up, some.size)):
        other = some.median(low, high)
        found = _likelihood(some, some.residual(other), ends, usual, rates)
        better = (high > low) & (found > best)
        best, likeliest = np.where(better, found, best), np.where(better, other, likeliest)
    center = center.copy()
    center[doubtful] = likeliest
    return center


def _usual(residual: np.ndarray, ends: tuple[float, ...]) -> tuple[float, ...]:
    """How far hits usually are, downwards and upwards: 1.5 times the distance that 95 % of them do not exceed."""
    sides = -residual[residual < -ends[0]], residual[residual > ends[1]]
    return tuple(STRAY * (not_exceeded(hits) if len(hits) else end) for hits, end in zip(sides, ends, strict=True))


def _likelihood(
    groups: SortedGroups,
    residual: np.ndarray,
    ends: tuple[float, ...],
    usual: tuple[float, ...],
    rates: tuple[float, ...],
) -> np.ndarray:
    """The log-likelihood of each group's hits below and above, and of their distance.

    What is as far out as the hits of one side, and on the other side not far enough for a hit, is stray as well.
    """
    down, up = groups.count(residual < -ends[0]), groups.count(residual > ends[1])
    stray = (residual < -usual[0]) | (residual > usual[1])
    if max(ends) < np.inf:
        stray |= (np.abs(residual) > min(ends)) & (residual >= -ends[0]) & (residual <= ends[1])
    stray = groups.count(stray)
    none = max(1 - sum(rates), 0.05)
    bulk = groups.size - down - up
    return down * np.log(rates[0]) + up * np.log(rates[1]) + bulk * np.log(none) + stray * np.log(STRAY_CHANCE)


def _mask(groups: SortedGroups, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """What is rejected, in the original order; nothing in a group that would lose too much."""
    gone = low + groups.size - high
    allowed = np.where(groups.size < SMALL, 2 * gone < groups.size, gone <= SHARE * groups.size)
    rejected = np.zeros(len(groups.values), bool)
    rejected[groups.order] = ~groups.between(low, high) & groups.of_members(allowed)
    return rejected
