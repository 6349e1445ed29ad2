"""What the group statistics did, per group: mean, robust reference, lost contrast, sign changes. No loop over groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrays import Array, Counts
from rovrl.audit.measure.dominance import Ordered, usual_spread
from rovrl.audit.measure.lost import lost_by_credit, others_of
from rovrl.audit.measure.settings import BySteps, settings_by_step, sharing_settings
from rovrl.audit.read.rollouts import Rollouts
from rovrl.config import GRPO_EPSILON, RewardChannel
from rovrl.output.progress import Progress
from rovrl.robust.kernels import compiled_if_large

SIGN_TOLERANCE = 1e-9
"""In standard deviations: an advantage this near to 0 has no sign."""
Flags = NDArray[np.bool_]


@dataclass
class GroupTable:
    """One entry per group. Undefined values are NaN: a group of one has no deviation, a tied group no contrast."""

    size: Counts
    finite: Counts
    """Responses whose reward is a number."""
    mean: Array
    deviation: Array
    """Sample standard deviation, GRPO's divisor."""
    median: Array
    reference: Array
    """The RoVR reference, eq:rovr."""
    nu: Array
    """The pooled scale behind it; 0 where one block needs none."""
    fallback: Flags
    """The budget is not supported at this size: the reference is the global M-center."""
    tied: Flags
    """Two or more finite rewards, all equal."""
    single: Flags
    """Fewer than two finite rewards."""
    dominating: Counts
    """Rewards that dominate the group (rovrl.audit.measure.dominance)."""
    dominating_low: Counts
    """How many of those are the smallest rewards; the others are the largest."""
    lost: Array
    """Share of the contrast among the other responses that GRPO's normalisation lost to them; 0 if none dominates."""
    lost_credit: Array
    """The same for the bounded credit."""
    lost_own: Array
    """The same for the advantages that the run logged; NaN without any (rovrl.audit.judge.trained fills it in)."""
    shift: Array
    """Robust reference minus mean."""
    flips: Counts
    """Responses whose GRPO advantage and robust credit have opposite signs."""
    spread: Array
    """The group's own spread (rovrl.audit.measure.dominance); NaN if tied."""
    usual: Array
    """The usual spread of the groups around it; infinite if all are tied."""
    lowest: Array
    highest: Array
    """The smallest and the largest reward."""
    core: Array
    """The range of the three quarters of the group that lie closest together."""

    @classmethod
    def empty(cls, size: Counts, finite: Counts) -> GroupTable:
        """For groups of so many responses and finite rewards; all else NaN, 0 and False."""
        groups = len(size)
        numbers = ("mean", "deviation", "median", "reference", "nu", "lost", "lost_credit", "lost_own", "shift")
        numbers += ("spread", "usual", "lowest", "highest", "core")
        counts = ("dominating", "dominating_low", "flips")
        filled: dict[str, Any] = {name: np.full(groups, np.nan) for name in numbers}
        filled |= {name: np.zeros(groups, dtype=np.int64) for name in counts}
        return cls(
            size=size,
            finite=finite,
            single=finite < 2,
            tied=np.zeros(groups, dtype=bool),
            fallback=np.zeros(groups, dtype=bool),
            **filled,
        )

    @property
    def untied(self) -> Flags:
        """Groups that carry a signal."""
        return ~self.tied & ~self.single

    @property
    def sign_change_share(self) -> float:
        """The share of the responses of untied groups whose advantage changes its sign."""
        return float(self.flips.sum()) / max(int(self.finite[self.untied].sum()), 1)


def group_table(
    rollouts: Rollouts, channel: RewardChannel, progress: Progress, own: BySteps | None = None
) -> tuple[GroupTable, BySteps]:
    """The statistics of every group, and the settings with all numbers filled in: the run's `own` if it logged them."""
    values, start = rollouts.reward, rollouts.start
    scored = ~np.isnan(values)
    if not scored.all():
        values, start = values[scored], np.append(0, np.cumsum(scored))[start]
    table = GroupTable.empty(rollouts.size, np.diff(start))
    sizes = [n for n in np.unique(table.finite).tolist() if n >= 2]
    by_step = own or settings_by_step(rollouts, sizes, channel)
    every = [_side_by_side(values, start, np.flatnonzero(table.finite == n), n) for n in sizes]
    ordered = [_order(table, groups, rewards) for groups, rewards in every]
    table.usual = usual_spread(table.spread)
    done = 0
    with compiled_if_large(len(values)):
        for (groups, rewards), order in zip(every, ordered, strict=True):
            step = rollouts.step[groups]
            for settings, part in sharing_settings(step, by_step):
                table.reference[groups[part]], table.nu[groups[part]] = settings.references(rewards[part])
                table.fallback[groups[part]] = settings.partition(rewards.shape[1])[1]
            _dominance(table, groups, rewards, order, step, by_step)
            _flips(table, groups, rewards)
            done += len(groups)
            progress(done, rollouts.groups, "group statistics")
    return table, by_step


def _side_by_side(values: Array, start: Counts, groups: Counts, n: int) -> tuple[Counts, Array]:
    """Some groups with n of the values each, and those as [group, n]: a view where they lie one after the other."""
    first = start[groups]
    if len(groups) * n == first[-1] - first[0] + n:
        return groups, values[first[0] : first[-1] + n].reshape(-1, n)
    return groups, values[first[:, None] + np.arange(n)]


def _order(table: GroupTable, groups: Counts, rewards: Array) -> Ordered:
    """Writes what the order of the rewards [group, n] of some groups says."""
    order = Ordered.of(rewards)
    table.lowest[groups], table.highest[groups] = order.ordered[0], order.ordered[-1]
    table.median[groups], table.mean[groups], table.deviation[groups] = order.median, order.mean, order.deviation[0]
    table.tied[groups] = order.ordered[0] == order.ordered[-1]
    table.spread[groups], table.core[groups] = order.spread, order.core
    return order


def _dominance(
    table: GroupTable, groups: Counts, rewards: Array, order: Ordered, step: Counts, by_step: BySteps
) -> None:
    table.dominating[groups], table.dominating_low[groups], rest = order.dominating(table.usual[groups])
    table.lost[groups] = table.lost_credit[groups] = np.where(table.tied[groups], np.nan, 0.0)
    loses = np.flatnonzero((table.dominating[groups] > 0) & (rest > 0))
    hit = groups[loses]
    with np.errstate(invalid="ignore"):
        kept = (rest[loses] + GRPO_EPSILON) / (table.deviation[hit] + GRPO_EPSILON)
    table.lost[hit] = 1 - np.minimum(np.nan_to_num(kept), 1.0)
    if len(hit):
        some = rewards[loses]
        table.lost_credit[hit] = lost_by_credit(some, others_of(some, table, hit), step[loses], by_step)


def _flips(table: GroupTable, groups: Counts, rewards: Array) -> None:
    """Sign changes: responses above one center and below the other."""
    mean, reference, edge = table.mean[groups], table.reference[groups], SIGN_TOLERANCE * table.deviation[groups]
    with np.errstate(over="ignore", invalid="ignore"):
        table.shift[groups] = reference - mean
        lower, upper = np.minimum(mean, reference) + edge, np.maximum(mean, reference) - edge
    between = (rewards > lower[:, None]) & (rewards < upper[:, None])
    table.flips[groups] = np.where(table.tied[groups], 0, between.sum(1))
