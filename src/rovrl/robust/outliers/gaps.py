"""Where a tail is cut off from the bulk: thresholds with a gap below them that no honest tail would leave.

A heavy tail thins out, but it leaves no gap: of a Pareto tail with index α a share of 1 - w^-α of what lies beyond t/w lies
below t. Fewer in between than the heaviest tail allows (α = 0.5, far heavier than Cauchy's) means: cut off.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rovrl.robust.outliers.bulk import ROUNDING

WIDTHS = (1.6, 2.5, 5.0, 12.0)
"""The ratios between the upper and the lower end of a gap that are tried."""
TAIL, ERROR = 0.5, 1e-3
"""The index of the heaviest honest tail, and the chance at which it may leave a gap."""
SLACK = 0.15
"""Stragglers within the narrowest gap, relative to what lies above it."""
REGION = 0.85
"""Thresholds that keep this share of the same hits are one choice: the emptiest gap among them is taken."""
MOST_CUTS = 24


class Cut(NamedTuple):
    """The `hits` largest values are beyond the gap; the smallest of them is `at`, and `threshold` lies within the gap."""

    hits: int
    at: float
    threshold: float


def cuts(
    descending: np.ndarray,
    least: float,
    most: float,
    *,
    nearer: np.ndarray | None = None,
    tail: float = TAIL,
    error: float = ERROR,
    slack: float = SLACK,
) -> list[Cut]:
    """The thresholds above `least` with a gap below them and at most `most` hits, fewest first; equal values are never parted.

    `descending` are the positive values in descending order, down to `least`/12; or those above `least`, and `nearer` are the
    others in any order: most of them never have to be sorted. `tail` is the index of the heaviest honest tail, `error` the
    chance at which it may leave a gap, `slack` the share of stragglers within the narrowest gap.
    """
    ends = _ends(descending, least, most, nearer)
    if not len(ends):
        return []
    at = descending[ends - 1]
    seen = _down_to(at[-1] / WIDTHS[0], descending, nearer)
    stragglers = _between(seen, at, ends, WIDTHS[0])
    empty = np.flatnonzero(stragglers <= slack * ends)
    if not len(empty):
        return []
    seen, at, hits = _down_to(float(at[empty[-1]]) / WIDTHS[-1], descending, nearer), at[empty], ends[empty]
    least_likely = np.ones(len(empty))
    for width in WIDTHS:
        inside = _between(seen, at, hits, width)
        least_likely = np.minimum(least_likely, _below(inside, hits + inside, 1 - width**-tail))
    surprise = np.ones(len(ends))
    surprise[empty] = least_likely
    chosen = _emptiest(ends, stragglers / ends, surprise <= error)
    if len(chosen) > MOST_CUTS:
        chosen = np.sort(chosen[np.argsort(surprise[chosen], kind="stable")[:MOST_CUTS]])
    return [_cut(seen, int(ends[i])) for i in chosen]


def _ends(descending: np.ndarray, least: float, most: float, nearer: np.ndarray | None) -> np.ndarray:
    """How many values each threshold above `least` parts from the others, ascending; at most `most`."""
    above = len(descending) - int(np.searchsorted(descending[::-1], least, side="right"))
    following = descending[1 : above + 1]
    if len(following) < above:
        following = np.append(following, 0.0 if nearer is None else nearer.max(initial=0.0))
    with np.errstate(over="ignore"):  # at the end of the range of numbers
        ends = np.flatnonzero(descending[:above] > following * (1 + ROUNDING)) + 1
    return ends[ends <= most]


def _down_to(end: float, descending: np.ndarray, nearer: np.ndarray | None) -> np.ndarray:
    """The values in descending order, of the nearer ones those above `end`: no gap that is looked at reaches the others."""
    if nearer is None:
        return descending
    return np.concatenate([descending, np.sort(nearer[nearer > end])[::-1]])


def _between(descending: np.ndarray, at: np.ndarray, ends: np.ndarray, width: float) -> np.ndarray:
    """How many values lie in the gap of that width below each threshold."""
    return len(descending) - np.searchsorted(descending[::-1], at / width, side="right") - ends


def _cut(descending: np.ndarray, hits: int) -> Cut:
    """The threshold is the geometric middle of the gap, at most 1.6 below the smallest hit."""
    at = float(descending[hits - 1])
    below = float(descending[hits]) if hits < len(descending) else 0.0
    return Cut(hits, at, at * max(below / at, WIDTHS[0] ** -2) ** 0.5)


def _emptiest(ends: np.ndarray, emptiness: np.ndarray, good: np.ndarray) -> np.ndarray:
    """Of each region of good thresholds with nearly the same hits, the one with the emptiest gap; if several, the lowest."""
    chosen: list[int] = []
    left = np.flatnonzero(good)
    while len(left):
        last = left[-1]
        start = np.searchsorted(ends[left], REGION * ends[last])
        broken = np.flatnonzero(~good[left[start] : last + 1])
        start += int(np.searchsorted(left[start:], left[start] + broken[-1])) if len(broken) else 0
        region = left[start:][::-1]
        chosen.append(int(region[np.argmin(emptiness[region])]))
        left = left[:start]
    return np.array(chosen[::-1], dtype=int)


def _below(k: np.ndarray, n: np.ndarray, p: float) -> np.ndarray:
    """An upper bound of P(Binomial(n, p) ≤ k): exp(-n·KL(k/n, p)) below the mean (Chernoff), 1 above it."""
    share = k / n
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.where(share > 0, share * np.log(share / p), 0.0)
        second = np.where(share < 1, (1 - share) * np.log((1 - share) / (1 - p)), 0.0)
    return np.where(share < p, np.exp(-n * (first + second)), 1.0)
