"""What the group statistics did, per group: mean, robust reference, lost contrast, sign changes. No loop over groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrays import Array, Counts, pieces, widest
from rovrl.audit.measure import dominance
from rovrl.audit.measure.lost import lost_by_credit
from rovrl.audit.measure.matrix import Matrix
from rovrl.audit.measure.order import Ordered, order_statistics
from rovrl.audit.measure.reference import count_true, references
from rovrl.audit.measure.settings import BySteps, Settings, channels_by_step, sharing_settings
from rovrl.audit.read.rollouts import Rollouts
from rovrl.config import GRPO_EPSILON, RewardChannel
from rovrl.output.progress import Progress
from rovrl.robust.outliers.bulk import median

SIGN_TOLERANCE = 1e-9
"""In standard deviations: an advantage this near to 0 has no sign."""
NEIGHBOURS = 64
"""Untied groups whose median spread is the usual one."""

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""Odd, so that its powers are odd and no two of them are equal for long: each place in a group counts with one of them."""

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
    signature: NDArray[np.uint64]
    """Equal for groups with the same finite rewards in the same order."""

    @classmethod
    def empty(cls, groups: int) -> GroupTable:
        """All NaN, 0 and False; the numbers of one kind stand in one piece of memory."""
        kinds = {"Array": np.nan, "Flags": False, "Counts": 0, "NDArray[np.uint64]": np.uint64(0)}
        names = {kind: [f.name for f in fields(cls) if f.type == kind] for kind in kinds}
        filled = (zip(names[kind], np.full((len(names[kind]), groups), kinds[kind]), strict=True) for kind in kinds)
        return cls(**{name: column for columns in filled for name, column in columns})

    @property
    def untied(self) -> Flags:
        """Groups that carry a signal."""
        return ~self.tied & ~self.single


def group_table(
    rollouts: Rollouts, channel: RewardChannel, progress: Progress, own: BySteps | None = None
) -> tuple[GroupTable, BySteps]:
    """The statistics of every group, and the settings with all numbers filled in: the run's `own` if it logged them."""
    table = GroupTable.empty(rollouts.groups)
    table.size = rollouts.size
    values, start = _finite(rollouts)
    table.finite = np.diff(start)
    table.single = table.finite < 2
    matrices = [Matrix.of(values, start, groups, n) for n, groups in _sizes(table.finite)]
    by_step = own or channels_by_step(rollouts, matrices, channel)
    ordered = [_order(table, matrix) for matrix in matrices]
    table.usual = usual_spread(table.spread)
    done = 0
    for matrix, (suspects, trim) in zip(matrices, ordered, strict=True):
        for settings, part in sharing_settings(rollouts.step[matrix.groups], by_step):
            _reference(table, matrix, part, settings)
        _dominance(table, matrix, suspects, trim, rollouts.step, by_step)
        _flips(table, matrix)
        done += len(matrix.groups)
        progress(done, rollouts.groups, "group statistics")
    return table, by_step


