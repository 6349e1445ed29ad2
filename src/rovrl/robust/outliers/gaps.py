"""Where a tail is parted from what is nearer: gaps that no honest tail would leave.

A heavy tail thins out, but it leaves no gap: of a Pareto tail with index α a share of 1 - w^-α of what lies beyond t/w lies
below t. Far fewer in between than the heaviest tail allows (α = 0.5, far heavier than Cauchy's) means: parted.
"""

from __future__ import annotations

import numpy as np

from rovrl.robust.outliers.bulk import ROUNDING

WIDTHS = (1.6, 2.5, 5.0, 12.0)
"""The ratios between the upper and the lower end of a gap that are tried."""
TAIL, ERROR = 0.5, 1e-3
"""The index of the heaviest honest tail, and the chance at which it may leave a gap."""
SLACK = 0.15
"""Stragglers within the narrowest gap, relative to what lies above it; hits that differ by no more are the same choice."""


def gaps(
    descending: np.ndarray, least: float, most: float, *, tail: float = TAIL, error: float = ERROR, slack: float = SLACK
) -> list[float]:
    """The smallest distance beyond each gap, the farthest first: above `least`, with at most `most` values beyond.

    `descending` are positive distances, down to least/12 (what is nearer is in no gap). Equal distances are never parted.
    """
    following = np.append(descending[1:], 0.0)
    with np.errstate(over="ignore"):  # at the end of the range of numbers
        ends = np.flatnonzero((descending > least) & (descending > following * (1 + ROUNDING))) + 1
    ends = ends[ends <= most]
    if not len(ends):
        return []
    at, ascending = descending[ends - 1], descending[::-1]

    def inside(width: float) -> np.ndarray:
        return len(descending) - np.searchsorted(ascending, at / width, side="right") - ends

    few = inside(WIDTHS[0]) / ends
    surprise = np.max([_surprise(inside(w), ends + inside(w), 1 - w**-tail) for w in WIDTHS], axis=0)
    good = np.flatnonzero((surprise > -np.log(error)) & (few <= slack))
    chosen: list[int] = []
    while len(good):  # neighbours with nearly the same hits are one gap: those with nothing in it, or the emptiest
        alike = (ends[good] * (1 - SLACK) <= ends[good[0]]) & (good - good[0] == np.arange(len(good)))
        part, good = good[alike], good[~alike]
        empty = part[at[part] >= WIDTHS[0] * following[ends[part] - 1]]
        chosen += empty.tolist() or [int(part[np.lexsort((-ends[part], few[part]))[0]])]
    found = []
    for i in chosen:  # the widest void in the gap parts it: what lies above belongs to the layer
        part = np.append(descending[ends[i] - 1 :][: inside(WIDTHS[0])[i] + 1], at[i] / WIDTHS[0])
        found.append(float(part[(part[:-1] / part[1:]).argmax()]))
    return list(dict.fromkeys(found))


def _surprise(k: np.ndarray, n: np.ndarray, p: float) -> np.ndarray:
    """-log of an upper bound of P(Binomial(n, p) ≤ k): n·KL(k/n, p) below the mean (Chernoff), 0 above it."""
    share = k / n
    with np.errstate(divide="ignore", invalid="ignore"):
        divergence = np.where(share > 0, share * np.log(share / p), 0.0) + (1 - share) * np.log((1 - share) / (1 - p))
    return np.where(share < p, n * divergence, 0.0)
