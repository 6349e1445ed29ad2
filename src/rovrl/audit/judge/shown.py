"""Which rewards of a run would be rejected: those that `rovrl.faults` shows to be faults, over a sample of whole steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrays import ranked
from rovrl.audit.judge.expect import Expectations
from rovrl.audit.measure.statistics import GroupTable
from rovrl.audit.read.rollouts import Rollouts
from rovrl.faults.candidates import Side
from rovrl.faults.shown import shown
from rovrl.robust.outliers.bulk import SortedGroups

LOOKED_AT = 1024
"""Groups looked at: far more than the test needs."""
SMALL = 8
"""In smaller groups a value that is the middle of another group is no fault, nor are the others where most are such values: a
few responses do not tell a task with larger rewards from faults."""
STRATUM = 16
"""Steps with fewer groups are put together: within a stratum the rate of faults is taken as one."""


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
    found, above, below, _ = shown(SortedGroups.of(reward, member, len(groups)), _strata(rollouts.step[groups]))
    found &= expect.unexpected(reward, reward > table.median[groups][member])
    small = found & (size < SMALL)[member]
    usual = small & _usual(table, reward)
    found &= ~(small if usual.sum() > 0.5 * small.sum() else usual)
    return Rejected(row[found], groups[member[found]], len(groups), len(row), (above, below))


def _usual(table: GroupTable, reward: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which rewards lie within the range of the groups' medians."""
    middle = table.median[~table.single]
    return (reward >= middle.min()) & (reward <= middle.max())


def _sample(step: NDArray[np.int64], groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Groups of whole steps, evenly spread over the run, about LOOKED_AT of them, in the order of the steps."""
    groups = groups[np.argsort(step[groups], kind="stable")]
    if len(groups) <= LOOKED_AT:
        return groups
    number = ranked(step[groups])[1]
    every = max(1, round(len(groups) / LOOKED_AT))
    chosen = groups[number % every == 0]
    return chosen[: max(LOOKED_AT, int((number == 0).sum()))]


def _strata(step: NDArray[np.int64]) -> NDArray[np.int64]:
    """Consecutive steps, as many as make STRATUM groups."""
    _, number, count = np.unique(step, return_inverse=True, return_counts=True)
    return ((np.cumsum(count) - count) // STRATUM)[number]
