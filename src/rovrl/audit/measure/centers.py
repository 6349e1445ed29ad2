"""M-centers of many columns in NumPy (eq:block_m): the root u of Σ_i ψ_c(x_i - u) = 0, safeguarded for any finite numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rovrl.audit.arrays import Array, pieces, widest

MAX_STEPS = 200
"""Far above need; the bracket shrinks at every step, so the loop always ends."""
STEPS, STEPS_FROM_MEDIAN = 2, 4
"""Steps without a bracket: all that ordinary columns need from their means on, and columns with an outlier from the medians."""
ARRIVED = 5e-6
"""Of a width: a second-order step this long ends within 4·ARRIVED³ of the root, whatever the data."""
SHORT = 1e-13
"""Of the mean square of the scores: what a squared step, left out of the sums, may be."""
FAR = 1e60
"""Residuals beyond this many widths are cut: the score is ±1 to the last bit, and a square must not overflow. Only the steps
with a bracket do so: a column this wide is left to them."""
FEW, MANY = 6, 64
"""Rows up to which they are sorted by exchanges, and copied one by one."""
EPSILON = float(np.finfo(np.float64).eps)
LARGE = float(np.finfo(np.float64).max) / 8


Work = Sequence[NDArray[Any]] | Array
"""Three arrays like x to compute in: memory that is used again is in the cache."""


class Solved(NamedTuple):
    """The M-center of each column, and the sums ΣP² and Σw³ of the scores about it."""

    center: Array
    square: Array
    slope: Array


def m_centers(x: Array, width: float, members: list[int] | slice = slice(None)) -> Solved:
    """The M-center of each column of x [slot, column] over some of its rows; equal numbers give that number.

    The numbers are finite, and there is at least one. Columns are solved in pieces; the few that a piece leaves over, all
    together.
    """
    rows, count = np.arange(len(x))[members], x.shape[1]
    n = len(rows)
    found, work = Solved(*np.empty((3, count))), np.empty((4, n, widest(count, n)))
    low, high, left = np.empty(count), np.empty(count), np.empty(count, dtype=bool)
    for part in pieces(count, n):
        piece, *rest = work[:, :, : part.stop - part.start]
        _copy(x, rows, part, piece)
        piece.min(0, out=low[part])
        piece.max(0, out=high[part])
        if max(high[part].max(), -low[part].min()) > LARGE:
            return _at_an_eighth(x[rows], width)
        with np.errstate(over="ignore"):
            mean = piece.sum(0) / n
        left[part] = _quick(piece, mean, width, STEPS, Solved(*(column[part] for column in found)), rest)
    np.clip(found.center, low, high, out=found.center)
    tied = low == high
    found.square[tied], found.slope[tied] = 0.0, n
    again = np.flatnonzero((left | (high - low > FAR * width)) & ~tied)
    if len(again):
        _solve_again(x[rows[:, None], again], low[again], high[again], width, again, found)
    return found


def _copy(x: Array, rows: NDArray[np.int64], part: slice, out: Array) -> None:
    """Some rows of a piece of x: one by one where there are few, without memory for a copy of them."""
    if len(rows) > MANY:
        out[:] = x[rows, part]
        return
    for k, row in enumerate(rows.tolist()):
        out[k] = x[row, part]


def _quick(x: Array, u: Array, width: float, steps: int, found: Solved, work: Work) -> NDArray[np.bool_]:
    """A few second-order steps from u on, which is used up, written into `found`; which columns have not arrived.

    The last step is so short that the sums at its end are those at its beginning and their derivatives times the step, except
    where the square of a step would be seen. The steps before it are taken in single precision: what that leaves is shorter.
    """
    rough = [some.view(np.float32)[:, : len(u)] for some in work]
    with np.errstate(all="ignore"):  # what overflows has not arrived
        for _ in range(steps - 1):
            u += width * _second_order(*_sums(*_scores(x, u, width, rough)))
        p, w, v = _scores(x, u, width, work)
        square = np.einsum("sg,sg->g", p, p)
        score, slope, bend = _sums(p, w, v)
        step = _second_order(score, slope, bend)
        np.add(u, width * step, out=found.center)
        np.subtract(square, 2 * step * np.einsum("sg,sg->g", p, w), out=found.square)
        np.add(slope, 3 * step * bend, out=found.slope)
        return ~((np.abs(step) <= ARRIVED) & (len(x) * step * step <= SHORT * square))


def _second_order(score: Array, slope: Array, bend: Array) -> Array:
    """The step of second order towards the root, in widths."""
    step = score / slope
    bend = bend / slope
    bend *= 1.5
    bend *= step
    bend *= step
    step -= bend
    return step


def _solve_again(x: Array, low: Array, high: Array, width: float, place: NDArray[np.int64], found: Solved) -> None:
    """Puts the roots of columns with different numbers, from the medians on, and their sums in their places."""
    better = Solved(*np.empty((3, len(low))))
    left = _quick(x, medians(x), width, STEPS_FROM_MEDIAN, better, np.empty((3, *x.shape))) | (high - low > FAR * width)
    np.clip(better.center, low, high, out=better.center)
    rest = np.flatnonzero(left)
    if len(rest):
        center = np.clip(_safeguarded(x[:, rest], low[rest], high[rest], width), low[rest], high[rest])
        p, w, v = scores(x[:, rest], center, width)
        better.center[rest], better.square[rest] = center, np.einsum("sg,sg->g", p, p)
        better.slope[rest] = np.einsum("sg,sg->g", v, w)
    for column, values in zip(found, better, strict=True):
        column[place] = values


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


def scores(x: Array, u: Array, width: float) -> tuple[Array, Array, Array]:
    """P = r w, w = (1 + r²)^(-½) and w² with r = (x - u)/c, for x [slot, column] and u [column]; nothing overflows."""
    with np.errstate(over="ignore"):
        return _scores(x, u, width, np.empty((3, *x.shape)), FAR)


def _scores(x: Array, u: Array, width: float, work: Work, far: float | None = None) -> tuple[Array, Array, Array]:
    """The same in place of what is in `work`; where a square overflows it is wrong, unless residuals are cut at `far`."""
    r, w, square = work
    np.subtract(x, u, out=r, casting="same_kind")
    if width != 1:
        r /= width
    if far is not None and max(r.max(initial=0.0), -r.min(initial=0.0)) > far:
        np.clip(r, -far, far, out=r)
    np.multiply(r, r, out=square)
    square += 1.0
    np.divide(1.0, square, out=square)
    np.sqrt(square, out=w)
    r *= w
    return r, w, square


def _sums(p: Array, w: Array, square: Array) -> tuple[Array, Array, Array]:
    """ΣP, ΣP' = Σw³ and ΣPw⁴ of each column; P becomes Pw²."""
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


def _at_an_eighth(x: Array, width: float) -> Solved:
    """The same where differences would overflow: solved at an eighth, which is exact."""
    center, square, slope = m_centers(x * 0.125, width * 0.125)
    return Solved(center * 8, square, slope)
