"""What the rewards that dominate their groups can be: a level of the reward, the end of a tail, a rare bonus, or a fault.

To dominate is not to be wrong. A right answer beside a small shaping term dominates a hard prompt's group, and so does the end
of a log-normal tail. Before the audit accuses anyone it asks, of each dominating reward:

1. Do other groups hold differences as large among the three quarters that lie closest together? Then it is a *level* of the
   reward. (Faults strike at random: where most groups have at most a quarter of them, few groups have more.)
2. Does the tail thin out towards it without a gap? Then it is the end of a *tail*.
3. Do all of them lie on one side at one distance? Then it may be a rare *bonus* or *penalty*, and only the user can know.

4. Are far rewards *clustered* on some prompts, beyond chance? A fault hits anyone; what depends on the prompt is merit.

What is left stands *apart*. Beside that, `rejected` are the rewards that `rovrl.faults` shows to be faults, over a sample of
whole steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrays import Array, Counts, ranked
from rovrl.audit.judge.expect import Expectations
from rovrl.audit.measure.dominance import SPREADS
from rovrl.audit.measure.statistics import GroupTable
from rovrl.audit.read.rollouts import Rollouts
from rovrl.faults.find import Side, posterior
from rovrl.faults.posterior import CERTAIN
from rovrl.robust.outliers.bulk import SortedGroups, median
from rovrl.robust.outliers.evidence import by_chance
from rovrl.robust.outliers.gaps import WIDTHS, gaps

LEVELS = 0.05
"""Undominated groups with differences as large in their core, per group dominated by one, from which on it is a level."""
HONEST_TAIL: Mapping[str, Any] = {"tail": 1.5, "error": 0.005, "slack": 0.5}
"""A tail no heavier than this is honest, and the chance at which it may leave a gap: for groups of SMALL and more."""
SMALL = 8
"""In smaller groups the usual spread says little about a tail: there the far stricter rule of `rovrl.robust.gaps` holds."""
ROUNDING = 1e-9
"""Far above the relative rounding of a distance, far below any other difference between two."""
ABOUT = 0.75
"""A difference of this share of a distance is about as large."""
NEAREST, NEAREST_SMALL = 4.0, 48.0
"""No gap is looked for nearer than 4 usual spreads, nor, in groups of n, than 48/n."""
LOOKED_AT = 4096
"""Groups, evenly spread over the run, in which gaps are looked for."""
FAR = 1e300
ONE_LEVEL = 0.2
"""Distances whose middle four fifths span less than this share of their median are one level."""
CLUSTERED = 0.99
"""The probability above which rewards that stand apart follow the prompts, too much to be faults."""
OUTLIER_KINDS = ("level", "tail", "bonus", "penalty", "clustered", "apart")
TESTED = 1024
"""Groups looked at: far more than the test needs."""
SMALL_GROUP = 8
"""In smaller groups a value that is the middle of another group is no fault, nor are the others where most are such values: a
few responses do not tell a task with larger rewards from faults."""
STRATUM = 16
"""Steps with fewer groups are put together: within a stratum the rate of faults is taken as one."""


@dataclass(frozen=True)
class Outliers:
    """The rewards that dominate their groups or lie beyond a gap; one entry each."""

    row: Counts
    group: Counts
    """Ascending."""
    distance: Array
    """From the median of the group, signed."""
    kind: NDArray[np.str_]
    """One of OUTLIER_KINDS."""


def outliers(rollouts: Rollouts, table: GroupTable, expect: Expectations) -> Outliers:
    """The rewards of a run that dominate their group or lie beyond a gap, each with its kind."""
    usual = np.where(table.untied & (table.usual > 0), table.usual, np.inf)
    gaps = _gaps(rollouts, table, usual)
    nearest = min((gap.threshold for gap in gaps), default=np.inf)
    with np.errstate(over="ignore", invalid="ignore"):
        far = np.maximum(table.highest - table.median, table.median - table.lowest) / usual > nearest
        least = min(nearest, SPREADS) * usual
    row, group = _far_rows(rollouts, table, np.flatnonzero(far | (table.dominating > 0)), least)
    distance = _distance(rollouts, table, row, group)
    beyond = np.zeros(len(row), dtype=bool)
    for gap in gaps:
        beyond |= gap.seen(distance / usual[group]) > gap.threshold
    out = beyond | _dominates(table, group, distance)
    row, group, distance = row[out], group[out], distance[out]
    kind = np.where(beyond[out], "apart", "tail").astype("<U9")
    kind[_is_level(table, group, rollouts.reward[row], np.abs(distance))] = "level"
    for sign, name in ((1, "bonus"), (-1, "penalty")):
        here, there = (kind == "apart") & (sign * distance > 0), (kind == "apart") & (sign * distance < 0)
        if here.any() and not there.any() and _one_level(distance[here]):
            kind[here] = name
    if _follows_prompts(rollouts, table, usual, (distance / usual[group])[kind == "apart"]):
        kind[kind == "apart"] = "clustered"
    kind[~expect.unexpected(rollouts.reward[row], distance > 0)] = "level"
    return Outliers(row, group, distance, kind)


def _rows(rollouts: Rollouts, table: GroupTable, groups: Counts) -> tuple[Counts, Counts, Counts]:
    """(rows, their groups, their places within them) of some groups."""
    size = table.size[groups]
    group = np.repeat(groups, size)
    place = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
    return rollouts.start[group] + place, group, place


def _far_rows(rollouts: Rollouts, table: GroupTable, groups: Counts, least: Array) -> tuple[Counts, Counts]:
    """(rows, their groups) of the rewards of some groups that are farther than `least` from the median; ascending in each."""
    row, group, _ = _rows(rollouts, table, groups)
    with np.errstate(over="ignore", invalid="ignore"):
        far = np.abs(rollouts.reward[row] - table.median[group]) > (1 - ROUNDING) * least[group]
    far = np.flatnonzero(far)
    row, group = row[far], group[far]
    order = np.lexsort((rollouts.reward[row], group))
    return row[order], group[order]


def _dominates(table: GroupTable, group: Counts, distance: Array) -> NDArray[np.bool_]:
    """Which of the far rewards dominate: the lowest and the highest of each group, as many as dominate it on that side.

    All that dominate are among the far ones, which are ascending within their groups.
    """
    first = np.append(True, group[1:] != group[:-1])[: len(group)]
    start = np.flatnonzero(first)
    number, place = np.cumsum(first) - 1, np.arange(len(group))
    end = np.append(start[1:], len(group))
    low, high = table.dominating_low[group], table.dominating[group] - table.dominating_low[group]
    below, above = place - start[number] < low, end[number] - 1 - place < high
    return (below & (distance < 0)) | (above & (distance > 0))


def _distance(rollouts: Rollouts, table: GroupTable, row: Counts, group: Counts) -> Array:
    """From the median of the group; 0 for a missing reward."""
    with np.errstate(over="ignore", invalid="ignore"):
        distance = rollouts.reward[row] - table.median[group]
        distance[np.isnan(distance)] = 0.0
        return np.clip(distance, -FAR, FAR, out=distance)


def _is_level(table: GroupTable, group: Counts, value: Array, distance: Array) -> NDArray[np.bool_]:
    """Whether a reward is one that other groups have too: within the range of their medians, or at a usual distance.

    A distance is usual if the cores of other groups hold differences about as large: one for every twenty groups in which a
    reward lies that far out.
    """
    quiet = table.core[table.untied & (table.dominating == 0)]
    quiet = np.sort(quiet[quiet >= ABOUT * distance.min(initial=np.inf)])  # smaller differences are as large as none
    first = np.flatnonzero(np.append(True, group[1:] != group[:-1])[: len(group)])
    farthest = np.sort(np.maximum.reduceat(distance, first)) if len(first) else distance
    wide = len(quiet) - np.searchsorted(quiet, ABOUT * distance)
    dominated = len(farthest) - np.searchsorted(farthest, distance)
    middle = table.median[~table.single]
    inside = (value >= middle.min(initial=np.inf)) & (value <= middle.max(initial=-np.inf))
    return inside | (wide >= LEVELS * np.maximum(dominated, 1))


class Gap(NamedTuple):
    """A gap that no honest tail leaves, in usual spreads: above, below, or seen from both sides together."""

    seen: Callable[[Array], Array]
    threshold: float


def _gaps(rollouts: Rollouts, table: GroupTable, usual: Array) -> list[Gap]:
    """The lowest gap of each view, in at most LOOKED_AT groups spread over the run."""
    groups = np.arange(0, len(table.size), max(1, len(table.size) // LOOKED_AT))
    row, group, _ = _rows(rollouts, table, groups)
    with np.errstate(over="ignore"):
        far = np.clip(_distance(rollouts, table, row, group) / usual[group], -FAR, FAR)
    size = median(table.size[~table.single]) if (~table.single).any() else SMALL
    least, rule = max(NEAREST, NEAREST_SMALL / size), HONEST_TAIL if size >= SMALL else {}
    found = []
    for seen in (np.positive, np.negative, np.abs):
        side = seen(far)
        if here := gaps(np.sort(side[side > least / WIDTHS[-1]])[::-1], least, 0.5 * len(far), **rule):
            found.append(Gap(seen, (1 - ROUNDING) * here[-1]))
    return found


def _follows_prompts(rollouts: Rollouts, table: GroupTable, usual: Array, apart: Array) -> bool:
    """Whether far rewards on the sides of those that stand apart share groups more often than chance explains.

    All from NEAREST on count, also those that are so many in their group that they dominate nothing there: what stands apart
    may be the end of them.
    """
    if len(apart) < 2:
        return False
    size = min(np.abs(apart).min(), NEAREST)
    sides = [sign for sign in (1, -1) if (sign * apart > 0).any()]
    with np.errstate(over="ignore", invalid="ignore"):
        far = np.maximum(table.highest - table.median, table.median - table.lowest) >= (1 - ROUNDING) * size * usual
        row, group = _far_rows(rollouts, table, np.flatnonzero(far), size * usual)
    distance = _distance(rollouts, table, row, group)
    hits = np.bincount(group[np.isin(np.sign(distance), sides)], minlength=len(table.size))
    members, none = np.where(table.single, 0, table.finite), np.zeros(len(hits), dtype=np.int64)
    return by_chance(hits, none, members, none) < 1 - CLUSTERED


def _one_level(distance: Array) -> bool:
    low, middle, high = np.quantile(np.abs(distance), (0.1, 0.5, 0.9))
    return bool(high - low < ONE_LEVEL * middle)


@dataclass(frozen=True)
class Rejected:
    """The rewards shown to be faults among the groups looked at."""

    row: NDArray[np.int64]
    group: NDArray[np.int64]
    """The group of each."""
    looked: int
    """Groups looked at."""
    responses: int
    """Their responses."""
    sides: tuple[Side, Side]
    """The evidence above and below."""


def rejected(rollouts: Rollouts, table: GroupTable, expect: Expectations) -> Rejected:
    """The rewards that are shown to be faults and that no declaration allows."""
    groups = _sample(rollouts.step, np.flatnonzero(~table.single))
    size = table.size[groups]
    member = np.repeat(np.arange(len(groups)), size)
    row = np.arange(len(member)) + np.repeat(rollouts.start[groups] - np.cumsum(size) + size, size)
    good = ~np.isnan(rollouts.reward[row])
    row, member = row[good], member[good]
    nothing = np.empty(0, dtype=np.int64)
    if not len(row):
        return Rejected(nothing, nothing, 0, 0, (Side(), Side()))
    reward = rollouts.reward[row]
    shown = posterior(SortedGroups.of(reward, member, len(groups)), _strata(rollouts.step[groups]))
    found = shown.probability > CERTAIN
    found &= expect.unexpected(reward, reward > table.median[groups][member])
    small = found & (size < SMALL_GROUP)[member]
    # a group that holds a fault may have it for its middle
    middle = table.median[groups[np.bincount(member[found], minlength=len(groups)) == 0]]
    usual = small & (reward >= middle.min(initial=np.inf)) & (reward <= middle.max(initial=-np.inf))
    found &= ~(small if usual.sum() > 0.5 * small.sum() else usual)
    return Rejected(row[found], groups[member[found]], len(groups), len(row), (shown.above, shown.below))


def _sample(step: NDArray[np.int64], groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Groups of whole steps, evenly spread over the run, about TESTED of them, in the order of the steps."""
    groups = groups[np.argsort(step[groups], kind="stable")]
    if len(groups) <= TESTED:
        return groups
    number = ranked(step[groups])[1]
    every = max(1, round(len(groups) / TESTED))
    chosen = groups[number % every == 0]
    return chosen[: max(TESTED, int((number == 0).sum()))]


def _strata(step: NDArray[np.int64]) -> NDArray[np.int64]:
    """Consecutive steps, as many as make STRATUM groups."""
    _, number, count = np.unique(step, return_inverse=True, return_counts=True)
    return ((np.cumsum(count) - count) // STRATUM)[number]
