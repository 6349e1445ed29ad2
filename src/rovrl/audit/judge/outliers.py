"""What the rewards that dominate their groups can be: a level of the reward, the end of a tail, a rare bonus, or a fault.

To dominate is not to be wrong. A right answer beside a small shaping term dominates a hard prompt's group, and so does the end
of a log-normal tail. Before the audit accuses anyone it asks, of each dominating reward:

1. Do other groups hold differences as large among the three quarters that lie closest together? Then it is a *level* of the
   reward. (Faults strike at random: where most groups have at most a quarter of them, few groups have more.)
2. Does the tail thin out towards it without a gap? Then it is the end of a *tail*.
3. Do all of them lie on one side at one distance? Then it may be a rare *bonus* or *penalty*, and only the user can know.

What is left stands *apart*.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.judge.expect import Expectations
from rovrl.audit.measure.statistics import GroupTable
from rovrl.audit.read.rollouts import Rollouts
from rovrl.robust.outliers.gaps import WIDTHS, cuts

LEVELS = 0.05
"""Undominated groups with differences as large in their core, per group dominated by one, from which on it is a level."""
HONEST_TAIL = {"tail": 1.5, "error": 0.005, "slack": 0.5}
"""A tail no heavier than this is honest, and the chance at which it may leave a gap: for groups of SMALL and more."""
SMALL = 8
"""In smaller groups the usual spread says little about a tail: there the far stricter rule of `rovrl.robust.gaps` holds."""
ABOUT = 0.75
"""A difference of this share of a distance is about as large."""
NEAREST, NEAREST_SMALL = 4.0, 48.0
"""No gap is looked for nearer than 4 usual spreads, nor, in groups of n, than 48/n."""
LOOKED_AT = 4096
"""Groups, evenly spread over the run, in which gaps are looked for."""
FAR = 1e300
ONE_LEVEL = 0.2
"""Distances whose middle four fifths span less than this share of their median are one level."""
KINDS = ("level", "tail", "bonus", "penalty", "apart")

Array = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Outliers:
    """The rewards that dominate their groups or lie beyond a gap; one entry each."""

    row: Counts
    group: Counts
    distance: Array
    """From the median of the group, signed."""
    kind: NDArray[np.str_]
    """One of KINDS."""

    def groups(self, *kinds: str) -> Counts:
        """The groups with a reward of one of these kinds."""
        return np.unique(self.group[np.isin(self.kind, kinds)])


def outliers(rollouts: Rollouts, table: GroupTable, expect: Expectations) -> Outliers:
    """The rewards of a run that dominate their group or lie beyond a gap, each with its kind."""
    group = np.repeat(np.arange(rollouts.groups), table.size)
    with np.errstate(over="ignore", invalid="ignore"):
        distance = rollouts.reward - table.median[group]
    beyond = _beyond_gap(distance, table, group)
    row = np.flatnonzero(beyond | _dominating(rollouts, table))
    group, distance = group[row], distance[row]
    kind = np.where(beyond[row], "apart", "tail").astype("<U8")
    kind[_is_level(table, group, rollouts.reward[row], np.abs(distance))] = "level"
    for sign, name in ((1, "bonus"), (-1, "penalty")):
        here, there = (kind == "apart") & (sign * distance > 0), (kind == "apart") & (sign * distance < 0)
        if here.any() and not there.any() and _one_level(distance[here]):
            kind[here] = name
    kind[~expect.unexpected(rollouts.reward[row], distance > 0)] = "level"
    return Outliers(row, group, distance, kind)


def _dominating(rollouts: Rollouts, table: GroupTable) -> NDArray[np.bool_]:
    """Which rewards dominate: of each dominated group so many of the smallest and of the largest."""
    hit = np.flatnonzero(table.dominating)
    size = table.size[hit]
    group = np.repeat(hit, size)
    place = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
    row = rollouts.start[group] + place
    row = row[np.lexsort((rollouts.reward[row], group))]  # NaN last; `place` is now the rank
    low, high = table.dominating_low[group], table.dominating[group] - table.dominating_low[group]
    out = (place < low) | ((place >= table.finite[group] - high) & (place < table.finite[group]))
    found = np.zeros(len(rollouts.reward), dtype=bool)
    found[row[out]] = True
    return found


def _is_level(table: GroupTable, group: Counts, value: Array, distance: Array) -> NDArray[np.bool_]:
    """Whether a reward is one that other groups have too: within the range of their medians, or at a usual distance.

    A distance is usual if the cores of other groups hold differences about as large: one for every twenty groups in which a
    reward lies that far out.
    """
    quiet = np.sort(table.core[table.untied & (table.dominating == 0)])
    farthest = np.zeros(len(table.size))
    np.maximum.at(farthest, group, distance)
    farthest = np.sort(farthest[farthest > 0])
    wide = len(quiet) - np.searchsorted(quiet, ABOUT * distance)
    dominated = len(farthest) - np.searchsorted(farthest, distance)
    middle = table.median[~table.single]
    inside = (value >= middle.min(initial=np.inf)) & (value <= middle.max(initial=-np.inf))
    return inside | (wide >= LEVELS * np.maximum(dominated, 1))


def _beyond_gap(distance: Array, table: GroupTable, group: Counts) -> NDArray[np.bool_]:
    """Which rewards lie beyond a gap that no honest tail leaves, seen from above, from below or from both; in usual spreads."""
    usual = np.where(table.untied & (table.usual > 0), table.usual, np.inf)
    with np.errstate(over="ignore", invalid="ignore"):
        far = np.clip(np.nan_to_num(distance / usual[group]), -FAR, FAR)
    size = float(np.median(table.size[~table.single])) if (~table.single).any() else SMALL
    least, rule = max(NEAREST, NEAREST_SMALL / size), HONEST_TAIL if size >= SMALL else {}
    every = max(1, len(table.size) // LOOKED_AT)
    looked = far if every == 1 else far[group % every == 0]
    found = np.zeros(len(far), dtype=bool)
    for seen in (np.positive, np.negative, np.abs):
        side = seen(looked)
        side = np.sort(side[side > least / WIDTHS[-1]])[::-1]
        here = cuts(side, least, 0.5 * len(looked), **rule)
        if here:
            found |= seen(far) > here[-1].threshold
    return found


def _one_level(distance: Array) -> bool:
    low, middle, high = np.quantile(np.abs(distance), (0.1, 0.5, 0.9))
    return bool(high - low < ONE_LEVEL * middle)
