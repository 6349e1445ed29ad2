"""Sorted groups and their centers: medians that may be moved where a group does not say by itself where its center is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

DISCRETE = 0.05
"""The share of groups whose smallest step may be smaller than what counts as the step of a discrete variable."""
ROUNDING = 1e-6
"""Two values that differ by less than this share of them differ by rounding."""
CONSISTENCY = 1.4826
"""The standard deviation of a normal distribution in units of its median absolute deviation."""
CROWDED = 0.6
"""A group with more than this share of its members near its median has its center there."""
UNCLEAR = 1.0
"""Centers whose log-likelihoods differ by less than this cannot be told apart: any of them may be the one."""
LARGEST = np.finfo(np.float64).max
BINS = 24
"""Of the density on each side, by factors of two: the last begins at eight million times the width of the bulk."""
COMPARED = 64
"""Members of a doubtful group that are tried as its center, evenly over its ranks."""
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

    def only(self, kept: np.ndarray) -> SortedGroups:
        """The same without what is not kept; groups of which nothing is left go."""
        size = self.count(kept)
        number = np.cumsum(size > 0) - 1
        return SortedGroups(self.values[kept], number[self.group[kept]], size[size > 0], self.order[kept])

    @cached_property
    def start(self) -> np.ndarray:
        """Where each group begins."""
        return np.cumsum(self.size) - self.size

    def count(self, chosen: np.ndarray) -> np.ndarray:
        """How many members of each group are chosen."""
        return np.bincount(self.group[chosen], minlength=len(self.size))

    def residual(self, center: np.ndarray) -> np.ndarray:
        """Values minus their group's center, finite."""
        with np.errstate(over="ignore"):
            found = self.values - center[self.group]
        return np.clip(found, -LARGEST, LARGEST, out=found)

    def median(self, kept: np.ndarray) -> np.ndarray:
        """The lower median of the kept members of each group, always one of them; of a group without any, of all."""
        number = self.count(kept)
        members = np.append(np.flatnonzero(kept), 0)
        found = members[np.minimum(np.cumsum(number) - number + np.maximum(number - 1, 0) // 2, len(members) - 1)]
        return self.values[np.where(number > 0, found, self.start + (self.size - 1) // 2)]

    @cached_property
    def contrast(self) -> np.ndarray:
        """Which groups hold two different values."""
        return self.values[self.start + self.size - 1] > self.values[self.start]

    @cached_property
    def graded(self) -> bool:
        """Whether the values have no continuous part: most members of groups with contrast are equal to their neighbor."""
        inside = self.contrast[self.group][1:] & (self.group[1:] == self.group[:-1])
        tied = inside & (self.values[1:] == self.values[:-1])
        return bool(2 * np.count_nonzero(tied) > np.count_nonzero(inside))

    @cached_property
    def step(self) -> float:
        """The step of a discrete variable: the smallest between two values, which 5 % of the groups may undercut; or 0."""
        with np.errstate(over="ignore"):
            step = np.minimum(np.diff(self.values), LARGEST)
        size = np.maximum(np.abs(self.values[1:]), np.abs(self.values[:-1]))
        step[(step <= np.maximum(ROUNDING * size, 1e-300)) | (np.diff(self.group) > 0)] = np.inf
        least = np.minimum.reduceat(np.append(step, np.inf), self.start)
        least = least[np.isfinite(least)]
        place = int(DISCRETE * (len(least) - 1))
        return float(np.partition(least, place)[place]) if len(least) else 0.0

    def unit(self, residual: np.ndarray, kept: np.ndarray) -> float:
        """1.4826 times the median |residual| of what is kept in groups with contrast; at least half the step."""
        used = np.abs(residual[kept & self.contrast[self.group]])
        return max(CONSISTENCY * median(used), 0.5 * self.step) if len(used) else 0.0


def median(values: np.ndarray) -> float:
    """The midpoint median of numbers without NaN, of which there is at least one. (np.median imports numpy.ma first.)"""
    low, high = (len(values) - 1) // 2, len(values) // 2
    ordered = np.partition(values, (low, high))
    return 0.5 * float(ordered[low]) + 0.5 * float(ordered[high])


def registered(groups: SortedGroups, center: np.ndarray, width: float) -> tuple[np.ndarray, np.ndarray]:
    """(likeliest, drawn) centers: that of a doubtful group is the member about which the others are likeliest.

    Doubtful: no 60 % of the group lie within `width` of its center. The likelihood is that of the residuals in the other
    groups, and of a crowd within `width` all together count once, so that many faults weigh no more than one. Drawn: one of
    those about as likely, by the number of the group alone. The likeliest would lie on one side in every tie, which looks like
    faults on the other.
    """
    residual = groups.residual(center)
    near = groups.count(np.abs(residual) <= width)
    doubtful = np.flatnonzero(near <= CROWDED * groups.size)
    likeliest, drawn = center.copy(), center.copy()
    if not len(doubtful):
        return likeliest, drawn
    seen = _bins(residual[(near > (1 - CROWDED) * groups.size)[groups.group]], width)
    side = 2.0 ** np.arange(BINS)  # widths of the bins, in units of `width`
    log = np.log((np.bincount(seen, minlength=2 * BINS + 1) + 0.5) / np.concatenate([[2.0], side, side]))
    for size in np.flatnonzero(np.bincount(groups.size[doubtful])).tolist():
        every = doubtful[groups.size[doubtful] == size]
        for some in np.array_split(every, -(-len(every) * size * min(size, COMPARED) // PIECE)):
            likeliest[some], drawn[some] = _likeliest(groups, some, size, log, width)
    for moved in (likeliest, drawn):
        moved[doubtful] = groups.median(np.abs(groups.residual(moved)) <= width)[doubtful]
    return likeliest, drawn


def _likeliest(
    groups: SortedGroups, some: np.ndarray, size: int, log: np.ndarray, width: float
) -> tuple[np.ndarray, np.ndarray]:
    """For some groups of one size, the member about which the others are likeliest, and one drawn among such."""
    rows = groups.values[groups.start[some][:, None] + np.arange(size)]
    tried = rows[:, np.linspace(0, size - 1, min(size, COMPARED)).astype(int)]
    difference = (
        rows[:, None, :] / 4 - tried[:, :, None] / 4
    )  # [group, center, member]: a quarter, which cannot overflow
    bins = _bins(difference, width / 4)
    likelihood = log[bins].sum(-1) - np.log((bins == 0).sum(-1))
    likelihood -= likelihood.max(1, keepdims=True)
    share = np.where(likelihood > -UNCLEAR, np.exp(likelihood), 0.0).cumsum(1)
    golden = (some * 0.6180339887 + 0.5) % 1  # spread evenly over (0, 1), whatever the data
    drawn = (share < golden[:, None] * share[:, -1:]).sum(1)
    number = np.arange(len(tried))
    return tried[number, likelihood.argmax(1)], tried[number, drawn]


def _bins(x: np.ndarray, width: float) -> np.ndarray:
    """0 up to `width` from 0, then 1 ... BINS by factors of two upwards, and as many downwards."""
    with np.errstate(over="ignore"):
        _, k = np.frexp(np.clip(x / (width * (1 + ROUNDING)), -(2.0**BINS), 2.0**BINS))
    k = np.clip(k, 0, BINS, out=k)
    return np.where((x < 0) & (k > 0), BINS + k, k)
