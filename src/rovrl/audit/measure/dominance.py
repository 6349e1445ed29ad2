"""Which rewards dominate their group: the few whose removal lets the rest be seen, and how much contrast they cost.

GRPO divides by the standard deviation of the whole group, so a few extreme rewards shrink every difference among the others
(prop:grpo_broadcast). A reward *dominates* if it is among at most a quarter of its group whose removal at least halves the
standard deviation of what remains, and is farther from the group's median than seven usual spreads: the median over the
neighbouring untied groups of their range, in units of the range that normal rewards would have. That says nothing about
whether the reward is wrong; and in 0/1 rewards, however rare the ones, nothing is flagged.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrays import Array, pieces

STEP_DROP = 2.0
"""Removing one more must at least halve the standard deviation."""
SPREADS = 7.0
"""A dominating reward is farther from the median than this many usual spreads."""
MAX_REMOVED = 16


@dataclass
class Trims:
    """For each group and each number j of removed rewards: the least standard deviation of the n - j others.

    Arrays are [.., group]: one order statistic of all groups lies in one row.
    """

    ordered: Array
    """[n, group], ascending."""
    median: Array
    deviation: Array
    """[j, group]"""
    low: NDArray[np.int64]
    """[j, group]: how many of the j are the smallest; the rest are the largest."""
    nearest: Array
    """[j, group]: distance from the median of the nearest of the removed rewards."""

    @property
    def lowest(self) -> Array:
        """The smallest reward of each group."""
        return self.ordered[0]

    @property
    def highest(self) -> Array:
        """The largest one."""
        return self.ordered[-1]


def trims(rewards: Array) -> Trims:
    """The least-variance windows of the ordered rewards, [group, n] with n ≥ 2; at most a quarter is removed.

    Windows are sums of what they hold, taken about the median: nothing cancels when one reward is 1e12.
    """
    groups, n = rewards.shape
    levels = (min(n // 4, MAX_REMOVED) + 1, groups)
    found = Trims(
        np.empty((n, groups)), np.empty(groups), np.empty(levels), np.zeros(levels, np.int64), np.empty(levels)
    )
    with np.errstate(over="ignore", invalid="ignore"):
        for part in pieces(groups, n):
            _fill(found, rewards[part], part)
    return found


def _fill(found: Trims, rewards: Array, here: slice) -> None:
    """Writes the windows of some groups into their places."""
    ordered = np.ascontiguousarray(np.sort(rewards, axis=1).T)
    most = len(found.deviation) - 1
    found.ordered[:, here], found.median[here] = ordered, median_of(ordered)
    about = ordered - found.median[here]
    sums = window_sums(about, about * about, most)
    far = np.full((1, len(rewards)), np.inf)
    below, above = np.concatenate([far, -about[:most]]), np.concatenate([far, about[::-1][:most]])
    for removed in range(most + 1):
        variance = sums.variances(removed)
        variance[np.isnan(variance)] = np.inf  # squares that overflow are not the least variance
        least, low, nearest = variance[0], found.low[removed, here], found.nearest[removed, here]
        np.minimum(below[0], above[removed], out=nearest)
        for k in range(1, removed + 1):
            less = variance[k] < least
            np.copyto(least, variance[k], where=less)
            np.copyto(low, k, where=less)
            np.copyto(nearest, np.minimum(below[k], above[removed - k]), where=less)
        deviation = np.sqrt(np.maximum(least, 0.0) / (len(ordered) - removed - 1))
        huge = np.flatnonzero(np.isinf(deviation))
        if len(huge):  # every window holds squares that overflow
            few, deviation[huge] = _least_of_huge(ordered[:, huge], removed)
            low[huge], nearest[huge] = few, np.minimum(below[few, huge], above[removed - few, huge])
        found.deviation[removed, here] = deviation


def _least_of_huge(ordered: Array, removed: int) -> tuple[NDArray[np.int64], Array]:
    """How many are removed below, and the standard deviation of the rest, measured in a power of two of each column's size."""
    unit = np.exp2(np.floor(np.log2(np.maximum(np.abs(ordered[0]), np.abs(ordered[-1])))))
    about = ordered / unit - median_of(ordered) / unit
    variance = window_sums(about, about * about, removed).variances(removed)
    low = variance.argmin(0)
    least = np.maximum(variance[low, np.arange(len(low))], 0.0)
    return low, np.sqrt(least / (len(ordered) - removed - 1)) * unit


