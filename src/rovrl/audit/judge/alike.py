"""Do the groups differ as groups of responses to one prompt do? If not: equally hard prompts, or wrong group ids."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrays import Array
from rovrl.audit.measure.statistics import GroupTable
from rovrl.audit.read.rollouts import Rollouts

LEAST_GROUPS = 50
"""The fewest groups with which it can be said whether groups differ."""
GROUPS_RANKED = 2000
ALIKE = 2.0
"""Groups that differ by less than this many standard errors more than random sets do are alike."""


@dataclass(frozen=True)
class Alike:
    """How much more the groups of a step differ than random sets of its responses would."""

    ratio: float
    """F: the mean square between groups over that within, of ranks; 1 for random sets, less if they were dealt out in turn."""
    error: float
    """Its standard error for random sets."""
    dealt: float
    """F for the groups that a reshape of interleaved rows would have torn apart; NaN where sizes differ."""

    @property
    def alike(self) -> bool:
        """Whether the groups differ no more than random sets."""
        return self.ratio < 1 + ALIKE * self.error

    @property
    def torn(self) -> float:
        """Standard errors by which the evidence for wrong ids exceeds chance; 0 where the groups differ as groups do."""
        if not self.alike:
            return 0.0
        return max((1 - self.ratio) / self.error, (self.dealt - 1) / self.error if self.dealt > 1 else 0.0, 0.0)


def alike(rollouts: Rollouts, table: GroupTable) -> Alike | None:
    """The comparison over at most GROUPS_RANKED groups; None with too few groups, or where all rewards are equal."""
    usable = np.flatnonzero(table.finite >= 2)[:GROUPS_RANKED]
    usable = usable[np.argsort(rollouts.step[usable], kind="stable")]
    _, step, in_step = np.unique(rollouts.step[usable], return_inverse=True, return_counts=True)
    usable = usable[in_step[step] >= 2]
    _, step = np.unique(rollouts.step[usable], return_inverse=True)
    if len(usable) - (step.max(initial=-1) + 1) < LEAST_GROUPS:
        return None
    size = table.size[usable]
    member = np.repeat(np.arange(len(usable)), size)
    reward = rollouts.reward[np.arange(len(member)) + np.repeat(rollouts.start[usable] - np.cumsum(size) + size, size)]
    good = ~np.isnan(reward)
    rank = _ranks(reward[good])
    found = _ratio(rank, member[good], step)
    if found is None:
        return None
    dealt = _dealt_out(member, step, size)
    other = _ratio(rank, dealt[good], step) if dealt is not None else None
    return Alike(*found, other[0] if other else np.nan)


def _ratio(rank: Array, member: NDArray[np.int64], step: NDArray[np.int64]) -> tuple[float, float] | None:
    """(F, its standard error): mean squares of ranks between the groups of a step and within groups."""
    count = np.bincount(member, minlength=len(step))
    total, square = np.bincount(member, weights=rank, minlength=len(step)), float((rank * rank).sum())
    explained = float((total**2 / np.maximum(count, 1)).sum())
    by_step = float((np.bincount(step, weights=total) ** 2 / np.maximum(np.bincount(step, weights=count), 1)).sum())
    between_freedom, within_freedom = len(step) - (int(step.max()) + 1), len(rank) - len(step)
    between, within = (explained - by_step) / between_freedom, (square - explained) / within_freedom
    if within <= 1e-12 * max(between, 1.0):
        return None
    return between / within, float(np.sqrt(2 / between_freedom + 2 / within_freedom))


def _dealt_out(member: NDArray[np.int64], step: NDArray[np.int64], size: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """For each response the group it would be in, had the rows of its step been dealt out in turn; None if sizes differ."""
    if (size != size[0]).any():
        return None
    first = np.searchsorted(step, np.arange(int(step.max()) + 1))
    groups = np.bincount(step)
    at = step[member]
    place = np.arange(len(member)) - first[at] * size[0]
    return first[at] + place % groups[at]


def _ranks(values: Array) -> Array:
    """Centered ranks; equal values share the middle of theirs."""
    _, inverse, count = np.unique(values, return_inverse=True, return_counts=True)
    middle = np.cumsum(count) - (count - 1) / 2
    return middle[inverse] - (len(values) + 1) / 2
