"""Does the scale of the rewards jump? A change of the groups' spread that lasts, and that no shuffle of the groups explains."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrays import Array
from rovrl.audit.describe.ranks import group_correlation
from rovrl.audit.measure.statistics import GroupTable
from rovrl.audit.read.rollouts import Rollouts

BESIDE = 48
"""Groups on each side of a step that are compared."""
LEAST = 12
"""With fewer on one side nothing is said."""
LARGE = 1.2
"""A smaller factor is not a jump, and is not tested."""
ERROR = 1e-3
"""The chance, over all steps together, that groups in random order show such a change; honest runs drift, hence so small."""
STEPS = 6
"""Steps on each side, or as many as hold BESIDE groups, in which the rewards may move along."""
TREND, CLEAR = 0.5, 2.5
"""They do if the groups' means have this rank correlation with the step, and so many standard errors of it."""


class Jump(NamedTuple):
    """A lasting change of the spread."""

    step: int
    """The first step with the new spread."""
    factor: float
    gradual: bool
    """Whether the rewards themselves move from step to step just before or after it, as while something is learned."""


def scale_jump(rollouts: Rollouts, table: GroupTable) -> Jump | None:
    """The clearest lasting change of the spread within groups; None if chance explains all of them.

    At every step the 48 groups before it are compared with the 48 from it on, by the sum of their ranks. If the groups stood
    in random order, that sum would have the permutation distribution of Wilcoxon's statistic (its exact mean and variance,
    ties included); its tail, times the number of steps compared, must be below 0.001.
    """
    known = np.flatnonzero(np.isfinite(table.spread) & (table.spread > 0))
    known = known[np.argsort(rollouts.step[known], kind="stable")]
    log, step = np.log(table.spread[known]), rollouts.step[known]
    edges = np.flatnonzero(np.diff(step)) + 1
    edges = edges[(edges >= LEAST) & (edges <= len(log) - LEAST)]
    if not len(edges):
        return None
    change = _change(log, edges)
    large = np.flatnonzero(np.abs(change) > math.log(LARGE))
    if not len(large):
        return None
    sides = ((log[max(0, k - BESIDE) : k], log[k : k + BESIDE]) for k in edges[large].tolist())
    clear = np.abs([_deviations(before, after) for before, after in sides])
    best = int(np.argmax(clear))
    if len(edges) * math.erfc(float(clear[best]) / 2**0.5) > ERROR:
        return None
    first = int(step[edges[large[best]]])
    return Jump(first, math.exp(float(change[large[best]])), _moves(rollouts.step, table.mean, first))


def _moves(step: NDArray[np.int64], mean: Array, first: int) -> bool:
    """Whether the groups' means rise or fall with the steps before `first`, or from it on.

    A changed unit leaves the rewards on either side of it as they are. Where a format is learned on which a score depends, the
    groups that still have a failure get fewer from step to step: their wide spread goes within a few steps, too.
    """
    known = np.flatnonzero(np.isfinite(mean))
    known = known[np.argsort(step[known], kind="stable")]
    edge = int(np.searchsorted(step[known], first))
    steps = np.unique(step[known])
    place = int(np.searchsorted(steps, first))
    low = int(np.searchsorted(step[known], steps[max(0, place - STEPS)]))
    high = int(np.searchsorted(step[known], steps[min(len(steps), place + STEPS) - 1], side="right"))
    return any(
        _trend(step[side].astype(np.float64), mean[side])
        for side in (known[max(0, min(low, edge - BESIDE)) : edge], known[edge : max(high, edge + BESIDE)])
    )


def _trend(step: Array, mean: Array) -> bool:
    found = group_correlation(np.zeros(len(step), dtype=np.int64), 1, step, mean)[0]  # NaN within one step
    return bool(abs(found) >= max(TREND, CLEAR / max(len(step) - 1, 1) ** 0.5))


def _change(log: Array, edges: NDArray[np.int64]) -> Array:
    """The median from each edge on minus the median before it."""
    padded = np.pad(log, BESIDE, constant_values=np.nan)
    place = edges[:, None] + np.arange(BESIDE)
    return _medians(padded[place + BESIDE]) - _medians(padded[place])


def _medians(rows: Array) -> Array:
    """The median of each row without its NaN, of which no row consists."""
    ascending, at = np.sort(rows, axis=1), np.arange(len(rows))
    known = rows.shape[1] - np.isnan(rows).sum(1)
    return 0.5 * (ascending[at, (known - 1) // 2] + ascending[at, known // 2])


def _deviations(before: Array, after: Array) -> float:
    """The rank sum of `after` minus its mean under permutation, over its standard deviation; 0 if all are equal."""
    n, m = len(before), len(after)
    _, inverse, count = np.unique(np.concatenate([before, after]), return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[inverse]
    variance = n * m / 12 * (n + m + 1 - float((count**3 - count).sum()) / ((n + m) * (n + m - 1)))
    return (float(rank[n:].sum()) - m * (n + m + 1) / 2) / variance**0.5 if variance > 1e-9 else 0.0
