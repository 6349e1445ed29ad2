"""Do the groups differ as groups of responses to one prompt do? If not: equally hard prompts, or wrong group ids."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrays import Array
from rovrl.audit.measure.ranks import group_ranks
from rovrl.audit.measure.statistics import GroupTable
from rovrl.audit.read.rollouts import Rollouts

LEAST_GROUPS = 50
"""The fewest groups with which it can be said whether groups differ."""
GROUPS_RANKED = 2000
ALIKE = 2.0
"""Groups that differ by less than this many standard errors more than random sets do are alike."""
LESS = 3.0
"""Groups that differ by more than this many standard errors less than random sets do have rewards relative to the group."""


@dataclass(frozen=True)
class Alike:
    """How much more the groups of a step differ than random sets of its responses would."""

    ratio: float
    """F: the mean square between groups over that within, of ranks; 1 for random sets, less if they were dealt out in turn
    or if the rewards are relative to the group (ranks, win rates), which is honest."""
    error: float
    """Its standard error for random sets."""
    dealt: float
    """F for the groups that a reshape of interleaved rows would have torn apart; NaN where sizes differ."""
    beyond: float
    """Standard errors by which `dealt` exceeds what it is if the responses of each group are shuffled; 0 where sizes differ."""

    @property
    def alike(self) -> bool:
        """Whether the groups differ no more than random sets."""
        return self.ratio < 1 + ALIKE * self.error

    @property
    def relative(self) -> bool:
        """Whether the groups differ clearly less than random sets, as if each had the same rewards to give away."""
        return self.ratio < 1 - LESS * self.error

    @property
    def torn(self) -> float:
        """Standard errors by which the evidence for wrong ids exceeds chance; 0 where the groups differ as groups do."""
        return max(self.beyond, 0.0) if self.alike else 0.0


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
    dealt = _dealt_out(member, step, size)
    member = member[good]
    rank = group_ranks(np.zeros(len(member), dtype=np.int64), reward[good])
    rank -= (np.bincount(step[member], weights=rank) / np.maximum(np.bincount(step[member]), 1))[step[member]]
    found = _ratio(rank, _explained(rank, member, step), step)
    if found is None:
        return None
    if dealt is None:
        return Alike(*found, np.nan, 0.0)
    return Alike(*found, *_beyond(rank, member, dealt[good], step))


def _beyond(
    rank: Array, member: NDArray[np.int64], dealt: NDArray[np.int64], step: NDArray[np.int64]
) -> tuple[float, float]:
    """(F of the rows dealt out in turn, the standard errors by which it exceeds its mean under shuffles within the groups).

    Whatever the rewards of a group are, also if they always have the same sum, an honest dump has its responses in no order:
    a shuffle within each group gives as large an F. Where ids are wrong it tears the true groups apart.
    """
    found = _ratio(rank, _explained(rank, dealt, step), step)
    usual = _ratio(rank, _shuffled(rank, member, dealt, step), step)
    if found is None or usual is None:
        return np.nan, 0.0
    between = len(step) - (int(step.max()) + 1)
    rest = len(rank) - len(step) - between  # what is left beside groups and dealt groups; few in groups of two
    return found[0], (found[0] / usual[0] - 1) / float(np.sqrt(2 / between + 2 / max(rest, 1)))


def _explained(rank: Array, member: NDArray[np.int64], step: NDArray[np.int64]) -> float:
    """Σ (sum of a group)²/(its size)."""
    count = np.bincount(member, minlength=len(step))
    return float((np.bincount(member, weights=rank, minlength=len(step)) ** 2 / np.maximum(count, 1)).sum())


def _shuffled(rank: Array, member: NDArray[np.int64], dealt: NDArray[np.int64], step: NDArray[np.int64]) -> float:
    """The mean of `_explained` for the dealt groups if the responses of each group are shuffled; exact.

    Of group j, with mean m and variance v, dealt group d holds n of its c responses: the sum it gets from there has the mean
    n·m and the variance n·v·(1 - n/c).
    """
    groups = len(step)
    count = np.maximum(np.bincount(member, minlength=groups), 1)
    mean = np.bincount(member, weights=rank, minlength=groups) / count
    off = rank - mean[member]
    variance = np.bincount(member, weights=off * off, minlength=groups) / np.maximum(count - 1, 1)
    both, held = np.unique(dealt * groups + member, return_counts=True)
    d, j = np.divmod(both, groups)
    total = np.bincount(d, weights=held * mean[j], minlength=groups)
    spread = np.bincount(d, weights=held * variance[j] * (1 - held / count[j]), minlength=groups)
    return float(((total**2 + spread) / np.maximum(np.bincount(dealt, minlength=groups), 1)).sum())


def _ratio(rank: Array, explained: float, step: NDArray[np.int64]) -> tuple[float, float] | None:
    """(F, its standard error): mean squares of ranks, which sum to 0 in every step, between groups and within them."""
    between_freedom, within_freedom = len(step) - (int(step.max()) + 1), len(rank) - len(step)
    between, within = explained / between_freedom, (float((rank * rank).sum()) - explained) / within_freedom
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
