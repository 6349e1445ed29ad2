"""Which rewards dominate their group: the few whose removal lets the rest be seen, and how much contrast they cost.

GRPO divides by the standard deviation of the whole group, so a few extreme rewards shrink every difference among the others
(prop:grpo_broadcast). A reward *dominates* if it is among at most a quarter of its group whose removal at least halves the
standard deviation of what remains, and is farther from the group's median than seven usual spreads: the median over the
neighbouring untied groups of their range, in units of the range that normal rewards would have. That says nothing about
whether the reward is wrong; and in 0/1 rewards, however rare the ones, nothing is flagged.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from rovrl.audit.arrays import Array, Counts, pieces

STEP_DROP = 2.0
"""Removing one more must at least halve the standard deviation."""
SPREADS = 7.0
"""A dominating reward is farther from the median than this many usual spreads."""
MAX_REMOVED = 16
FAR = 1e150
"""In units of the middle of a group: the square of a farther reward would leave the range of numbers."""
NEIGHBOURS = 64
"""Untied groups whose median spread is the usual one."""


@dataclass(frozen=True)
class Ordered:
    """The ordered rewards of groups of one size, and for each number j of removed ones the least deviation of the others.

    Arrays are [.., group]: one order statistic of all groups lies in one row.
    """

    ordered: Array
    """[n, group], ascending."""
    median: Array
    mean: Array
    deviation: Array
    """[j, group]: the least sample standard deviation of n - j rewards; that of all is the first."""
    low: Counts
    """[j, group]: how many of the j are the smallest; the rest are the largest."""

    @classmethod
    def of(cls, rewards: Array) -> Ordered:
        """Of finite rewards [group, n] with n ≥ 2; at most a quarter is removed."""
        parts = [vars(_ordered(rewards[part])) for part in pieces(*rewards.shape)]
        if len(parts) == 1:
            return cls(**parts[0])
        return cls(**{name: np.concatenate([part[name] for part in parts], axis=-1) for name in parts[0]})

    @property
    def spread(self) -> Array:
        """The range of each group without its dominating rewards, judged by the group alone, over the range of normal scores.

        NaN for a tied group. The range and not a deviation: for rare ones among zeros every deviation is small, it is not.
        """
        removed = self._last_drop(np.full(len(self.median), -np.inf))
        with np.errstate(over="ignore"):
            spread = self._range(removed) / normal_range(len(self.ordered))
        return np.where(spread > 0, spread, np.nan)

    @property
    def core(self) -> Array:
        """The range of the three quarters of each group that lie closest together."""
        return self._range(np.full(len(self.median), len(self.deviation) - 1))

    def dominating(self, usual: Array) -> tuple[Counts, Counts, Array]:
        """(how many rewards dominate, how many of those are the smallest, the standard deviation of the others) per group.

        `usual` [group] is the usual spread around the group. Where the others would be tied the group has no contrast to lose,
        but a reward far outside still counts as dominating.
        """
        with np.errstate(over="ignore"):
            least = SPREADS * usual
        groups, removed = np.arange(len(usual)), self._last_drop(least)
        removed = np.where(removed == 0, self._first_tie(least), removed)
        return removed, self.low[removed, groups], self.deviation[removed, groups]

    def _last_drop(self, least: Array) -> Counts:
        """The largest j whose removal halves the deviation once more, leaves contrast, and takes only far rewards."""
        chosen = np.zeros(len(self.median), dtype=np.int64)
        for j in range(1, len(self.deviation)):
            before, after = self.deviation[j - 1], self.deviation[j]
            drops = np.flatnonzero((after > 0) & (after <= before / STEP_DROP))
            chosen[drops[self._nearest(j, drops) > least[drops]]] = j
        return chosen

    def _first_tie(self, least: Array) -> Counts:
        """The least j whose removal, of far rewards alone, leaves none but equal ones."""
        chosen = np.zeros(len(self.median), dtype=np.int64)
        for j in range(len(self.deviation) - 1, 0, -1):
            ties = np.flatnonzero((self.deviation[j] == 0) & (self.deviation[j - 1] > 0))
            chosen[ties[self._nearest(j, ties) > least[ties]]] = j
        return chosen

    def _nearest(self, removed: int, groups: Counts) -> Array:
        """The distance from the median of the nearest of the `removed` rewards of some groups."""
        low = self.low[removed, groups]
        high, last, median = removed - low, len(self.ordered) - 1, self.median[groups]
        with np.errstate(over="ignore"):
            below = median - self.ordered[np.maximum(low - 1, 0), groups]
            above = self.ordered[last - np.maximum(high - 1, 0), groups] - median
        return np.minimum(np.where(low > 0, below, np.inf), np.where(high > 0, above, np.inf))

    def _range(self, removed: Counts) -> Array:
        groups = np.arange(len(removed))
        low = self.low[removed, groups]
        highest = self.ordered[len(self.ordered) - 1 - (removed - low), groups]
        with np.errstate(over="ignore"):
            return highest - self.ordered[low, groups]


def _ordered(rewards: Array) -> Ordered:
    """Windows are sums of what they hold, about the median and in a unit of the group's middle half.

    So nothing cancels where one reward is 1e12; and what is 1e150 times as far as the middle is far enough as it is.
    """
    ordered = np.ascontiguousarray(np.sort(rewards, axis=1).T)
    n, groups = ordered.shape
    most, median = min(n // 4, MAX_REMOVED), _median(ordered)
    about = 0.25 * ordered - 0.25 * median  # a quarter: the difference of the largest numbers overflows
    middle = about[most : n - most]
    unit = _unit(np.where(middle[0] < middle[-1], middle[[0, -1]], about[[0, -1]]))
    with np.errstate(over="ignore"):
        scaled = about / unit
        beyond = np.flatnonzero(np.maximum(-scaled[0], scaled[-1]) > FAR)
        scaled[:, beyond] = scaled[:, beyond].clip(-FAR, FAR)
        windows = [_window_sums(values, most) for values in (scaled, scaled * scaled)]
        mean = np.clip(median + windows[0][0][0] / n * unit * 4, ordered[0], ordered[-1])
        deviation, low = np.empty((most + 1, groups)), np.zeros((most + 1, groups), dtype=np.int64)
        for removed, (total, square) in enumerate(zip(*windows, strict=True)):
            variance = square - total * total / (n - removed)
            low[removed] = variance.argmin(0) if removed else 0
            least = variance[low[removed], np.arange(groups)] if removed else variance[0]
            deviation[removed] = (
                np.sqrt(np.maximum(least, 0.0) / (n - removed - 1)) * unit * 4
            )  # back to whole numbers, last
        if len(beyond):  # of all rewards, in the unit of the farthest
            some = about[:, beyond]
            deviation[0, beyond] = (some / _unit(some)).std(0, ddof=1) * _unit(some) * 4
            mean[beyond] = np.clip((some / n).sum(0) * 4 + median[beyond], ordered[0, beyond], ordered[-1, beyond])
    return Ordered(ordered, median, mean, deviation, low)


def _window_sums(values: Array, most: int) -> list[Array]:
    """For j = 0 ... most the sums of ascending columns without the k lowest and the j - k highest: [k, group] each."""
    n = len(values)
    below, above = np.empty((2, most + 1, values.shape[1]))
    below[0], above[0] = values[most : n - most].sum(0), 0.0
    for k in range(most):  # from the middle outward, where the numbers are small
        np.add(below[k], values[most - 1 - k], out=below[k + 1])
        np.add(above[k], values[n - most + k], out=above[k + 1])
    return [below[most - j : most + 1][::-1] + above[most - j : most + 1] for j in range(most + 1)]


def _unit(about: Array) -> Array:
    """A power of two of the size of the largest distance in each ascending column."""
    largest = np.maximum(np.abs(about[0]), np.abs(about[-1]))
    return np.exp2(np.ceil(np.log2(np.maximum(largest, np.finfo(np.float64).tiny))))


def normal_range(n: int) -> float:
    """The expected range of n standard normal numbers, by Blom's approximation."""
    return 2 * NormalDist().inv_cdf((n - 0.375) / (n + 0.25))


def usual_spread(own: Array) -> Array:
    """For each group the median spread of the NEIGHBOURS untied groups around it, in blocks; infinite if all are tied.

    Of neighbours and not of the run: the rewards' scale may change while training goes on.
    """
    defined = np.flatnonzero(np.isfinite(own))
    if not len(defined):
        return np.full(len(own), np.inf)
    blocks = max(1, len(defined) // NEIGHBOURS)
    edges = np.arange(blocks) * NEIGHBOURS
    full = np.median(own[defined[: edges[-1]]].reshape(blocks - 1, NEIGHBOURS), axis=1)
    middle = np.append(full, np.median(own[defined[edges[-1] :]]))
    return middle[np.searchsorted(defined[edges], np.arange(len(own)), side="right").clip(min=1) - 1]


def _median(ordered: Array) -> Array:
    """The midpoint median of ordered columns; equal middles come back to the last bit."""
    lower, upper = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return np.where(lower == upper, lower, 0.5 * lower + 0.5 * upper)
