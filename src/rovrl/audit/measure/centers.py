"""M-centers of many columns in NumPy (eq:block_m): the root u of Σ_i ψ_c(x_i - u) = 0, safeguarded for any finite numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrays import Array

MAX_STEPS = 200
"""Far above need; the bracket shrinks at every step, so the loop always ends."""
QUICK_STEPS = 2
"""Steps without a bracket, which is all that ordinary columns need."""
PIECE = 4096
"""Columns computed at a time: their numbers fit into the cache."""
ARRIVED = 5e-6
"""Of a width: a second-order step this long ends within 4·ARRIVED³ of the root, whatever the data."""
FAR = 1e60
"""Residuals beyond this many widths are cut: the score is ±1 to the last bit, and a square must not overflow."""
FEW = 6
"""Rows up to which they are sorted by exchanges."""
EPSILON = float(np.finfo(np.float64).eps)
LARGE = float(np.finfo(np.float64).max) / 8


def m_centers(x: Array, width: float) -> Array:
    """The M-center of each column of x [slot, column], finite and not empty; equal numbers give that number."""
    low, high = x.min(0), x.max(0)
    if max(high.max(initial=0.0), -low.min(initial=0.0)) > LARGE:
        return _at_an_eighth(x, width)
    u, arrived = np.empty_like(low), np.empty(len(low), dtype=bool)
    for first in range(0, len(u), PIECE):
        part = slice(first, first + PIECE)
        u[part], arrived[part] = _quick(x[:, part], width)
    rest = np.flatnonzero(~arrived & (low < high))
    if len(rest):
        u[rest] = _safeguarded(x[:, rest], low[rest], high[rest], width)
    return np.clip(u, low, high, out=u)


def _quick(x: Array, width: float) -> tuple[Array, NDArray[np.bool_]]:
    """A few second-order steps from the means on, and which columns have arrived."""
    u = step = x.mean(0)
    with np.errstate(all="ignore"):  # what overflows has not arrived
        for _ in range(QUICK_STEPS):
            score, slope, bend = _sums(*_scores(x, u, width))
            step = score / slope
            step -= 1.5 * (bend / slope) * step * step
            u = u + width * step
        return u, np.abs(step) <= ARRIVED


def _safeguarded(x: Array, low: Array, high: Array, width: float) -> Array:
    """The roots in the brackets [low, high], from the medians on."""
    u = medians(x)
    left, here = np.arange(len(u)), u
    for step in range(MAX_STEPS):
        here, low, high, done = _step(x, here, low, high, width, step)
        u[left] = here
        if done.any():
            rest = ~done
            left, x, here, low, high = left[rest], x[:, rest], here[rest], low[rest], high[rest]
        if not len(left):
            break
    return u


def medians(x: Array) -> Array:
    """The midpoint median of each column; equal middles come back to the last bit."""
    ordered = _sorted_few(x) if len(x) <= FEW else np.sort(x, axis=0)
    lower, upper = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return np.where(lower == upper, lower, 0.5 * lower + 0.5 * upper)


def _sorted_few(x: Array) -> list[Array]:
    """The rows of x with each column ascending: exchanges of whole rows beat sorting where there are few."""
    rows = list(x)
    for last in range(len(rows) - 1, 0, -1):
        for k in range(last):
            rows[k], rows[k + 1] = np.minimum(rows[k], rows[k + 1]), np.maximum(rows[k], rows[k + 1])
    return rows


def scores(x: Array, u: Array, width: float) -> tuple[Array, Array]:
    """P = r w and w = (1 + r²)^(-½) with r = (x - u)/c, for x [slot, column] and u [column]; nothing overflows."""
    with np.errstate(over="ignore"):
        return _scores(x, u, width, FAR)


def _scores(x: Array, u: Array, width: float, far: float | None = None) -> tuple[Array, Array]:
    r = x - u
    if width != 1:
        r /= width
    if far is not None and max(r.max(initial=0.0), -r.min(initial=0.0)) > far:
        np.clip(r, -far, far, out=r)
    w = r * r
    w += 1.0
    np.sqrt(w, out=w)
    np.divide(1.0, w, out=w)
    r *= w
    return r, w


def _sums(p: Array, w: Array) -> tuple[Array, Array, Array]:
    """ΣP, ΣP' = Σw³ and ΣPw⁴ of each column; P is used up."""
    square = w * w
    score = p.sum(0)
    p *= square
    return score, np.einsum("sg,sg->g", square, w), np.einsum("sg,sg->g", p, square)


def _step(
    x: Array, u: Array, low: Array, high: Array, width: float, step: int
) -> tuple[Array, Array, Array, NDArray[np.bool_]]:
    """One Newton step, of second order where it is short, or a bisection where it leaves the bracket; and who has arrived.

    Between two far clusters the score is flat, and what rounding leaves of it points anywhere: a step that leaves the bracket
    from a score at rounding level is not taken.
    """
    score, slope, bend = _sums(*scores(x, u, width))
    low, high = np.where(score > 0, u, low), np.where(score < 0, u, high)
    newton = score / slope
    curved = newton - 1.5 * (bend / slope) * newton * newton
    newton = np.where(np.abs(newton) < 0.5, curved, newton)
    target = u + width * newton
    inside = (target >= low) & (target <= high)
    flat = np.abs(score) <= EPSILON * len(x)
    closed = high - low <= 2 * EPSILON * (np.abs(low) + np.abs(high))
    stay = (score == 0) | (flat & ~inside)
    done = stay | closed | (inside & (np.abs(newton) <= ARRIVED))
    if not inside.all():
        target = np.where(inside, target, _bisection(low, high, width, step))
    return np.where(stay, u, target), low, high, done


def _bisection(low: Array, high: Array, width: float, step: int) -> Array:
    """A point of the bracket. Where it spans many widths the root hugs an end, so every other try is geometric there."""
    middle = 0.5 * low + 0.5 * high
    hop = np.sqrt(width) * np.sqrt(high - low)
    candidate = (middle, low + hop, middle, high - hop)[step % 4]
    return np.where((candidate > low) & (candidate < high), candidate, middle)


def _at_an_eighth(x: Array, width: float) -> Array:
    """The same where differences would overflow: solved at an eighth, which is exact."""
    return m_centers(x * 0.125, width * 0.125) * 8
