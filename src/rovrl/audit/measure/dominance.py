"""Which rewards dominate their group: the few whose removal lets the rest be seen, and how much contrast they cost.

GRPO divides by the standard deviation of the whole group, so a few extreme rewards shrink every difference among the others
(prop:grpo_broadcast). A reward *dominates* if it is among at most a quarter of its group whose removal at least halves the
standard deviation of what remains, and is farther from the group's median than seven usual spreads: the median over the
neighbouring untied groups of their range, in units of the range that normal rewards would have. That says nothing about
whether the reward is wrong; and in 0/1 rewards, however rare the ones, nothing is flagged.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrays import Array

STEP_DROP = 2.0
"""Removing one more must at least halve the standard deviation."""
SPREADS = 7.0
"""A dominating reward is farther from the median than this many usual spreads."""
MAX_REMOVED = 16
PIECE = 4096


class Trims(NamedTuple):
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


def trims(rewards: Array) -> Trims:
    """The least-variance windows of the ordered rewards, [group, n] with n ≥ 2; at most a quarter is removed.

    Windows are sums of what they hold, taken about the median: nothing cancels when one reward is 1e12.
    """
    pieces = [_trims(rewards[k : k + PIECE]) for k in range(0, len(rewards), PIECE)]  # each fits into the cache
    return (
        pieces[0] if len(pieces) == 1 else Trims(*(np.concatenate(part, axis=-1) for part in zip(*pieces, strict=True)))
    )


def _trims(rewards: Array) -> Trims:
    ordered = np.ascontiguousarray(np.sort(rewards, axis=1).T)
    n, groups = ordered.shape
    most = min(n // 4, MAX_REMOVED)
    middle = _median(ordered)
    with np.errstate(over="ignore", invalid="ignore"):
        about = ordered - middle
        square = about * about
        first, second = about[most : n - most].sum(0), square[most : n - most].sum(0)
        below1, below2 = _outward(about[:most][::-1]), _outward(square[:most][::-1])
        above1, above2 = _outward(about[n - most :]), _outward(square[n - most :])
        deviation = np.empty((most + 1, groups))
        low = np.zeros((most + 1, groups), dtype=np.int64)
        nearest = np.full((most + 1, groups), np.inf)
        for removed in range(most + 1):
            count = n - removed
            variance = np.empty((removed + 1, groups))
            away = np.full((removed + 1, groups), np.inf)
            for small in range(removed + 1):
                large = removed - small
                total = first + below1[most - small] + above1[most - large]
                variance[small] = second + below2[most - small] + above2[most - large] - total * total / count
                if small:
                    away[small] = -about[small - 1]
                if large:
                    np.minimum(away[small], about[n - large], out=away[small])
            variance[np.isnan(variance)] = np.inf  # squares that overflow are not the least variance
            low[removed] = variance.argmin(0)
            chosen = low[removed][None]
            deviation[removed] = np.sqrt(np.maximum(np.take_along_axis(variance, chosen, 0)[0], 0.0) / (count - 1))
            nearest[removed] = np.take_along_axis(away, chosen, 0)[0]
    return Trims(ordered, middle, deviation, low, nearest)


def own_spread(trim: Trims) -> Array:
    """The range of each group without its dominating rewards, judged by the group alone, over the range of normal scores.

    NaN for a tied group. The range and not a deviation: for rare ones among zeros every deviation is small, the range is not.
    """
    removed = _last_drop(trim, np.full(len(trim.median), -np.inf))
    lowest, highest = _edges(trim, removed)
    with np.errstate(over="ignore"):
        spread = (highest - lowest) / normal_range(len(trim.ordered))
    return np.where(spread > 0, spread, np.nan)


def core_range(trim: Trims) -> Array:
    """The range of each group without the quarter whose removal leaves the least variance."""
    lowest, highest = _edges(trim, np.full(len(trim.median), len(trim.deviation) - 1))
    return highest - lowest


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
    groups = np.arange(len(removed))
    return removed, trim.low[removed, groups], trim.deviation[removed, groups]


def _median(ordered: Array) -> Array:
    """The midpoint median of ordered columns."""
    lower, upper = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return np.where(lower == upper, lower, 0.5 * lower + 0.5 * upper)


def _last_drop(trim: Trims, least: Array) -> NDArray[np.int64]:
    """The largest j whose removal halves the deviation once more, leaves contrast, and takes only far rewards."""
    chosen = np.zeros(len(trim.median), dtype=np.int64)
    for j in range(1, len(trim.deviation)):
        before, after = trim.deviation[j - 1], trim.deviation[j]
        chosen[(after > 0) & (after * STEP_DROP <= before) & (trim.nearest[j] > least)] = j
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


def _outward(tail: Array) -> list[Array]:
    """Sums of the first 0, 1, 2, ... rows of a tail, from the middle outward."""
    sums = [np.zeros(tail.shape[1])]
    for row in tail:
        sums.append(sums[-1] + row)
    return sums
