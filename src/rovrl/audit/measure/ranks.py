"""Correlation inside groups: do the responses of a group that have more of one thing have more of another?"""

from __future__ import annotations

import numpy as np

from rovrl.audit.arrays import Array, Counts


def group_correlation(group: Counts, groups: int, x: Array, y: Array) -> Array:
    """Spearman's rank correlation of x and y within every group [groups]; NaN where one is constant or fewer than 3 are known.

    `group` is the group's number of every response. Ranks and not values: one extreme reward must not decide it.
    """
    known = np.isfinite(x) & np.isfinite(y)
    group, x, y = group[known], x[known], y[known]
    count = np.bincount(group, minlength=groups)
    u, v = (_centred(group, values, count) for values in (x, y))
    both = np.bincount(group, weights=u * v, minlength=groups)
    scale = np.sqrt(
        np.bincount(group, weights=u * u, minlength=groups) * np.bincount(group, weights=v * v, minlength=groups)
    )
    return np.divide(both, scale, out=np.full(groups, np.nan), where=(scale > 0) & (count >= 3))


def group_ranks(group: Counts, values: Array) -> Array:
    """The rank of every value within its group, from 1; equal values share the middle of theirs."""
    order = np.lexsort((values, group))
    g, v = group[order], values[order]
    new_group = np.append(True, g[1:] != g[:-1])
    new_run = new_group | np.append(True, v[1:] != v[:-1])
    first = np.flatnonzero(new_run)
    length = np.diff(np.append(first, len(order)))
    start = np.maximum.accumulate(np.where(new_group, np.arange(len(order)), 0))
    middle = first - start[first] + (length + 1) / 2
    ranks = np.empty(len(order))
    ranks[order] = np.repeat(middle, length)
    return ranks


def _centred(group: Counts, values: Array, count: Counts) -> Array:
    ranks = group_ranks(group, values) if len(values) else values
    return ranks - (count[group] + 1) / 2
