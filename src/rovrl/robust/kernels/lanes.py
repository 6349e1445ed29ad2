"""Many short rows at once, compiled: M-centers (eq:block_m), the hard reference (eq:rovr), credit (eq:credit_advantage).

Rows stand side by side (lanes) in a [slot, lane] buffer, so that every loop runs along lanes that do not depend on each
other. A lane stops moving when its Newton step is at rounding level: its result does not depend on its neighbours. What has
not arrived after `STEPS` (huge outliers), or arrived where the score is so flat that a plain sum has lost its digits (a
middle gap of many widths), is solved again by `_exact`, one row at a time and for any data.
"""

from __future__ import annotations

import math

import numpy as np

from rovrl.robust.kernels.jit import entry, helper, vectorised

LANES = 128  # rows side by side; few enough that one slow row holds up few others
STEPS = 16
ARRIVED = 5e-6  # of a width: a second-order step this long ends within 4·ARRIVED³ = 5e-16 of the root
FAR = 1e60  # r beyond this is cut: P = ±1 to the last bit, and r² must not overflow, nor w⁵ underflow
FLAT = 1e-3  # mean P' from which ΣP is known to 1e-13 widths of u
MAX_STEPS = 200  # of `_exact`: far above need, about 6
NARROW = 1e-92  # in units of the middle gap: a width below this moves no root, and its cube must not underflow
ULP = 4 * 2.220446049250313e-16


@vectorised
def _widen(x, keep, low, high):
    """Widens [low, high] by one slot."""
    for i in range(x.size):
        lower, higher = x[i] < low[i], x[i] > high[i]
        if keep is not None:
            lower, higher = lower and keep[i] > 0, higher and keep[i] > 0
        low[i] = x[i] if lower else low[i]
        high[i] = x[i] if higher else high[i]


@vectorised
def _add(x, keep, low, total):
    for i in range(x.size):
        if keep is None:
            total[i] += x[i] - low[i]
        else:
            total[i] += (x[i] - low[i]) * keep[i]


@vectorised
def _accumulate(x, keep, u, inverse, score, slope, bend):
    """Adds P, P' and Pw⁴ of one slot to score, slope and bend; keep is None, or 1 and 0 per lane."""
    for i in range(x.size):
        r = (x[i] - u[i]) * inverse
        r = FAR if r > FAR else r
        r = -FAR if r < -FAR else r
        w = 1.0 / math.sqrt(1.0 + r * r)
        if keep is not None:
            w *= keep[i]
        score[i] += r * w
        slope[i] += w * w * w
        bend[i] += r * w * (w * w) * (w * w)


@vectorised
def _move(u, low, high, width, count, score, slope, bend, done):
    """One safeguarded step, of second order where it is short, of every lane that has not arrived (done = 1: has)."""
    for i in range(u.size):
        stay = done[i] > 0
        low[i] = u[i] if score[i] > 0 and not stay else low[i]
        high[i] = u[i] if score[i] < 0 and not stay else high[i]
        step = score[i] / slope[i]
        curved = step - 1.5 * (bend[i] / slope[i]) * step * step
        step = curved if abs(step) < 0.5 else step
        newton = u[i] + width * step
        inside = newton >= low[i] and newton <= high[i]
        target = newton if inside else 0.5 * low[i] + 0.5 * high[i]
        u[i] = u[i] if stay else target
        steep = slope[i] >= FLAT * count[i]
        done[i] = 1.0 if stay or (inside and steep and abs(step) <= ARRIVED) else 0.0


@vectorised
def _exact_sums(z, u, width):
    """A = Σ ψ/c and B = Σ ψ'/c as in rovrl.robust.solve.score_sums: of what is far, sides are counted and rests summed."""
    side, rest, slope = 0.0, 0.0, 0.0
    for i in range(z.size):
        d = z[i] - u
        s = math.sqrt(width * width + d * d)
        sign = 1.0 if d > width else -1.0 if d < -width else 0.0
        side += sign
        rest += -d / (s * (width * width)) if sign == 0 else sign / (s * (s + abs(d)))
        slope += 1.0 / (s * s * s)
    return side / (width * width) - rest, slope


