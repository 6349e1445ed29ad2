"""Which rewards dominate their group: the few whose removal lets the rest be seen, and how much contrast they cost.

GRPO divides by the standard deviation of the whole group, so a few extreme rewards shrink every difference among the others
(prop:grpo_broadcast). A reward *dominates* if it lies in the at most quarter of its group whose removal at least halves the
standard deviation of what remains, and if it is farther from the group's median than seven usual spreads: the median over the
neighbouring untied groups of their range, in units of the range that normal rewards would have. That says nothing about whether the
reward is wrong; and in 0/1 rewards, however rare the ones, nothing is flagged.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

STEP_DROP = 2.0
"""Removing one more must at least halve the standard deviation."""
SPREADS = 7.0
"""A dominating reward is farther from the median than this many usual spreads."""
MAX_REMOVED = 16

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Trims:
    """For each group and each number j of removed rewards: the least standard deviation of the n - j others."""

    deviation: Array
    """[group, j]"""
    low: NDArray[np.int64]
    """[group, j]: how many of the j are the smallest; the rest are the largest."""
    ordered: Array
    """[group, n], ascending."""


def trims(rewards: Array) -> Trims:
    """The least-variance windows of the ordered rewards, [group, n] with n ≥ 2; at most a quarter is removed.

    Windows are sums of what they hold, taken about the median: nothing cancels when one reward is 1e12.
    """
    ordered = np.sort(rewards, axis=1)
    groups, n = ordered.shape
    most = min(n // 4, MAX_REMOVED)
    with np.errstate(over="ignore", invalid="ignore"):
        about = ordered - median(ordered)[:, None]
        square = about * about
        inner = slice(most, n - most)
        first, second = about[:, inner].sum(1), square[:, inner].sum(1)
        low1, low2 = _outward(about[:, :most][:, ::-1]), _outward(square[:, :most][:, ::-1])
        high1, high2 = _outward(about[:, n - most :]), _outward(square[:, n - most :])
        deviation = np.empty((groups, most + 1))
        low = np.zeros((groups, most + 1), dtype=np.int64)
        for removed in range(most + 1):
            count = n - removed
            best = np.full(groups, np.inf)
            for below in range(removed + 1):
                a, b = most - below, most - (removed - below)  # how many of each tail stay
                total = first + low1[a] + high1[b]
                variance = (second + low2[a] + high2[b] - total * total / count) / (count - 1)
                variance = np.where(np.isnan(variance), np.inf, variance)
                better = variance < best
                best = np.where(better, variance, best)
                low[:, removed] = np.where(better, below, low[:, removed])
            deviation[:, removed] = np.sqrt(np.maximum(best, 0.0))
    return Trims(deviation, low, ordered)


def own_spread(trim: Trims) -> Array:
    """The range of each group without its dominating rewards, judged by the group alone, over the range of normal scores.

    NaN for a tied group. The range and not a deviation: for rare ones among zeros every deviation is small, the range is not.
    """
    removed = _last_drop(trim, np.full(len(trim.ordered), -np.inf))
    lowest, highest = _edges(trim, removed)
    with np.errstate(over="ignore"):
        spread = (highest - lowest) / normal_range(trim.ordered.shape[1])
    return np.where(spread > 0, spread, np.nan)


def normal_range(n: int) -> float:
    """The expected range of n standard normal numbers, by Blom's approximation."""
    return 2 * NormalDist().inv_cdf((n - 0.375) / (n + 0.25))


def dominating(trim: Trims, spread: Array) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
    """(how many rewards dominate, how many of those are the smallest, the standard deviation of the others) per group.

    `spread` [group] is the usual spread around the group. Where the others would be tied the group has no contrast to lose,
    but a reward far outside still counts as dominating.
    """
    least = SPREADS * spread
    removed = _last_drop(trim, least)
    tie = _first_tie(trim, least)
    removed = np.where((removed == 0) & (tie > 0), tie, removed)
    rows = np.arange(len(removed))
    return removed, trim.low[rows, removed], trim.deviation[rows, removed]


def median(ordered: Array) -> Array:
    """The midpoint median of ordered rows."""
    n = ordered.shape[1]
    lower, upper = ordered[:, (n - 1) // 2], ordered[:, n // 2]
    return np.where(lower == upper, lower, 0.5 * lower + 0.5 * upper)


def _last_drop(trim: Trims, least: Array) -> NDArray[np.int64]:
    """The largest j whose removal halves the deviation once more, leaves contrast, and takes only far rewards."""
    chosen = np.zeros(len(trim.ordered), dtype=np.int64)
    for j in range(1, trim.deviation.shape[1]):
        before, after = trim.deviation[:, j - 1], trim.deviation[:, j]
        drop = (after > 0) & (after * STEP_DROP <= before) & (_nearest_removed(trim, j) > least)
        chosen = np.where(drop, j, chosen)
    return chosen


def _first_tie(trim: Trims, least: Array) -> NDArray[np.int64]:
    chosen = np.zeros(len(trim.ordered), dtype=np.int64)
    for j in range(trim.deviation.shape[1] - 1, 0, -1):
        tie = (trim.deviation[:, j] == 0) & (trim.deviation[:, j - 1] > 0) & (_nearest_removed(trim, j) > least)
        chosen = np.where(tie, j, chosen)
    return chosen


def _nearest_removed(trim: Trims, j: int) -> Array:
    """Distance from the median of the nearest of the j removed rewards."""
    middle = median(trim.ordered)
    rows, n = np.arange(len(middle)), trim.ordered.shape[1]
    low = trim.low[:, j]
    high = j - low
    with np.errstate(over="ignore", invalid="ignore"):
        below = np.where(low > 0, middle - trim.ordered[rows, np.maximum(low - 1, 0)], np.inf)
        above = np.where(high > 0, trim.ordered[rows, np.minimum(n - high, n - 1)] - middle, np.inf)
    return np.minimum(below, above)


def _edges(trim: Trims, removed: NDArray[np.int64]) -> tuple[Array, Array]:
    rows, n = np.arange(len(removed)), trim.ordered.shape[1]
    low = trim.low[rows, removed]
    return trim.ordered[rows, low], trim.ordered[rows, n - 1 - (removed - low)]


def _outward(tail: Array) -> list[Array]:
    """Sums of the first 0, 1, 2, ... columns of a tail, from the middle outward."""
    sums = [np.zeros(len(tail))]
    for column in tail.T:
        sums.append(sums[-1] + column)
    return sums
