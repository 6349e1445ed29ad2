"""Does the scale of the rewards jump? A change of the groups' spread that lasts, and that no shuffle of the groups explains."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrays import Array
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


def scale_jump(rollouts: Rollouts, table: GroupTable) -> tuple[int, float] | None:
    """(step, factor) of the clearest lasting change of the spread within groups; None if chance explains all of them.

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
    return int(step[edges[large[best]]]), math.exp(float(change[large[best]]))


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