def usual_spread(own: Array) -> Array:
    """For each group the median spread of the NEIGHBOURS untied groups around it, in blocks; infinite if all are tied.

    Of neighbours and not of the run: the rewards' scale may change while training goes on.
    """
    defined = np.flatnonzero(np.isfinite(own))
    if not len(defined):
        return np.full(len(own), np.inf)
    blocks = max(1, len(defined) // NEIGHBOURS)
    edges = np.append(np.arange(blocks) * NEIGHBOURS, len(defined))
    full = np.sort(own[defined[: edges[-2]]].reshape(blocks - 1, NEIGHBOURS), axis=1)
    half = NEIGHBOURS // 2
    middle = np.append(0.5 * full[:, half - 1] + 0.5 * full[:, half], median(own[defined[edges[-2] :]]))
    return middle[np.searchsorted(defined[edges[:-1]], np.arange(len(own)), side="right").clip(min=1) - 1]


def _signature(columns: Array) -> NDArray[np.uint64]:
    n, groups = columns.shape
    odd = np.multiply.accumulate(np.full(n, GOLDEN))  # numpy.random would have to be imported first
    signature = np.empty(groups, dtype=np.uint64)
    work = np.empty((2, n, widest(groups, n)))
    for part in pieces(groups, n):
        some, mixed = work[:, :, : part.stop - part.start]
        np.add(columns[:, part], 0.0, out=some)  # -0.0 and 0.0 are the same reward
        bits, mixed = some.view(np.uint64), mixed.view(np.uint64)
        np.right_shift(bits, np.uint64(31), out=mixed)
        mixed ^= bits
        mixed *= odd[:, None]
        mixed.sum(0, out=signature[part])
    return signature


def _finite(rollouts: Rollouts) -> tuple[Array, Counts]:
    """The finite rewards alone, and where each group starts among them."""
    good = ~np.isnan(rollouts.reward)
    if good.all():
        return rollouts.reward, rollouts.start
    count = np.concatenate([[0], np.cumsum(good)])[rollouts.start]
    return rollouts.reward[good], count


def _sizes(finite: Counts) -> Iterator[tuple[int, Counts]]:
    """(n, the groups with n finite rewards), for n ≥ 2."""
    for n in np.flatnonzero(np.bincount(finite)).tolist():
        if n >= 2:
            yield n, np.flatnonzero(finite == n)


def _order(table: GroupTable, matrix: Matrix) -> tuple[Counts, dominance.Trims]:
    """Writes what the order of the rewards says; the groups in which some may dominate, with their windows."""
    place, names = matrix.place, ("lowest", "highest", "median", "mean", "deviation", "core")
    into = Ordered(*(getattr(table, name)[place] for name in names), suspect=np.empty(len(matrix.groups), dtype=bool))
    order = order_statistics(matrix.rewards, into)
    for name in names if not isinstance(place, slice) else ():  # of a slice these are the table itself
        getattr(table, name)[place] = getattr(order, name)
    table.tied[place] = order.lowest == order.highest
    suspects = np.flatnonzero(order.suspect)
    trim = dominance.trims(matrix.rewards[suspects])
    with np.errstate(over="ignore"):
        spread = (order.highest - order.lowest) / dominance.normal_range(matrix.size)
    spread[suspects] = dominance.own_spread(trim)
    table.spread[place] = np.where(spread > 0, spread, np.nan)
    table.signature[place] = _signature(matrix.columns)
    return suspects, trim


def _reference(table: GroupTable, matrix: Matrix, part: Counts | slice, settings: Settings) -> None:
    blocks, fell_back = settings.partition(matrix.size)
    place = matrix.place if isinstance(part, slice) else matrix.groups[part]
    table.fallback[place] = fell_back
    table.reference[place], table.nu[place] = references(matrix.columns.T[part], blocks, settings.channel)


def _dominance(
    table: GroupTable,
    matrix: Matrix,
    suspects: Counts,
    trim: dominance.Trims,
    step: Counts,
    by_step: BySteps,
) -> None:
    groups = matrix.groups[suspects]
    count, low, rest = dominance.dominating(trim, table.usual[groups])
    table.dominating[groups], table.dominating_low[groups] = count, low
    table.lost[matrix.place] = table.lost_credit[matrix.place] = np.where(table.tied[matrix.place], np.nan, 0.0)
    loses = np.flatnonzero((count > 0) & (rest > 0))
    if not len(loses):
        return
    hit = groups[loses]
    with np.errstate(invalid="ignore"):
        kept = (rest[loses] + GRPO_EPSILON) / (table.deviation[hit] + GRPO_EPSILON)
    table.lost[hit] = 1 - np.minimum(np.nan_to_num(kept), 1.0)
    for settings, part in sharing_settings(step[hit], by_step):
        members, those = hit[part], loses[part]
        table.lost_credit[members] = lost_by_credit(
            matrix.rewards[suspects[those]],
            trim.ordered[:, those],
            table.reference[members],
            count[those],
            low[those],
            settings,
        )


def _flips(table: GroupTable, matrix: Matrix) -> None:
    place, columns = matrix.place, matrix.columns
    mean, reference, deviation = table.mean[place], table.reference[place], table.deviation[place]
    flips = np.empty(len(mean), dtype=np.int64)
    with np.errstate(over="ignore", invalid="ignore"):
        table.shift[place] = reference - mean
        edge = SIGN_TOLERANCE * deviation
        lower, upper = np.minimum(mean, reference) + edge, np.maximum(mean, reference) - edge
        for part in pieces(len(mean), matrix.size):
            between = columns[:, part] > lower[part]  # above one center and below the other
            between &= columns[:, part] < upper[part]
            flips[part] = count_true(between)
    table.flips[place] = np.where(table.tied[place], 0, flips)
