"""Faults that leave a mark on a run as a whole: a stuck grader, repeated groups, groups that are none, a scale that jumps."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.measure.statistics import GroupTable, step_medians
from rovrl.audit.read.rollouts import Rollouts

CHANCE = 1e-4
"""Expected number of such stretches in a healthy run below which a stretch of equal tied groups counts as a stuck grader."""
SPARE_BITS = 12.0
"""A repetition must be this many bits less likely than once in the run."""
GRAM = 4
"""Consecutive groups compared together: 0/1 rewards of one group say too little."""
LEAST_GROUPS = 50
"""Groups from which on it can be told whether groups differ."""
GROUPS_RANKED = 2000
BESIDE = 20
"""Groups next to a stretch that tell whether it was coming."""
WINDOW = 4
"""Steps on each side of a jump."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Stretch:
    """Consecutive groups whose rewards are all one number."""

    groups: int
    first_step: int
    last_step: int
    value: float
    chance: float


def stuck_grader(rollouts: Rollouts, table: GroupTable) -> Stretch | None:
    """The least likely stretch of consecutive groups tied at one value, if chance does not explain it.

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
    best: Stretch | None = None
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
        if chance < CHANCE and (best is None or chance < best.chance):
            steps = rollouts.step[start : start + length]
            best = Stretch(length, int(steps[0]), int(steps[-1]), float(value[start]), chance)
    return best


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
    n = len(table.signature)
    found = np.zeros(n, dtype=bool)
    again = _again(table.signature)
    if not again.any():
        return found
    bits = np.zeros(n)
    for group in np.flatnonzero(again & ~table.tied & ~table.single).tolist():
        bits[group] = _order_bits(rollouts.reward[rollouts.rows_of(group)])
    need = 2 * np.log2(n) + SPARE_BITS
    found |= again & (bits >= need)
    if n >= 2 * GRAM:
        windows = n - GRAM + 1
        total = sum(bits[k : k + windows] for k in range(GRAM))
        mixed = np.zeros(windows, dtype=np.uint64)
        for k in range(GRAM):
            part = table.signature[k : k + windows]
            mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9) + part
        for k in np.flatnonzero(_again(mixed) & (total >= need)).tolist():
            found[k : k + GRAM] = True
    return found


def _order_bits(rewards: Array) -> float:
    """log2(n!/Π c_v!), c_v the counts of equal rewards: in how many orders a group's rewards could have come."""
    _, count = np.unique(rewards[~np.isnan(rewards)], return_counts=True)
    logs = [math.lgamma(c + 1) for c in count.tolist()]
    return (math.lgamma(count.sum() + 1) - sum(logs)) / math.log(2)


def group_ratio(rollouts: Rollouts, table: GroupTable) -> tuple[float, float] | None:
    """(F, its standard error if groups were drawn at random): how much more groups differ than responses do.

    The ratio of mean squares between and within the groups of a step, of the rewards' ranks (no outlier can blur it), over
    at most GROUPS_RANKED groups. Near 1 if the groups are random sets of the step's responses, below if they were dealt out in
    turn. None with too few groups.
    """
    usable = np.flatnonzero(table.finite >= 2)[:GROUPS_RANKED]
    steps, step, in_step = np.unique(rollouts.step[usable], return_inverse=True, return_counts=True)
    usable = usable[in_step[step] >= 2]
    steps, step = np.unique(rollouts.step[usable], return_inverse=True)
    if len(usable) - len(steps) < LEAST_GROUPS:
        return None
    member = np.repeat(np.arange(len(usable)), table.size[usable])
    size = table.size[usable]
    reward = rollouts.reward[np.arange(len(member)) + np.repeat(rollouts.start[usable] - np.cumsum(size) + size, size)]
    good = ~np.isnan(reward)
    rank, member = _ranks(reward[good]), member[good]
    count = np.bincount(member)
    total, square = np.bincount(member, weights=rank), np.bincount(member, weights=rank * rank)
    explained = float((total**2 / count).sum())
    by_step = float((np.bincount(step, weights=total) ** 2 / np.bincount(step, weights=count)).sum())
    between_freedom, within_freedom = len(usable) - len(steps), len(rank) - len(usable)
    between, within = (explained - by_step) / between_freedom, (float(square.sum()) - explained) / within_freedom
    if within <= 1e-12 * max(between, 1.0):
        return None
    return between / within, float(np.sqrt(2 / between_freedom + 2 / within_freedom))


def _ranks(values: Array) -> Array:
    """Centered ranks; equal values share the middle of theirs."""
    _, inverse, count = np.unique(values, return_inverse=True, return_counts=True)
    middle = np.cumsum(count) - (count - 1) / 2
    return middle[inverse] - (len(values) + 1) / 2


def scale_jump(rollouts: Rollouts, table: GroupTable) -> tuple[int, float] | None:
    """(step, factor) of the largest lasting change of the rewards' spread from one step to the next; None with few steps.

    The spread of a step is the median over its untied groups; compared are the medians of the steps before and from there on.
    """
    known = np.isfinite(table.spread) & (table.spread > 0)
    if not known.any():
        return None
    steps, middle, _ = step_medians(rollouts.step[known], table.spread[known])
    log = np.log(middle)
    if len(steps) < 4:
        return None
    inner = np.empty(0)
    if len(log) >= 2 * WINDOW:  # all full windows at once
        medians = np.median(np.lib.stride_tricks.sliding_window_view(log, WINDOW), axis=1)
        inner = medians[WINDOW:] - medians[:-WINDOW]
    places = list(range(WINDOW, WINDOW + len(inner)))
    edges = [k for k in range(2, len(log) - 1) if k < WINDOW or k > len(log) - WINDOW]
    changes = [float(np.median(log[k : k + WINDOW]) - np.median(log[max(0, k - WINDOW) : k])) for k in edges]
    places, changes = places + edges, np.concatenate([inner, changes])
    best = int(np.argmax(np.abs(changes)))
    return int(steps[places[best]]), float(np.exp(changes[best]))


def _again(values: NDArray[np.uint64]) -> NDArray[np.bool_]:
    _, inverse, count = np.unique(values, return_inverse=True, return_counts=True)
    return count[inverse] > 1
