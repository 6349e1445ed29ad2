"""The tails of common laws: smooth, and bending downwards on a logarithmic scale.

With y = log(distance) the density of y is, up to a constant, exp(-αy) for Pareto's law, exp(-αy - βe⁻²ʸ) for Student's t beyond
its middle (Hall's second-order tail), exp(-αy - βy²) for the log-normal, exp(-αy - βeʸ) for the exponential and the gamma laws.
A *smooth tail* here is exp(a - αy - Σ βⱼ·bendⱼ(y)) with at most two of these three bends and βⱼ ≥ 0: concave in y. The normal
law, lighter than all of them, is close enough to the last. Values of several spreads need not make a smooth tail:
`likelihood_of_spreads` is for them.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

STEPS, LARGEST_STEP, LAST_STEP = 40, 2.0, 1e-3
"""Newton's steps at most; how far one may move the logarithm of any expected count; and a move after which the rest, its square
about, no longer matters."""
RIDGE = 1e-10
"""Of the curvature's trace, added to it: a bend that no count speaks about stays where it is."""
LOGS = (-60.0, 30.0)
"""Between these the logarithm of an expected count is taken."""
SPREADS = 0.15
"""From one spread of a mixture of normal laws to the next, on the logarithmic scale."""
MIXING = 400
"""Steps towards the likeliest mixture."""
TINY = 1e-300


class Tails(NamedTuple):
    """The likeliest smooth tail of each case."""

    likelihood: Array
    """[case]: Σ count·log(expected) - expected over the bins that were used."""
    expected: Array
    """[case, bin], also in the bins that were not used."""


def smooth_tails(counts: Array, used: NDArray[np.bool_], y: Array) -> Tails:
    """The likeliest smooth tail of Poisson counts [bin] at y [bin], for each case of bins that are used [case, bin].

    A concave problem with signs: its solution is the likeliest among the free ones, over all choices of bends, whose βⱼ ≥ 0.
    """
    best = Tails(np.full(len(used), -np.inf), np.zeros(used.shape))
    bends = (np.exp(-2 * y), y * y, np.exp(y))
    for chosen in [(), *combinations(bends, 1), *combinations(bends, 2)]:
        basis = np.stack([np.ones_like(y), -y, *(-bend for bend in chosen)], 1)
        likelihood, slopes, expected = _likeliest(counts, used, basis / np.abs(basis).max(0))
        better = (slopes[:, 2:] >= 0).all(1) & (likelihood > best.likelihood)
        best.likelihood[better], best.expected[better] = likelihood[better], expected[better]
    return best


def _likeliest(counts: Array, used: NDArray[np.bool_], basis: Array) -> tuple[Array, Array, Array]:
    """(likelihood [case], slopes [case, column], expected [case, bin]) of log-linear Poisson counts, by Newton's method."""
    seen, size = used * counts, basis.shape[1]
    slopes = np.zeros((len(used), size))
    slopes[:, 0] = np.log(np.maximum(seen.sum(1), 1.0) / np.maximum(used.sum(1), 1))
    for _ in range(STEPS):
        expected = _expected(slopes, basis) * used
        curvature = (expected[:, None, :] * basis.T) @ basis
        curvature += RIDGE * np.trace(curvature, axis1=1, axis2=2)[:, None, None] * np.eye(size)
        step = np.linalg.solve(curvature, ((seen - expected) @ basis)[..., None])[..., 0]
        farthest = np.abs(step @ basis.T).max(1, keepdims=True)
        slopes += step * (LARGEST_STEP / np.maximum(farthest, LARGEST_STEP))
        if farthest.max() < LAST_STEP:
            break
    expected = _expected(slopes, basis)
    return (seen * np.log(expected) - used * expected).sum(1), slopes, expected


def _expected(slopes: Array, basis: Array) -> Array:
    return np.exp(np.clip(slopes @ basis.T, *LOGS))


def likelihood_of_spreads(counts: Array, y: Array) -> float:
    """The largest likelihood, as in `Tails`, of counts [bin] at y [bin] for normal values of any mixture of spreads.

    The density of y = log|s·normal| is r·exp(-r²/2) with r = eʸ/s; the weights of the spreads s by expectation-maximisation.
    """
    spreads = np.exp(np.arange(y[0] - math.log(3), y[-1] + SPREADS, SPREADS))
    r = np.exp(y) / spreads[:, None]
    parts = r * np.exp(-r * r / 2)
    parts /= parts.sum(1, keepdims=True)
    weights = np.full(len(parts), counts.sum() / len(parts))
    for _ in range(MIXING):
        weights *= parts @ (counts / (weights @ parts + TINY))
    expected = weights @ parts + TINY
    return float((counts * np.log(expected) - expected).sum())
