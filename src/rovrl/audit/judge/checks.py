"""Faults that leave a mark on a run as a whole: a stuck grader, groups that come again, a jump of the rewards' scale."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrays import Array
from rovrl.audit.measure.ranks import group_correlation, group_ranks
from rovrl.audit.measure.statistics import GroupTable
from rovrl.audit.read.rollouts import Rollouts

CHANCE = 1e-4
"""Expected number of such stretches in a healthy run below which a stretch of equal tied groups counts as a stuck grader."""
SPARE_BITS = 12.0
"""A repetition must be this many bits less likely than once in the run."""
GRAM = 4
"""Consecutive groups compared together: 0/1 rewards of one group say too little."""
BESIDE = 20
"""Groups next to a stretch that tell whether it was coming."""
FEW, NEARLY = 0.1, 0.9
"""A stretch belongs to an edge of the run with so few groups in between, per group of its own, or where so large a share of
their rewards equal its own."""
COMPARED = 48
"""Groups on each side of a step that are compared."""
LEAST_COMPARED = 12
"""With fewer on one side nothing is said."""
LARGE = 1.2
"""A smaller factor is not a jump, and is not tested."""
ERROR = 1e-3
"""The chance, over all steps together, that groups in random order show such a change; honest runs drift, hence so small."""
MOVING = 6
"""Steps on each side, or as many as hold COMPARED groups, in which the rewards may move along."""
TREND, CLEAR = 0.5, 2.5
"""They do if the groups' means have this rank correlation with the step, and so many standard errors of it."""


@dataclass(frozen=True)
class Stretch:
    """Consecutive groups whose rewards are all one number."""

    groups: int
    first_step: int
    last_step: int
    value: float
    chance: float
    at: str = ""
    """"start" or "end" where a policy that had found nothing yet, or that had solved everything, explains it too."""


def unlikely_stretches(rollouts: Rollouts, table: GroupTable) -> list[Stretch]:
    """The stretches of consecutive groups tied at one value that chance does not explain, of the longest twenty.

    With p the share of groups tied at that value just before and just after (the larger), a stretch of L is expected about
    N·p^L times in N groups. Late in training most groups are tied at full marks: then p is near 1, or the stretch
    at the end was coming, and nothing is reported.
    """
    value = np.where(table.tied, table.median, np.nan)
    n = len(value)
    same = np.zeros(n, dtype=bool)
    same[1:] = value[1:] == value[:-1]
    starts = np.flatnonzero(~same)
    lengths = np.diff(np.append(starts, n))
    lengths = np.where(np.isnan(value[starts]), 0, lengths)
    found = []
    for place in np.argsort(-lengths, kind="stable")[:20].tolist():
        start, length = int(starts[place]), int(lengths[place])
        if length < 2:
            break
        around = max(50, 3 * length)
        before = value[max(0, start - around) : start]
        after = value[start + length : start + length + around]
        if _solved(value, start, length):
            continue
        shares = [((part == value[start]).sum() + 1) / (len(part) + 2) for part in (before, after) if len(part) >= 10]
        share = max(shares) if shares else 0.5 if length < n else 1e-3
        chance = float(n * share**length)
        if chance < CHANCE:
            steps, edge = rollouts.step[start : start + length], _edge(rollouts, start, length, float(value[start]))
            found.append(Stretch(length, int(steps[0]), int(steps[-1]), float(value[start]), chance, edge))
    return found


def _edge(rollouts: Rollouts, start: int, length: int, value: float) -> str:
    """Whether a stretch is the "start" of the run (nothing found yet?) or, with the best reward, its "end" (all solved?).

    A rare early success, or a rare miss later, does not change that. A number that no other group has was not earned: the
    policy does not go from always to never. A whole run of one number has no edge.
    """
    first, last = int(rollouts.start[start]), int(rollouts.start[start + length])
    before, after = rollouts.reward[:first], rollouts.reward[last:]
    if not (before == value).any() and not (after == value).any():
        return ""
    if _reaches(before, start, length, value):
        return "start"
    best = not (before > value).any() and not (after > value).any()
    return "end" if best and _reaches(after, rollouts.groups - start - length, length, value) else ""


def _reaches(between: Array, groups: int, length: int, value: float) -> bool:
    """Whether a stretch reaches an edge: there are few groups in between, or hardly another reward in no more than it has."""
    return groups <= FEW * length or (groups <= length and bool((between == value).mean() >= NEARLY))


def _solved(value: Array, start: int, length: int) -> bool:
    """A stretch at the end (or beginning) of the run that most groups next to it announce: all solved, or nothing yet."""
    if start + length == len(value):
        beside = value[max(0, start - BESIDE) : start]
    elif start == 0:
        beside = value[length : length + BESIDE]
    else:
        return False
    return len(beside) > 0 and bool((beside == value[start]).mean() >= 0.5)


def repeated_groups(rollouts: Rollouts, table: GroupTable) -> NDArray[np.bool_]:
    """Groups whose rewards, in their order, come again elsewhere, where chance does not explain it.

    Alone if its rewards have enough possible orders (all different: log2 G! bits), else in a row of four like groups.
    """
    signature = _signatures(rollouts)
    n = len(signature)
    found = np.zeros(n, dtype=bool)
    again = _again(signature)
    if not again.any():
        return found
    bits = np.zeros(n)
    for group in np.flatnonzero(again & ~table.tied & ~table.single).tolist():
        rewards = rollouts.reward[rollouts.rows_of(group)]
        count = np.unique(rewards[~np.isnan(rewards)], return_counts=True)[1].tolist()
        orders = math.lgamma(sum(count) + 1) - sum(math.lgamma(c + 1) for c in count)  # log(n!/Π c_v!)
        bits[group] = orders / math.log(2)
    need = 2 * np.log2(n) + SPARE_BITS
    found |= again & (bits >= need)
    if n >= 2 * GRAM:
        windows = n - GRAM + 1
        total = sum(bits[k : k + windows] for k in range(GRAM))
        runs = zip(*(signature[k : k + windows].tolist() for k in range(GRAM)), strict=True)
        for k in np.flatnonzero(_again(np.array([hash(run) for run in runs])) & (total >= need)).tolist():
            found[k : k + GRAM] = True
    return found


