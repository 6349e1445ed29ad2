"""What dominating rewards cost under bounded credit: the contrast among the others, with them and without them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrays import Array, Counts
from rovrl.audit.measure.reference import credit, references
from rovrl.config import RewardChannel
from rovrl.partition import partition


def lost_by_credit(
    rewards: Array, ordered: Array, reference: Array, count: Counts, low: Counts, channel: RewardChannel
) -> Array:
    """1 - C_H(credit of the whole group)/C_H(credit of the others alone), C_H over the others (rovrl.contrast).

    Of groups [group, n], with the same ascending [n, group]; `count` of each dominate, `low` of those are the smallest.
    """
    keep = _others(rewards, ordered, count, low)
    left = rewards.shape[1] - count
    after = _deviation(credit(_along_groups(rewards), reference, channel), _along_groups(keep), left)
    lost = np.empty(len(rewards))
    for m in np.flatnonzero(np.bincount(left)).tolist():
        rows = np.flatnonzero(left == m)
        others = _along_groups(rewards[rows][keep[rows]].reshape(-1, m))
        alone = credit(others, references(others, partition(m, channel)[0], channel)[0], channel)
        lost[rows] = 1 - np.minimum(after[rows] / alone.std(1), 1.0)
    return lost


def _deviation(x: Array, keep: NDArray[np.bool_], count: Counts) -> Array:
    """The standard deviation of the kept numbers of each row [group, n], `count` of them."""
    mean = (x * keep).sum(1) / count
    residual = (x - mean[:, None]) * keep
    return np.sqrt(np.einsum("gn,gn->g", residual, residual) / count)


def _along_groups(x: NDArray[Any]) -> NDArray[Any]:
    """The same [group, n], laid out so that operations run along groups."""
    return np.ascontiguousarray(x.T).T


def _others(rewards: Array, ordered: Array, count: Counts, low: Counts) -> NDArray[np.bool_]:
    """Which rewards do not dominate: all from the smallest to the largest of the others, which equal none that do."""
    groups, n = np.arange(len(rewards)), rewards.shape[1]
    keep = rewards >= ordered[low, groups][:, None]
    keep &= rewards <= ordered[n - 1 - (count - low), groups][:, None]
    tied = np.flatnonzero(keep.sum(1) != n - count)
    if len(tied):  # of equals the first in the group count as the smaller
        place, below = np.arange(n), low[tied, None]
        inside = (place >= below) & (place < n - (count[tied, None] - below))
        those = np.empty((len(tied), n), dtype=bool)
        np.put_along_axis(those, rewards[tied].argsort(1, kind="stable"), inside, 1)
        keep[tied] = those
    return keep
