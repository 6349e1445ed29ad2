"""What dominating rewards cost: the contrast C_H among the other responses (rovrl.contrast), with them and without them."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrays import Array, Counts
from rovrl.audit.measure.settings import BySteps, Settings, sharing_settings


class Dominated(Protocol):
    """What is asked of a group table."""

    finite: Counts
    dominating: Counts
    dominating_low: Counts


def lost_contrast(advantages: Array, keep: NDArray[np.bool_], alone: Array) -> Array:
    """1 - C_H(A)/C_H(A_H) of groups [group, n]: A of the whole group, A_H of the others alone, whose deviation is `alone`."""
    count = keep.sum(1)
    mean = (advantages * keep).sum(1) / count
    residual = (advantages - mean[:, None]) * keep
    return 1 - np.minimum(np.sqrt(np.einsum("gn,gn->g", residual, residual) / count) / alone, 1.0)


def grpo_alone(keep: NDArray[np.bool_]) -> Array:
    """The standard deviation of GRPO's advantages of the others alone: it divides by n - 1, and its epsilon is small."""
    count = keep.sum(1)
    return np.sqrt((count - 1) / count)


def credit_alone(rewards: Array, keep: NDArray[np.bool_], settings: Settings) -> Array:
    """The standard deviation of the credit of the others alone."""
    alone, left = np.empty(len(rewards)), keep.sum(1)
    for m in np.unique(left).tolist():
        rows = np.flatnonzero(left == m)
        alone[rows] = settings.credit(rewards[rows][keep[rows]].reshape(-1, m)).std(1)
    return alone


def lost_by_credit(rewards: Array, keep: NDArray[np.bool_], step: Counts, by_step: BySteps) -> Array:
    """The contrast lost under bounded credit, by the settings of each step."""
    lost = np.empty(len(rewards))
    for settings, part in sharing_settings(step, by_step):
        some, others = rewards[part], keep[part]
        lost[part] = lost_contrast(settings.credit(some), others, credit_alone(some, others, settings))
    return lost


def others_of(rewards: Array, table: Dominated, groups: Counts) -> NDArray[np.bool_]:
    """Which of the rewards [group, n] do not dominate; of equals the first in the group count as the smaller."""
    low = table.dominating_low[groups, None]
    high = table.finite[groups, None] - (table.dominating[groups, None] - low)
    place = np.arange(rewards.shape[1])
    keep = np.empty(rewards.shape, dtype=bool)
    np.put_along_axis(keep, rewards.argsort(1, kind="stable"), (place >= low) & (place < high), 1)
    return keep