@dataclass
class WindowSums:
    """Σx and Σx² of ordered columns: of the middle with the k lowest of the rest, [k, group], and of the k next higher ones."""

    n: int
    below: tuple[Array, Array]
    above: tuple[Array, Array]

    def variances(self, removed: int) -> Array:
        """Σ(x - x̄)² of the windows without the k lowest and removed - k highest, for k = 0 ... removed: [k, group]."""
        most = len(self.below[0]) - 1
        low, high = slice(most, None if removed == most else most - removed - 1, -1), slice(most - removed, most + 1)
        total, square = (below[low] + above[high] for below, above in zip(self.below, self.above, strict=True))
        total *= total
        total /= self.n - removed
        square -= total
        return square


def window_sums(about: Array, square: Array, most: int) -> WindowSums:
    """The sums for windows of ascending columns [n, group] without at most `most` of them; sums of what they hold."""
    n = len(about)
    return WindowSums(
        n,
        (_outward(about[:most][::-1], about[most : n - most]), _outward(square[:most][::-1], square[most : n - most])),
        (_outward(about[n - most :]), _outward(square[n - most :])),
    )


def own_spread(trim: Trims) -> Array:
    """The range of each group without its dominating rewards, judged by the group alone, over the range of normal scores.

    NaN for a tied group. The range and not a deviation: for rare ones among zeros every deviation is small, the range is not.
    """
    removed = _last_drop(trim, np.full(len(trim.median), -np.inf))
    lowest, highest = _edges(trim, removed)
    with np.errstate(over="ignore"):
        spread = (highest - lowest) / normal_range(len(trim.ordered))
    return np.where(spread > 0, spread, np.nan)


def normal_range(n: int) -> float:
    """The expected range of n standard normal numbers, by Blom's approximation."""
    return 2 * NormalDist().inv_cdf((n - 0.375) / (n + 0.25))


def dominating(trim: Trims, spread: Array) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
    """(how many rewards dominate, how many of those are the smallest, the standard deviation of the others) per group.

    `spread` [group] is the usual spread around the group. Where the others would be tied the group has no contrast to lose,
    but a reward far outside still counts as dominating.
    """
    with np.errstate(over="ignore"):
        least = SPREADS * spread
    removed = _last_drop(trim, least)
    tie = _first_tie(trim, least)
    removed = np.where((removed == 0) & (tie > 0), tie, removed)
    groups = np.arange(len(removed))
    return removed, trim.low[removed, groups], trim.deviation[removed, groups]


def median_of(ordered: Array) -> Array:
    """The midpoint median of ordered columns."""
    lower, upper = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return np.where(lower == upper, lower, 0.5 * lower + 0.5 * upper)


def _last_drop(trim: Trims, least: Array) -> NDArray[np.int64]:
    """The largest j whose removal halves the deviation once more, leaves contrast, and takes only far rewards."""
    chosen = np.zeros(len(trim.median), dtype=np.int64)
    for j in range(1, len(trim.deviation)):
        before, after = trim.deviation[j - 1], trim.deviation[j]
        chosen[(after > 0) & (after <= before / STEP_DROP) & (trim.nearest[j] > least)] = j
    return chosen


def _first_tie(trim: Trims, least: Array) -> NDArray[np.int64]:
    chosen = np.zeros(len(trim.median), dtype=np.int64)
    for j in range(len(trim.deviation) - 1, 0, -1):
        chosen[(trim.deviation[j] == 0) & (trim.deviation[j - 1] > 0) & (trim.nearest[j] > least)] = j
    return chosen


def _edges(trim: Trims, removed: NDArray[np.int64]) -> tuple[Array, Array]:
    groups, n = np.arange(len(removed)), len(trim.ordered)
    low = trim.low[removed, groups]
    return trim.ordered[low, groups], trim.ordered[n - 1 - (removed - low), groups]


def _outward(tail: Array, middle: Array | None = None) -> Array:
    """The sum of the middle plus the first 0, 1, 2, ... rows of a tail, from the middle outward."""
    sums = np.empty((len(tail) + 1, tail.shape[1]))
    sums[0] = 0.0 if middle is None else middle.sum(0)
    for k, row in enumerate(tail):
        np.add(sums[k], row, out=sums[k + 1])
    return sums
