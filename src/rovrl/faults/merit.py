"""Where the merit of a reward lies: in its bulk, or in a layer far from it, as with verdicts beside a small shaping term.

Merit depends on the prompt, chance does not. That tells faults from right answers, and it tells on which scale right answers
are told from wrong ones: a layer far from the bulk that follows the prompts is merit; a bulk whose spread is the same on every
prompt, up to chance, is not. The minority of each group has to follow the prompts too: spikes with one sign per prompt are as
rare in every group.
"""

from __future__ import annotations

import numpy as np

from rovrl.faults.candidates import MIXED
from rovrl.faults.evidence import SMALLEST, layers
from rovrl.robust.outliers import dispersion
from rovrl.robust.outliers.bulk import SortedGroups
from rovrl.robust.outliers.dispersion import Design

SMALLEST_MEAN = 6.0
"""The mean size of the groups, without faults, from which on their variances can be compared: eight, a few faults less."""
ENOUGH = 1024
"""Responses in the bulk from which on its evenness can be judged: 64 groups of 16, 128 of 8."""
FARTHEST = 60.0
"""In units of the bulk, the farthest that a layer of merit can be: what lies beyond may as well be the mark of a failure."""
UNEVEN = 0.06
"""The squared coefficient of variation of the groups' true variances up to which a bulk is even."""
TAILED = 6.0
"""The kurtosis up to which variances can be compared at all."""
FACTOR = 1.3
"""A layer follows the prompts if its pairs are evidently more than chance makes, and this many times more."""
NARROW = 0.6
"""From the 10 % to the 90 % quantile of a layer's distances, relative to their median."""


def merit_level(groups: SortedGroups, unit: float, strata: np.ndarray) -> float:
    """The distance between right and wrong, where it is a layer far from an even bulk; else 0.

    `groups` without what was shown to be faults, with the `unit` of the rest; `strata` as in `shown`. The layer may lie on both
    sides, but never of one group: the center of a group is one of two levels. Nothing is said of groups smaller than six on
    average, or of fewer than 1,024 responses.
    """
    design = Design(np.where(groups.size >= SMALLEST, groups.size, 0), strata)
    if unit == 0 or design.mean_size < SMALLEST_MEAN or len(groups.values) < ENOUGH:
        return 0.0
    residual = groups.residual(groups.median(np.zeros_like(groups.size), groups.size))
    found = max(_layer(groups, side, unit, design) for side in (residual, -residual))
    if not 0 < found <= FARTHEST * unit:
        return 0.0
    bulk = np.abs(residual) < found / 2
    return found if _even(residual[bulk] / unit, groups.group[bulk], groups.count(bulk).astype(float), strata) else 0.0


def _layer(groups: SortedGroups, residual: np.ndarray, unit: float, design: Design) -> float:
    """The median distance of the nearest layer on the positive side that follows the prompts; 0 without one."""
    for distance, counts, opposite in layers(groups, residual, unit, design):
        low, middle, high = np.quantile(distance, (0.1, 0.5, 0.9))
        both = int(((counts > 0) & (opposite > 0)).sum()) > MIXED * int((counts > 0).sum())
        if high - low > NARROW * middle or both:
            continue
        seen = counts, _from_commoner_level(counts, opposite, design.sizes), counts + opposite
        if all(dispersion.evident(hits, design, FACTOR) for hits in seen):
            return float(middle)
    return 0.0


def _from_commoner_level(counts: np.ndarray, opposite: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Hits per group, each group seen from the level at which most are: the few whose center is the other one are no layer."""
    hits, other = (counts, opposite) if counts.sum() >= opposite.sum() else (opposite, counts)
    return np.where((other > 0) & (hits == 0), sizes - other, hits)


def _even(x: np.ndarray, group: np.ndarray, n: np.ndarray, strata: np.ndarray) -> bool:
    """Whether the variances of the bulk, `n` values `x` of each group, differ by no more than those of samples of one law.

    With variances s_j² of n_j members, Var s_j² = σ⁴(2/(n_j - 1) + (k - 3)/n_j) for a kurtosis k; what the s_j² vary beyond
    that, in units of σ⁴, is the squared coefficient of variation of the groups' own variances. Each stratum has its own σ².
    """
    used = n >= SMALLEST
    if n[used].sum() < ENOUGH:
        return False
    x = x - (np.bincount(group, x, len(n)) / np.maximum(n, 1))[group]
    square = np.where(used, np.bincount(group, x * x, len(n)), 0.0)
    mean = np.bincount(strata, square) / np.maximum(np.bincount(strata, np.where(used, n - 1, 0.0)), 1)
    if not (mean[strata[used]] > 0).all():
        return False
    variance = (square / np.maximum(n - 1, 1) / np.maximum(mean[strata], 1e-300))[used]
    fourth = float(((x * x / np.maximum(mean[strata], 1e-300)[group])[used[group]] ** 2).sum())
    kurtosis, n = _kurtosis(fourth, n[used]), n[used]
    by_chance = float((2 / (n - 1) + (kurtosis - 3) / n).mean())
    return kurtosis <= TAILED and float(((variance - 1) ** 2).mean()) - by_chance <= UNEVEN


def _kurtosis(fourth: float, n: np.ndarray) -> float:
    """k from Σ_ij (x_ij - x̄_j)⁴ in units of σ⁴, since E(x - x̄)⁴ = (n - 1)/n³·((n² - 3n + 3)k + 3(2n - 3))σ⁴; at least 1."""
    by_chance = float((3 * (n - 1) * (2 * n - 3) / n**2).sum())
    return max((fourth - by_chance) / float(((n - 1) * (n**2 - 3 * n + 3) / n**2).sum()), 1.0)
