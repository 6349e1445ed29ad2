"""What dominating rewards cost under bounded credit: the contrast among the others, with them and without them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrays import Array, Counts
from rovrl.audit.measure.reference import credit, references
from rovrl.audit.measure.settings import Settings


def lost_by_credit(
    rewards: Array, ordered: Array, reference: Array, count: Counts, low: Counts, settings: Settings
) -> Array:
    """1 - C_H(credit of the whole group)/C_H(credit of the others alone), C_H over the others (rovrl.contrast).

    Of groups [group, n], with the same ascending [n, group]; `count` of each dominate, `low` of those are the smallest.
    """
    keep = others_of(rewards, ordered, count, low)
    left = rewards.shape[1] - count
    after = deviation_of(credit(_along_groups(rewards), reference, settings.channel), _along_groups(keep), left)
    return 1 - np.minimum(after / credit_alone(rewards, keep, left, settings), 1.0)


def credit_alone(rewards: Array, keep: NDArray[np.bool_], left: Counts, settings: Settings) -> Array:
    """The standard deviation of the credit of the others alone, `left` of each group."""
    alone = np.empty(len(rewards))
    for m in np.flatnonzero(np.bincount(left)).tolist():
        rows = np.flatnonzero(left == m)
        rest = _along_groups(rewards[rows][keep[rows]].reshape(-1, m))
        reference = references(rest, settings.partition(m)[0], settings.channel)[0]
        alone[rows] = credit(rest, reference, settings.channel).std(1)
    return alone


def deviation_of(x: Array, keep: NDArray[np.bool_], count: Counts) -> Array:
    """The standard deviation of the kept numbers of each row [group, n], `count` of them."""
    mean = (x * keep).sum(1) / count
    residual = (x - mean[:, None]) * keep
    return np.sqrt(np.einsum("gn,gn->g", residual, residual) / count)


def _along_groups(x: NDArray[Any]) -> NDArray[Any]:
    """The same [group, n], laid out so that operations run along groups."""
    return np.ascontiguousarray(x.T).T


def others_of(rewards: Array, ordered: Array, count: Counts, low: Counts) -> NDArray[np.bool_]:
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