def _signatures(rollouts: Rollouts) -> NDArray[np.int64]:
    """Equal for groups with the same rewards in the same order; 0.0 and -0.0 are the same reward.

    A weighted sum finds the few groups that may have it, and only their rewards are hashed.
    """
    place = np.arange(len(rollouts.reward)) - np.repeat(rollouts.start[:-1], rollouts.size)
    weight = np.sqrt(2.0 + np.arange(int(place.max(initial=0)) + 1)) % 1.0 / 2**10  # so small that no sum overflows
    rough = np.add.reduceat(np.nan_to_num(rollouts.reward) * weight[place], rollouts.start[:-1])
    found = np.arange(len(rough))
    for group in np.flatnonzero(_again(rough)).tolist():
        found[group] = hash((rollouts.reward[rollouts.rows_of(group)] + 0.0).tobytes())
    return found


def _again(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Which values come more than once."""
    ordered = np.sort(values)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    return np.isin(values, twice) if len(twice) else np.zeros(len(values), dtype=bool)


class Jump(NamedTuple):
    """A lasting change of the spread."""

    step: int
    """The first step with the new spread."""
    factor: float
    gradual: bool
    """Whether the rewards themselves move from step to step just before or after it, as while something is learned."""


def scale_jump(rollouts: Rollouts, table: GroupTable) -> Jump | None:
    """The clearest lasting change of the spread within groups; None if chance explains all of them.

    At every step the 48 groups before it are compared with the 48 from it on, by the sum of their ranks. If the groups stood
    in random order, that sum would have the permutation distribution of Wilcoxon's statistic (its exact mean and variance,
    ties included); its tail, times the number of steps compared, must be below 0.001.
    """
    known = np.flatnonzero(np.isfinite(table.spread) & (table.spread > 0))
    known = known[np.argsort(rollouts.step[known], kind="stable")]
    log, step = np.log(table.spread[known]), rollouts.step[known]
    edges = np.flatnonzero(np.diff(step)) + 1
    edges = edges[(edges >= LEAST_COMPARED) & (edges <= len(log) - LEAST_COMPARED)]
    if not len(edges):
        return None
    change = _change(log, edges)
    large = np.flatnonzero(np.abs(change) > math.log(LARGE))
    if not len(large):
        return None
    sides = ((log[max(0, k - COMPARED) : k], log[k : k + COMPARED]) for k in edges[large].tolist())
    clear = np.abs([_deviations(before, after) for before, after in sides])
    best = int(np.argmax(clear))
    if len(edges) * math.erfc(float(clear[best]) / 2**0.5) > ERROR:
        return None
    first = int(step[edges[large[best]]])
    return Jump(first, math.exp(float(change[large[best]])), _moves(rollouts.step, table.mean, first))


def _moves(step: NDArray[np.int64], mean: Array, first: int) -> bool:
    """Whether the groups' means rise or fall with the steps before `first`, or from it on.

    A changed unit leaves the rewards on either side of it as they are. Where a format is learned on which a score depends, the
    groups that still have a failure get fewer from step to step: their wide spread goes within a few steps, too.
    """
    known = np.flatnonzero(np.isfinite(mean))
    known = known[np.argsort(step[known], kind="stable")]
    edge = int(np.searchsorted(step[known], first))
    steps = np.unique(step[known])
    place = int(np.searchsorted(steps, first))
    low = int(np.searchsorted(step[known], steps[max(0, place - MOVING)]))
    high = int(np.searchsorted(step[known], steps[min(len(steps), place + MOVING) - 1], side="right"))
    return any(
        _trend(step[side].astype(np.float64), mean[side])
        for side in (known[max(0, min(low, edge - COMPARED)) : edge], known[edge : max(high, edge + COMPARED)])
    )


def _trend(step: Array, mean: Array) -> bool:
    found = group_correlation(np.zeros(len(step), dtype=np.int64), 1, step, mean)[0]  # NaN within one step
    return bool(abs(found) >= max(TREND, CLEAR / max(len(step) - 1, 1) ** 0.5))


def _change(log: Array, edges: NDArray[np.int64]) -> Array:
    """The median from each edge on minus the median before it."""
    padded = np.pad(log, COMPARED, constant_values=np.nan)
    place = edges[:, None] + np.arange(COMPARED)
    return _medians(padded[place + COMPARED]) - _medians(padded[place])


def _medians(rows: Array) -> Array:
    """The median of each row without its NaN, of which no row consists."""
    ascending, at = np.sort(rows, axis=1), np.arange(len(rows))
    known = rows.shape[1] - np.isnan(rows).sum(1)
    return 0.5 * (ascending[at, (known - 1) // 2] + ascending[at, known // 2])


def _deviations(before: Array, after: Array) -> float:
    """The rank sum of `after` minus its mean under permutation, over its standard deviation; 0 if all are equal."""
    n, m = len(before), len(after)
    both = np.concatenate([before, after])
    rank = group_ranks(np.zeros(n + m, dtype=np.int64), both)
    count = np.unique(both, return_counts=True)[1]
    variance = n * m / 12 * (n + m + 1 - float((count**3 - count).sum()) / ((n + m) * (n + m - 1)))
    return (float(rank[n:].sum()) - m * (n + m + 1) / 2) / variance**0.5 if variance > 1e-9 else 0.0
