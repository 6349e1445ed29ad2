"""What the group statistics did, per group: mean, robust reference, lost contrast, sign changes. No loop over groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrays import Array, Counts
from rovrl.audit.measure import dominance
from rovrl.audit.measure.by_step import channels_by_step, sharing_settings
from rovrl.audit.measure.reference import credit, references
from rovrl.audit.read.rollouts import Rollouts
from rovrl.config import GRPO_EPSILON, RewardChannel
from rovrl.output.progress import Progress
from rovrl.partition import partition

SIGN_TOLERANCE = 1e-9
"""In standard deviations: an advantage this near to 0 has no sign."""
NEIGHBOURS = 64
"""Untied groups whose median spread is the usual one."""

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
    """The pooled scale behind it; NaN where one block needs none."""
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
    signature: NDArray[np.uint64]
    """Equal for groups with the same finite rewards in the same order."""

    @classmethod
    def empty(cls, groups: int) -> GroupTable:
        """All NaN, 0 and False."""
        kinds = {"Array": np.nan, "Flags": False, "Counts": 0, "NDArray[np.uint64]": np.uint64(0)}
        return cls(**{f.name: np.full(groups, kinds[str(f.type)]) for f in fields(cls)})

    @property
    def untied(self) -> Flags:
        """Groups that carry a signal."""
        return ~self.tied & ~self.single


def group_table(
    rollouts: Rollouts, channel: RewardChannel, progress: Progress
) -> tuple[GroupTable, dict[int, RewardChannel]]:
    """The statistics of every group, and the settings with all numbers filled in, by step (one entry, -1, if equal for all)."""
    table = GroupTable.empty(rollouts.groups)
    table.size = rollouts.size
    values, start = _finite(rollouts)
    table.finite = np.diff(start)
    table.single = table.finite < 2
    matrices = [(groups, _rows(values, start, groups, n)) for n, groups in _sizes(table.finite)]
    channels = channels_by_step(rollouts, matrices, channel)
    trimmed = []
    for groups, rewards in matrices:
        trim = dominance.trims(rewards)
        trimmed.append(trim)
        table.spread[groups] = dominance.own_spread(trim)
        table.signature[groups] = _signature(rewards)
    table.usual = usual_spread(table.spread)
    done = 0
    for (groups, rewards), trim in zip(matrices, trimmed, strict=True):
        _moments(table, groups, rewards, trim)
        for settings, part in sharing_settings(rollouts.step[groups], channels):
            _reference(table, groups[part], rewards[part], settings)
        _dominance(table, groups, rewards, trim, rollouts.step, channels)
        _flips(table, groups, rewards)
        done += len(groups)
        progress(done, rollouts.groups, "group statistics")
    return table, channels


def usual_spread(own: Array) -> Array:
    """For each group the median spread of the NEIGHBOURS untied groups around it, in blocks; infinite if all are tied.

    Of neighbours and not of the run: the rewards' scale may change while training goes on.
    """
    defined = np.flatnonzero(np.isfinite(own))
    if not len(defined):
        return np.full(len(own), np.inf)
    blocks = max(1, len(defined) // NEIGHBOURS)
    edges = np.append(np.arange(blocks) * NEIGHBOURS, len(defined))
    if blocks > 1:
        middle = np.median(own[defined[: edges[-2]]].reshape(blocks - 1, NEIGHBOURS), axis=1)
        middle = np.append(middle, np.median(own[defined[edges[-2] :]]))
    else:
        middle = np.array([np.median(own[defined])])
    return middle[np.searchsorted(defined[edges[:-1]], np.arange(len(own)), side="right").clip(min=1) - 1]


def _signature(rewards: Array) -> NDArray[np.uint64]:
    odd = np.random.default_rng(0).integers(1, 2**63, rewards.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    bits = (rewards + 0.0).view(np.uint64)  # + 0.0: -0.0 and 0.0 are the same reward
    return np.einsum("gn,n->g", bits ^ (bits >> np.uint64(31)), odd)


def _finite(rollouts: Rollouts) -> tuple[Array, Counts]:
    """The finite rewards alone, and where each group starts among them."""
    good = ~np.isnan(rollouts.reward)
    if good.all():
        return rollouts.reward, rollouts.start
    count = np.concatenate([[0], np.cumsum(good)])[rollouts.start]
    return rollouts.reward[good], count


def _sizes(finite: Counts) -> Iterator[tuple[int, Counts]]:
    """(n, the groups with n finite rewards), for n ≥ 2."""
    for n in np.unique(finite).tolist():
        if n >= 2:
            yield n, np.flatnonzero(finite == n)


def _rows(values: Array, start: Counts, groups: Counts, n: int) -> Array:
    """[group, n]: a view where the groups lie one after the other."""
    first = start[groups]
    if len(groups) * n == first[-1] - first[0] + n:
        return values[first[0] : first[-1] + n].reshape(-1, n)
    return values[first[:, None] + np.arange(n)]


def _moments(table: GroupTable, groups: Counts, rewards: Array, trim: dominance.Trims) -> None:
    n = rewards.shape[1]
    with np.errstate(over="ignore", invalid="ignore"):
        mean = rewards @ np.full(n, 1 / n)  # weighted first: a sum of large numbers must not overflow
        table.mean[groups] = np.clip(mean, trim.lowest, trim.highest)
        table.deviation[groups] = _deviation(rewards, table.mean[groups], trim)
        table.core[groups] = dominance.core_range(trim)
    table.lowest[groups], table.highest[groups] = trim.lowest, trim.highest
    table.median[groups] = trim.median
    table.tied[groups] = trim.lowest == trim.highest


def _deviation(rewards: Array, mean: Array, trim: dominance.Trims) -> Array:
    """The sample standard deviation; squares are taken relative to the largest where they would over- or underflow."""
    residual = rewards - mean[:, None]
    largest = np.maximum(trim.highest - mean, mean - trim.lowest)
    safe = np.where((largest > 1e-150) & (largest < 1e150), 1.0, np.maximum(largest, np.finfo(np.float64).tiny))
    if not (safe == 1.0).all():
        residual /= safe[:, None]
    return safe * np.sqrt(np.einsum("gn,gn->g", residual, residual) / (rewards.shape[1] - 1))


def _reference(table: GroupTable, groups: Counts, rewards: Array, channel: RewardChannel) -> None:
    blocks, fell_back = partition(rewards.shape[1], channel)
    table.fallback[groups] = fell_back
    table.reference[groups], table.nu[groups] = references(rewards, blocks, channel)


def _dominance(
    table: GroupTable,
    groups: Counts,
    rewards: Array,
    trim: dominance.Trims,
    step: Counts,
    channels: dict[int, RewardChannel],
) -> None:
    count, low, rest = dominance.dominating(trim, table.usual[groups])
    table.dominating[groups], table.dominating_low[groups] = count, low
    table.lost[groups] = table.lost_credit[groups] = np.where(table.tied[groups], np.nan, 0.0)
    loses = np.flatnonzero((count > 0) & (rest > 0))
    if not len(loses):
        return
    hit = groups[loses]
    with np.errstate(invalid="ignore"):
        kept = (rest[loses] + GRPO_EPSILON) / (table.deviation[hit] + GRPO_EPSILON)
    table.lost[hit] = 1 - np.minimum(np.nan_to_num(kept), 1.0)
    for settings, part in sharing_settings(step[hit], channels):
        members, rows = hit[part], loses[part]
        table.lost_credit[members] = _lost_by_credit(
            rewards[rows], table.reference[members], count[rows], low[rows], settings
        )


def _lost_by_credit(rewards: Array, reference: Array, count: Counts, low: Counts, channel: RewardChannel) -> Array:
    """1 - C_H(credit of the whole group)/C_H(credit of the others alone), C_H over the others (rovrl.contrast)."""
    n = rewards.shape[1]
    order = rewards.argsort(1, kind="stable")
    place = np.arange(n)
    keep = np.empty(rewards.shape, dtype=bool)
    np.put_along_axis(keep, order, (place >= low[:, None]) & (place < n - (count - low)[:, None]), 1)
    whole = credit(rewards, reference, channel)
    after, before = np.empty((2, len(rewards)))
    for left in np.unique(n - count).tolist():
        rows = np.flatnonzero(n - count == left)
        others = rewards[rows][keep[rows]].reshape(-1, left)
        alone = credit(others, references(others, partition(left, channel)[0], channel)[0], channel)
        after[rows] = whole[rows][keep[rows]].reshape(-1, left).std(1)
        before[rows] = alone.std(1)
    return 1 - np.minimum(after / before, 1.0)


def _flips(table: GroupTable, groups: Counts, rewards: Array) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        mean, reference = table.mean[groups], table.reference[groups]
        edge = SIGN_TOLERANCE * table.deviation[groups]
        lower = (np.minimum(mean, reference) + edge)[:, None]
        upper = (np.maximum(mean, reference) - edge)[:, None]
        between = ((rewards > lower) & (rewards < upper)).sum(1)  # above one center and below the other
    table.shift[groups] = reference - mean
    table.flips[groups] = np.where(table.tied[groups], 0, between)