@helper
def _exact(x, c):
    """The M-center of one row, eq:block_m, of any finite elements; NaN if one is not. Overwrites x.

    As rovrl.robust.solve: the distance from the median in units of g = max(c, half the middle gap), within c√n/2 of the
    two middle observations, by Newton inside that bracket.
    """
    n = x.size
    for i in range(n):
        if not abs(x[i]) < math.inf:
            return math.nan
    x.sort()
    lower, upper = x[(n - 1) // 2], x[n // 2]
    median = lower if lower == upper else 0.5 * lower + 0.5 * upper
    half_gap = 0.5 * upper - 0.5 * lower
    unit = c if c > half_gap else half_gap
    for i in range(n):
        x[i] = (x[i] - median) / unit
    width = c / unit if c / unit > NARROW else NARROW
    high = half_gap / unit + width * (0.5 * math.sqrt(n))
    low, u = -high, 0.0
    for _ in range(MAX_STEPS):
        score, slope = _exact_sums(x, u, width)
        if score == 0 or not high - low > 2 * ULP * (abs(low) + abs(high)):
            break
        low = u if score > 0 else low
        high = high if score > 0 else u
        step = score / slope
        arrived = abs(step) <= 1.5e-8 * slope ** (-1.0 / 3.0)
        u = u + step if arrived or low < u + step < high else 0.5 * low + 0.5 * high
        if arrived:
            break
    return median + unit * u


@helper
def _centers(x, keep, slots, count, width, u, work, row):
    """Fills u with the M-centers of the first lanes of x [slot, lane]; 0 of a lane that keeps nothing.

    Whole arrays come in and rows are cut here: of a cut array the compiler no longer knows that its rows are contiguous.
    """
    n = u.size
    done, low, high = work[0, :n], work[1, :n], work[2, :n]
    score, slope, bend = work[3, :n], work[4, :n], work[5, :n]
    low[:] = math.inf
    high[:] = -math.inf
    score[:] = 0.0
    if keep is None:
        for j in range(slots):
            _widen(x[j, :n], None, low, high)
        for j in range(slots):
            _add(x[j, :n], None, low, score)
    else:
        for j in range(slots):
            _widen(x[j, :n], keep[j, :n], low, high)
        for j in range(slots):
            _add(x[j, :n], keep[j, :n], low, score)
    for i in range(n):
        start = low[i] + score[i] / count[i]
        u[i] = start if low[i] <= start <= high[i] else 0.5 * low[i] + 0.5 * high[i]
        u[i] = 0.0 if count[i] == 0 else u[i]
        done[i] = 1.0 if score[i] == 0 or count[i] == 0 else 0.0  # all equal; a NaN among them is not
    for _ in range(STEPS):
        score[:] = 0.0
        slope[:] = 0.0
        bend[:] = 0.0
        for j in range(slots):
            if keep is None:
                _accumulate(x[j, :n], None, u, 1.0 / width, score, slope, bend)
            else:
                _accumulate(x[j, :n], keep[j, :n], u, 1.0 / width, score, slope, bend)
        _move(u, low, high, width, count[:n], score, slope, bend, done)
        if done.min() > 0:
            break
    for i in range(n):
        if not done[i] > 0:
            filled = 0
            for j in range(slots):
                if keep is None or keep[j, i] > 0:
                    row[filled] = x[j, i]
                    filled += 1
            u[i] = _exact(row[:filled], width)


@entry
def center_rows(x, keep, width, center):
    """Fills center[row] with the M-center of row x[row] (float32 or 64), eq:block_m; keep is None or the mask's bytes.

    No kept element: 0. A kept element that is not finite: NaN.
    """
    values, kept = np.empty((x.shape[1], LANES)), np.empty((x.shape[1], LANES))
    work, u, count, row = np.empty((6, LANES)), np.empty(LANES), np.empty(LANES), np.empty(x.shape[1])
    for first in range(0, x.shape[0], LANES):
        n = x.shape[0] - first if x.shape[0] - first < LANES else LANES
        count[:] = x.shape[1]
        for i in range(n):
            total = 0
            for j in range(x.shape[1]):
                values[j, i] = x[first + i, j]
                if keep is not None:
                    kept[j, i] = keep[first + i, j]
                    total += keep[first + i, j]
            if keep is not None:
                count[i] = total
        if keep is None:
            _centers(values, None, x.shape[1], count, width, u[:n], work, row)
        else:
            _centers(values, kept, x.shape[1], count, width, u[:n], work, row)
        center[first : first + n] = u[:n]


@vectorised
def _element_sums(x, u, inverse, far):
    """ΣP', ΣP², ΣPP', ΣPw⁴ as in rows.py."""
    s1 = s2 = s3 = s4 = 0.0
    for i in range(x.size):
        r = (x[i] - u) * inverse
        r = far if r > far else r
        r = -far if r < -far else r
        w = 1.0 / math.sqrt(1.0 + r * r)
        p, w2 = r * w, w * w
        s1 += w2 * w
        s2 += p * p
        s3 += p * w2 * w
        s4 += p * w2 * w2
    return s1, s2, s3, s4


@entry
def solve_leftover(x, keep, begin, place, width, sizes, edges, far, state):
    """Fills (u, ΣP', ΣP², ΣPP', ΣPw⁴) of the blocks that `solve_rows` of rows.py marked with u = inf."""
    for row in range(begin.size):
        for b in range(sizes.shape[1]):
            if sizes[row, b] > 0 and state[row, b, 0] == math.inf:
                values = np.empty(sizes[row, b])
                filled = 0
                for i in range(edges[row, b], edges[row, b + 1]):
                    if keep is None or keep[place[row] + i]:
                        values[filled] = x[begin[row] + i]
                        filled += 1
                found = state[row, b]
                found[0] = _exact(values.copy(), width[row])
                found[1], found[2], found[3], found[4] = _element_sums(values, found[0], 1.0 / width[row], far)


@vectorised
def _accumulate_sandwich(x, u, inverse, slope, square):
    for i in range(x.size):
        r = (x[i] - u[i]) * inverse
        r = FAR if r > FAR else r
        r = -FAR if r < -FAR else r
        w = 1.0 / math.sqrt(1.0 + r * r)
        slope[i] += w * w * w
        square[i] += (r * w) * (r * w)


@vectorised
def _exchange(a, b):
    """Puts the smaller of each pair of lanes into a."""
    for i in range(a.size):
        small, large = (a[i], b[i]) if a[i] < b[i] else (b[i], a[i])
        a[i] = small
        b[i] = large


@helper
def _median(values, ordered, middle):
    """Fills middle with the midpoint median of values [block, lane]; equal middles come back to the last bit."""
    blocks, n = values.shape[0], middle.size
    ordered[:] = values
    for turn in range(blocks):  # odd-even transposition: a fixed order of comparisons for all lanes
        for b in range(turn % 2, blocks - 1, 2):
            _exchange(ordered[b, :n], ordered[b + 1, :n])
    lower, upper = ordered[(blocks - 1) // 2], ordered[blocks // 2]
    for i in range(middle.size):
        middle[i] = lower[i] if lower[i] == upper[i] else 0.5 * lower[i] + 0.5 * upper[i]


@vectorised
def _count_steps(center, start, nu, root_n, offset, tie_tolerance, excess):
    """Adds J_0(μ_b - μ_0 - ν Δ_k/√n_b) - ½ to the excess, ties within the tolerance counting half."""
    for i in range(center.size):
        u = (center[i] - start[i]) - nu[i] / root_n * offset
        tie = tie_tolerance * nu[i] + ULP * (abs(center[i]) + abs(start[i]))
        step = 0.5 if u < 0 else -0.5
        excess[i] += 0.0 if abs(u) <= tie else step


@entry
def reference_rows(x, order, starts, offsets, constants, reference, nu, correction):
    """Fills reference[row] with RoVR(x[row]), eq:rovr, nu[row] with the pooled scale it used, and correction[row] with Ĉ_B.

    Block b holds the elements order[starts[b] : starts[b + 1]] (at least two blocks). `constants` are
    `ReferenceConstants`.
    """
    width, curvature_floor = constants.score_width, constants.curvature_floor
    scale_floor, scale_cap = constants.scale_floor, constants.scale_cap
    blocks = starts.size - 1
    values, work, row = np.empty((x.shape[1], LANES)), np.empty((6, LANES)), np.empty(x.shape[1])
    centers, scales = np.empty((blocks, LANES)), np.empty((blocks, LANES))
    ordered, count, start, excess = np.empty((blocks, LANES)), np.empty(LANES), np.empty(LANES), np.empty(LANES)
    roots = np.sqrt(np.diff(starts))
    weight = constants.density * roots.sum()
    for first in range(0, x.shape[0], LANES):
        n = x.shape[0] - first if x.shape[0] - first < LANES else LANES
        scale = nu[first : first + n]
        for b in range(blocks):
            size = starts[b + 1] - starts[b]
            for j in range(size):
                column = x[first : first + n, order[starts[b] + j]]
                for i in range(n):
                    values[j, i] = column[i]
            count[:] = size
            _centers(values, None, size, count, width, centers[b, :n], work, row)
            work[3] = 0.0
            work[4] = 0.0
            for j in range(size):
                _accumulate_sandwich(values[j, :n], centers[b, :n], 1.0 / width, work[3, :n], work[4, :n])
            area = size * width * width
            for i in range(n):
                curvature = work[3, i] / area
                floored = curvature if curvature > curvature_floor else curvature_floor
                scales[b, i] = math.sqrt(work[4, i] / area) / floored
        _median(centers, ordered, start[:n])
        if constants.given_scale > 0:
            scale[:] = constants.given_scale
        else:
            _median(scales, ordered, scale)
        for i in range(n):
            scale[i] = scale_floor if scale[i] < scale_floor else scale[i]
            scale[i] = scale_cap if scale[i] > scale_cap else scale[i]
        excess[:] = 0.0
        for b in range(blocks):
            for k in range(offsets.size):
                _count_steps(
                    centers[b, :n], start[:n], scale, roots[b], offsets[k], constants.tie_tolerance, excess[:n]
                )
        for i in range(n):
            moved = scale[i] / weight * excess[i]
            reference[first + i] = start[i] - moved
            correction[first + i] = abs(moved)


@vectorised
def _bounded(x, center, bound, out):
    """out = bound·r/√(1 + r²), r = (x - center)/bound; returns the largest magnitude."""
    largest = 0.0
    for i in range(x.size):
        r = (x[i] - center) / bound
        r = FAR if r > FAR else r
        r = -FAR if r < -FAR else r
        out[i] = bound * (r / math.sqrt(1.0 + r * r))
    for i in range(x.size):
        largest = abs(out[i]) if abs(out[i]) > largest else largest
    return largest


@entry
def bounded_rows(x, center, bound, floor, out, scale):
    """Fills out[row] with χ(x - center)/scale, χ bounded by `bound`, and scale[row] with √(floor² + mean χ²).

    Squares are taken relative to the largest (or to 1), so that none overflows.
    """
    for row in range(x.shape[0]):
        shaped = out[row]
        largest = _bounded(x[row], center[row], bound, shaped)
        total = 0.0
        if largest > 1.0:
            for value in shaped:
                total += value / largest * (value / largest)
        else:  # nothing can overflow, and a division by 1 changes nothing
            largest = 1.0
            for value in shaped:
                total += value * value
        divisor = largest * math.sqrt(total / shaped.size + floor / largest * (floor / largest))
        scale[row] = divisor
        for j in range(shaped.size):
            shaped[j] /= divisor
