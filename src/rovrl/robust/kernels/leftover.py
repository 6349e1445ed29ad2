"""The blocks that the fast pass leaves over, and the element unit: rare work, in double, compiled when first needed."""

from __future__ import annotations

import math

import numpy as np

from rovrl.robust.kernels.jit import entry, helper, vectorised

SAMPLE = 31  # elements whose median starts the search
MAX_STEPS = 2400  # bisection of the whole double range, every other step near an end; seldom more than ten
ARRIVED = 1e-8  # a second-order step this short (in score widths) ends within rounding of the root


@vectorised
def _sums(x, u, inverse, far):
    """ΣP, ΣP', ΣP², ΣPP', ΣPw⁴ as in rows.py."""
    s0 = s1 = s2 = s3 = s4 = 0.0
    for i in range(x.size):
        r = (x[i] - u) * inverse
        r = far if r > far else r
        r = -far if r < -far else r
        w = 1.0 / math.sqrt(1.0 + r * r)
        p, w2 = r * w, w * w
        s0 += p
        s1 += w2 * w
        s2 += p * p
        s3 += p * w2 * w
        s4 += p * w2 * w2
    return s0, s1, s2, s3, s4


@helper
def _sample_median(x):
    sample = np.empty(SAMPLE)
    n = x.size if x.size < SAMPLE else SAMPLE
    for i in range(n):
        value = x[(i * x.size) // n]
        k = i
        while k > 0 and sample[k - 1] > value:
            sample[k] = sample[k - 1]
            k -= 1
        sample[k] = value
    return sample[n // 2]


@helper
def _inside(low, high, width, i):
    """A point of the bracket: the middle, or, as the root often hugs an end of a wide bracket, one near either end."""
    near = math.sqrt(width) * math.sqrt(high - low)
    if i % 2 == 0 or not near < 0.25 * (high - low):
        return 0.5 * low + 0.5 * high
    return low + near if i % 4 == 1 else high - near


@helper
def _bracketed(x, width, far, found):
    """Fills found with (u, ΣP', ΣP², ΣPP', ΣPw⁴) at the M-center: Newton inside the bracket [min, max]; NaN stays NaN."""
    low, high, finite = x[0], x[0], True
    for value in x:
        finite = finite and abs(value) < math.inf
        low = value if value < low else low
        high = value if value > high else high
    u = _sample_median(x) if finite else math.nan
    before, last = math.inf, math.inf
    for i in range(MAX_STEPS):
        sums = _sums(x, u, 1.0 / width, far)
        step = width * (sums[0] / sums[1])
        seen = sums[1] > 2.0 * x.size / (
            far * far * far
        )  # else no element is near enough for its slope to mean anything
        if sums[0] > 0:
            low = u
        else:
            high = u
        if (seen and u + step == u) or sums[0] == 0 or not high - low > 4e-16 * (abs(low) + abs(high)):
            break
        newton = seen and low <= u + step <= high and abs(step) <= 0.5 * before
        there = newton and abs(step) <= ARRIVED * width
        target = u + step if newton else _inside(low, high, width, i)
        before, last = last, abs(target - u)
        u = target
        if there:
            sums = _sums(x, u, 1.0 / width, far)
            break
    found[0], found[1], found[2], found[3], found[4] = u, sums[1], sums[2], sums[3], sums[4]


@entry
def solve_leftover(x, keep, begin, place, width, sizes, edges, far, state):
    """Solves the blocks that `solve_rows` marked with u = inf, from a copy of their elements in double."""
    for row in range(begin.size):
        for b in range(sizes.shape[1]):
            if sizes[row, b] > 0 and state[row, b, 0] == math.inf:
                values = np.empty(sizes[row, b])
                filled = 0
                for i in range(edges[row, b], edges[row, b + 1]):
                    if keep is None or keep[place[row] + i]:
                        values[filled] = x[begin[row] + i]
                        filled += 1
                _bracketed(values, width[row], far, state[row, b])


@vectorised
def _total_deviation(x, keep, mean):
    total = 0.0
    for i in range(x.size):
        if keep is None:
            total += abs(x[i] - mean)
        else:
            total += abs(x[i] - mean) if keep[i] else 0.0
    return total


@vectorised
def _total(x, keep):
    total = 0.0
    for i in range(x.size):
        if keep is None:
            total += x[i]
        else:
            total += x[i] if keep[i] else 0.0
    return total


@entry
def unit_rows(x, keep, begin, place, sizes, edges, least, unit):
    """Fills unit with √(π/2)·(mean absolute deviation), its median over the blocks, at least `least` (units="robust")."""
    ordered = np.empty(sizes.shape[1])
    for row in range(begin.size):
        used = 0
        while used < sizes.shape[1] and sizes[row, used] > 0:
            i, j, n = edges[row, used], edges[row, used + 1], sizes[row, used]
            elements = x[begin[row] + i : begin[row] + j]
            if keep is None:
                deviation = _total_deviation(elements, None, _total(elements, None) / n) / n
            else:
                held = keep[place[row] + i : place[row] + j]
                deviation = _total_deviation(elements, held, _total(elements, held) / n) / n
            k = used
            while k > 0 and ordered[k - 1] > deviation:
                ordered[k] = ordered[k - 1]
                k -= 1
            ordered[k] = deviation
            used += 1
        unit[row] = least
        if used > 0:
            middle = math.sqrt(0.5 * math.pi) * (0.5 * ordered[(used - 1) // 2] + 0.5 * ordered[used // 2])
            unit[row] = least if middle < least else middle  # a NaN stays
