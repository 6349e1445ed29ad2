"""The ordered rewards of every group, in one sort: ends, median, mean, deviation, core, and whether rewards can dominate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrays import Array, pieces, widest
from rovrl.audit.measure.dominance import MAX_REMOVED, STEP_DROP, median_of, window_sums

TINY, HUGE = 1e-140, 1e140
"""Groups whose range is not between these have squares that may under- or overflow."""
ROUNDING = 1e-9
"""Far above the relative rounding of a variance, far below any other difference between two."""


@dataclass
class Ordered:
    """What the ordered rewards of each group say; one entry per group."""

    lowest: Array
    highest: Array
    median: Array
    mean: Array
    deviation: Array
    """Of the sample."""
    core: Array
    """The range without the quarter whose removal leaves the least variance."""
    suspect: NDArray[np.bool_]
    """Removing that quarter halves the deviation. Where it does not, no smaller removal does, and no reward can dominate."""


def order_statistics(rewards: Array, into: Ordered | None = None) -> Ordered:
    """The order statistics of finite rewards [group, n] with n ≥ 2; written `into` arrays that exist, if they are given.

    The least deviation of n - j of a group's rewards never grows with j: the farthest of m numbers from their mean holds at
    least 1/(m - 1) of their sum of squares about it.
    """
    groups, n = rewards.shape
    found = into or Ordered(*np.empty((6, groups)), suspect=np.empty(groups, dtype=bool))
    rows, work = np.empty((widest(groups, n), n)), np.empty((3, n, widest(groups, n)))
    with np.errstate(over="ignore", invalid="ignore"):
        for part in pieces(groups, n):
            some = rows[: part.stop - part.start]
            some[:] = rewards[part]
            some.sort(axis=1)
            ordered, about, square = work[:, :, : len(some)]
            ordered[:] = some.T
            _fill(found, part, ordered, about, square)
        spread = found.highest - found.lowest
        odd = np.flatnonzero((found.lowest < found.highest) & ~((spread > TINY) & (spread < HUGE)))
        if len(odd):
            _rescaled(found, rewards[odd], odd)
    np.clip(found.mean, found.lowest, found.highest, out=found.mean)
    return found


def _fill(found: Ordered, here: slice, ordered: Array, about: Array, square: Array) -> None:
    """Writes what some groups [n, group], ascending, say into its place; the others are arrays to compute in.

    Sums are about the median: nothing cancels.
    """
    n = len(ordered)
    most = min(n // 4, MAX_REMOVED)
    middle = median_of(ordered)
    np.subtract(ordered, middle, out=about)
    np.multiply(about, about, out=square)
    sums = window_sums(about, square, most)
    variances = sums.variances(most)
    least = np.fmin.reduce(variances, axis=0)  # NaN: squares that overflow are not the least variance
    core = ordered[n - 1 - most] - ordered[0]
    for small in range(most, 0, -1):
        width = ordered[n - 1 - most + small] - ordered[small]
        np.copyto(core, width, where=variances[small] == least)
    np.copyto(core, ordered[n - 1 - most] - ordered[0], where=variances[0] == least)
    variance = np.maximum(sums.variances(0)[0], 0.0) / (n - 1)
    found.lowest[here], found.highest[here], found.median[here], found.core[here] = (
        ordered[0],
        ordered[-1],
        middle,
        core,
    )
    np.add(middle, (sums.below[0][most] + sums.above[0][most]) / n, out=found.mean[here])
    np.sqrt(variance, out=found.deviation[here])
    rest = STEP_DROP**2 * (1 - ROUNDING) * np.maximum(least, 0.0) / (n - most - 1)
    found.suspect[here] = ~(rest > variance) & (ordered[0] < ordered[-1])


def _rescaled(found: Ordered, rewards: Array, place: NDArray[np.int64]) -> None:
    """Mean and deviation where squares would over- or underflow: relative to the largest residual."""
    n = rewards.shape[1]
    mean = rewards @ np.full(n, 1 / n)  # weighted first: a sum of large numbers must not overflow
    mean = np.clip(mean, found.lowest[place], found.highest[place])
    largest = np.maximum(found.highest[place] - mean, mean - found.lowest[place])
    largest = np.maximum(largest, np.finfo(np.float64).tiny)
    residual = (rewards - mean[:, None]) / largest[:, None]
    found.mean[place] = mean
    found.deviation[place] = largest * np.sqrt(np.einsum("gn,gn->g", residual, residual) / (n - 1))
