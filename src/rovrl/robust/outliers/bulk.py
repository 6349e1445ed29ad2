"""The bulk of each group: values sorted within ragged groups, centers that survive many outliers, and a common unit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

DISCRETE = 0.05
"""The share of groups whose smallest step may be smaller than what counts as the step of a discrete variable."""
ROUNDING = 1e-6
"""Two values that differ by less than this share of them differ by rounding."""
ON_SCALE = 0.02
"""A difference is a whole number of steps if it is nearer than this to one."""
CONSISTENCY = 1.4826
"""The standard deviation of a normal distribution in units of its median absolute deviation."""
CROWDED = 0.6
"""A group with more than this share of its members near its median has its center there."""
LARGEST = np.finfo(np.float64).max
COMPARED = 64
"""In rows up to this length all pairs are compared; in longer ones each end is looked up."""
PIECE = 1 << 22
"""Numbers held at a time."""


@dataclass(frozen=True)
class SortedGroups:
    """Values ascending within each of their groups, groups one after the other, none of them empty."""

    values: np.ndarray
    group: np.ndarray
    size: np.ndarray
    order: np.ndarray
    """values = original[order]."""

    @classmethod
    def of(cls, values: np.ndarray, group: np.ndarray, num_groups: int) -> SortedGroups:
        """The groups of finite values; `group` holds 0 ... num_groups - 1, each at least once."""
        size = np.bincount(group, minlength=num_groups)
        by_group = np.argsort(group, kind="stable") if (group[1:] < group[:-1]).any() else None
        if len(size) and size.min() == size.max():
            rows = (values if by_group is None else values[by_group]).reshape(num_groups, -1)
            order = np.argsort(rows, axis=-1)  # equal values change places only among themselves
            order += np.arange(0, len(values), rows.shape[-1])[:, None]
            order = order.ravel() if by_group is None else by_group[order.ravel()]
        else:
            order = np.lexsort((values, group))
        return cls(values[order], np.repeat(np.arange(num_groups), size), size, order)

    @cached_property
    def start(self) -> np.ndarray:
        """Where each group begins."""
        return np.cumsum(self.size) - self.size

    @cached_property
    def place(self) -> np.ndarray:
        """The rank of each value in its group, from 0."""
        return np.arange(len(self.values)) - self.of_members(self.start)

    def only(self, chosen: np.ndarray) -> SortedGroups:
        """Some of the groups, numbered anew."""
        members, size = self.of_members(chosen), self.size[chosen]
        return SortedGroups(self.values[members], np.repeat(np.arange(len(size)), size), size, self.order[members])

    def without(self, rejected: np.ndarray) -> SortedGroups:
        """The same groups without the rejected values (in the original order); each must keep one."""
        kept = ~rejected[self.order]
        return SortedGroups(self.values[kept], self.group[kept], self.count(kept), self.order[kept])

    def of_members(self, numbers: np.ndarray) -> np.ndarray:
        """The number of each member's group."""
        return np.repeat(numbers, self.size)

    def between(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Which members are ranked low ≤ rank < high in their group."""
        if not low.any() and np.array_equal(high, self.size):
            return np.ones(len(self.values), bool)
        return (self.place >= self.of_members(low)) & (self.place < self.of_members(high))

    def count(self, chosen: np.ndarray) -> np.ndarray:
        """How many members of each group are chosen."""
        return np.bincount(self.group[chosen], minlength=len(self.size))

    def residual(self, center: np.ndarray) -> np.ndarray:
        """Values minus their group's center, finite."""
        found = self.of_members(center)
        with np.errstate(over="ignore"):
            np.subtract(self.values, found, out=found)
        return np.clip(found, -LARGEST, LARGEST, out=found)

    def median(self, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """The (lower) median of the members ranked low ≤ rank < high of each group: always one of them, never between two."""
        return self.values[self.start + np.clip((low + high - 1) // 2, 0, self.size - 1)]

    def densest(self, center: np.ndarray, width: float) -> np.ndarray:
        """The center, or where at most 60 % lie within `width` of it, the median of the fullest window of that width.

        Of several equally full windows the one whose median is nearest to the center.
        """
        near = self.count(np.abs(self.residual(center)) <= width)
        moved, doubtful = center.copy(), np.flatnonzero(near <= CROWDED * self.size)
        for size in np.flatnonzero(np.bincount(self.size[doubtful])):
            every = doubtful[self.size[doubtful] == size]
            for some in np.array_split(every, -(-len(every) * size * min(size, COMPARED) // PIECE)):
                rows = self.values[self.start[some][:, None] + np.arange(size)]
                moved[some] = _fullest(rows, center[some], width)
        return moved

    @cached_property
    def _steps(self) -> np.ndarray:
        """From each value to the next: infinite where that is the same value, or of another group."""
        with np.errstate(over="ignore"):
            step = np.diff(self.values)
        np.minimum(step, LARGEST, out=step)
        rounding = np.abs(self.values)
        rounding = np.maximum(rounding[:-1], rounding[1:], out=rounding[:-1])
        rounding *= ROUNDING
        step[step <= np.maximum(rounding, 1e-300, out=rounding)] = np.inf
        step[self.start[1:] - 1] = np.inf
        return step

    @cached_property
    def graded(self) -> bool:
        """Whether the values have no continuous part: in groups with contrast, most members are equal to another one, or
        most differences are whole numbers of steps."""
        same = np.isinf(self._steps)
        same[self.start[1:] - 1] = False
        tied = np.append(same, False) | np.append(False, same)
        if 2 * int(np.count_nonzero(tied & self._contrasted)) > int(self.size[self._contrast].sum()):
            return True
        step = self._steps[np.isfinite(self._steps)]
        return len(step) > 0 and self.off_scale(step) < 0.5

    def span(self, values: np.ndarray) -> float:
        """The largest difference between two of these values within one group."""
        if not len(values):
            return 0.0
        with np.errstate(over="ignore"):  # at the end of the range of numbers
            return float((np.maximum.reduceat(values, self.start) - np.minimum.reduceat(values, self.start)).max())

    def off_scale(self, differences: np.ndarray) -> float:
        """The share of differences that are no whole number of steps; 0 of none."""
        if not len(differences):
            return 0.0
        with np.errstate(over="ignore", invalid="ignore"):  # at the end of the range of numbers
            whole = differences / self.step
            return float(np.mean(~(np.abs(whole - np.round(whole)) <= ON_SCALE)))

    @cached_property
    def _contrast(self) -> np.ndarray:
        return self.values[self.start + self.size - 1] > self.values[self.start]

    @cached_property
    def _contrasted(self) -> np.ndarray:
        """The members of groups with contrast."""
        return self.of_members(self._contrast)

    @cached_property
    def step(self) -> float:
        """The step of a discrete variable: the smallest step between two values, which 5 % of the groups may undercut; or 0."""
        step = self._steps
        least = np.minimum.reduceat(np.append(np.inf, step), self.start) if len(self.size) else step
        least = least[np.isfinite(least)]
        place = int(DISCRETE * (len(least) - 1))
        return float(np.partition(least, place)[place]) if len(least) else 0.0

    def unit(self, residual: np.ndarray, kept: np.ndarray) -> float:
        """1.4826 times the median |residual| of what is kept in groups with contrast; at least half the step."""
        used = np.abs(residual[kept & self._contrasted])
        return max(CONSISTENCY * median(used), 0.5 * self.step) if len(used) else 0.0


def median(values: np.ndarray) -> float:
    """The midpoint median of numbers without NaN, of which there is at least one. (np.median imports numpy.ma first.)"""
    low, high = (len(values) - 1) // 2, len(values) // 2
    ordered = np.partition(values, (low, high))
    return 0.5 * float(ordered[low]) + 0.5 * float(ordered[high])


def _fullest(rows: np.ndarray, center: np.ndarray, width: float) -> np.ndarray:
    """The median of the window [x_i, x_i + width] with the most members, for each ascending row."""
    size = rows.shape[-1]
    with np.errstate(over="ignore"):
        members = _within(rows, rows + width) - np.arange(size)
        middle = np.take_along_axis(rows, np.arange(size) + (members - 1) // 2, -1)
        far = np.abs(middle - center[:, None])
    far = np.where(members == members.max(-1, keepdims=True), far, np.inf)
    return np.take_along_axis(middle, far.argmin(-1)[:, None], -1)[:, 0]


def _within(rows: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """How many members of an ascending row are at most each of its ends."""
    if rows.shape[-1] <= COMPARED:
        return (rows[:, None, :] <= ends[:, :, None]).sum(-1)
    return np.stack([np.searchsorted(row, end, side="right") for row, end in zip(rows, ends, strict=True)])
