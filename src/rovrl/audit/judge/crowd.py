"""Do rewards crowd at one distance, where a tail would thin out? A heavy tail may be long, but it is smooth.

*Null.* The rewards' distances |z| from the middles of their groups, in usual spreads, have a smooth tail beyond one spread
(`rovrl.robust.outliers.tail`): the density of log|z| is that of a Pareto law or bends downwards from it, as those of Student's
t, the log-normal, the exponential and the normal law do. Index and bends are unknown.

*Statistic.* Distances are counted in bins of log|z|. For each stretch [c, 1.5c] the likeliest smooth tail of everything else is
continued through the stretch; D is the signed root of twice the gain in likelihood from letting the stretch hold what it holds
instead of having one smooth tail for all. The largest D is judged.

*Error.* The chance of a normal deviate as large, times the number of stretches, must be at most ERROR, and that is about the
share of honest tails that are accused, over all stretches (tests/unit/audit/judge/test_crowd.py simulates ten laws).

*Not said.* Where one in ten rewards is spread several times as widely as the others, the tail has a shoulder. If normal laws of
any mixture of spreads are clearly the better explanation, nothing is said.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from rovrl.audit.arrays import Array, Counts
from rovrl.robust.outliers.tail import likelihood_of_spreads, smooth_tails

NEAREST, FARTHEST = 1.0, 40.0
"""The tail that is looked at, in usual spreads: nearer is the middle, and farther out no smooth tail is needed to see a gap."""
LEAST = 2.5
"""No hump begins nearer than this."""
BIN = 0.05
"""The width of a bin on the logarithmic scale."""
STEP, WIDTH = 2, 8
"""From one hump that is tried to the next, and its width (from c to 1.5 c), in bins."""
BEYOND = 20
"""Empty bins beyond the farthest reward: that nothing lies there is evidence, too."""
FEWEST, FEWEST_TAIL = 4, 40
"""Rewards in a hump, and in the tail, with fewer of which nothing is said."""
DISTINCT = 0.8
"""The share of different values in the tail below which rewards have levels, and no humps."""
EXCESS = 2.0
"""A hump holds this many times what the smooth tail allows."""
ERROR = 0.03
"""The chance at which a smooth tail may be accused of a hump, over all that are tried."""
LIKELIER = 2.0
"""By so much, in log-likelihood, a mixture of spreads may explain the tail better than a hump, and the hump still counts."""


class Crowd(NamedTuple):
    """A hump of |z|: its ends, how many lie in it, and how many the smooth tail around it allows."""

    low: float
    high: float
    found: int
    allowed: float


class Clearest(NamedTuple):
    """The clearest hump of a tail."""

    hump: Crowd
    chance: float
    """Of a smooth tail to have one as clear, at most about; over all humps that were tried."""
    likelihood: float
    """Of the whole tail with this hump."""


def crowd(z: Array) -> Crowd | None:
    """The clearest hump of |z|, if it lies on both sides; None where the tail is smooth, and for rewards that have few values.

    A hump on one side alone may be a bonus, and is nobody's fault.
    """
    far = np.abs(z)
    far = np.sort(far[(far > NEAREST) & (far < FARTHEST)])
    if len(far) < FEWEST_TAIL or 1 + np.count_nonzero(far[1:] != far[:-1]) < DISTINCT * len(far):
        return None
    counts, y = binned(far)
    best = clearest(counts, y)
    if best is None or best.chance > ERROR or not _on_both_sides(z, best.hump):
        return None
    return None if likelihood_of_spreads(counts, y) > best.likelihood + LIKELIER else best.hump


def binned(far: Array) -> tuple[Array, Array]:
    """(counts, log-distances of the bins' centers) of distances between NEAREST and FARTHEST."""
    place = (np.log(far / NEAREST) / BIN).astype(np.int64)
    bins = math.ceil(math.log(FARTHEST / NEAREST) / BIN)
    bins = min(bins, int(place.max(initial=0)) + 1 + BEYOND)
    return np.bincount(place, minlength=bins).astype(np.float64), (np.arange(bins, dtype=np.float64) + 0.5) * BIN


def clearest(counts: Array, y: Array) -> Clearest | None:
    """The stretch that most clearly holds more than the likeliest smooth tail of the others, continued; None if none does."""
    begin, end = _stretches(counts)
    found, smooth = _within(counts, begin, end), smooth_tails(counts, np.ones((1, len(counts)), dtype=bool), y)
    full = (found >= FEWEST) & (found > _within(smooth.expected[0], begin, end))  # in the others D is not above 0
    if not full.any():
        return None
    tried, begin, end, found = len(begin), begin[full], end[full], found[full]
    bins = np.arange(len(counts))
    inside = (bins >= begin[:, None]) & (bins < end[:, None])
    around = smooth_tails(counts, ~inside, y)
    allowed = (around.expected * inside).sum(1)
    likelihood = around.likelihood + found * np.log(found / allowed) - found
    likelihood += (inside * counts * np.log(around.expected)).sum(1)
    gain = np.where(found > EXCESS * allowed, likelihood - smooth.likelihood, 0.0)
    k = int(gain.argmax())
    low, high = (NEAREST * math.exp(BIN * int(edge[k])) for edge in (begin, end))
    chance = tried * 0.5 * math.erfc(math.sqrt(max(float(gain[k]), 0.0)))  # D/√2 = √gain
    return Clearest(Crowd(low, high, int(found[k]), float(allowed[k])), chance, float(likelihood[k]))


def _stretches(counts: Array) -> tuple[Counts, Counts]:
    """(first bin, bin after the last) of each stretch that is tried: from LEAST to the farthest reward."""
    begin = np.arange(math.ceil(math.log(LEAST / NEAREST) / BIN), int(np.flatnonzero(counts)[-1]) + 1, STEP)
    return begin, np.minimum(begin + WIDTH, len(counts))


def _within(counts: Array, begin: Counts, end: Counts) -> Array:
    sums = np.append(0.0, np.cumsum(counts))
    return sums[end] - sums[begin]


def _on_both_sides(z: Array, hump: Crowd) -> bool:
    """Whether the side with fewer is likelier to hold half of the crowd than none of it.

    Of k Poisson counts with mean found/2 rather than allowed/2: k·log(found/allowed) > (found - allowed)/2.
    """
    inside = z[(np.abs(z) >= hump.low) & (np.abs(z) <= hump.high)]
    fewer = min(int((inside > 0).sum()), int((inside < 0).sum()))
    return fewer * math.log(hump.found / hump.allowed) > (hump.found - hump.allowed) / 2
