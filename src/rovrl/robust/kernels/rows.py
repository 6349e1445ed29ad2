"""SoftRoVR of long rows, compiled: where blocks lie, their centers and sums, the outer map, the gradient (eq:softrovr_ratio).

Blocks are balanced and contiguous over the valid elements in order. A block with holes is still a stretch of its row, in which
the holes weigh nothing: no element is ever moved. Per block one pass finds the mean and one sums the score and its derivatives
there; from the sums follows, in double, the short step to the M-center and the sums at it. In units of the score width,
r = (x - u)/c and w = (1 + r²)^(-1/2),

    P = r w = c ψ_c,   P' = w³,   P'' = -3 P w⁴,   (P²)''/2 = 4 w⁶ - 3 w⁴.

The element loops hold no branch and no constant of another type, and slices tell the compiler that no index is negative: so
they take eight float32 elements at a time. `keep` is None for rows without holes (another compiled version), else their bytes.
"""

from __future__ import annotations

import math

import numpy as np

from rovrl.robust.kernels.jit import entry, helper, vectorised

STRIDE = 64  # mask bytes looked at together
PARTIAL = 32768  # mask bytes a 16-bit counter can hold
CHUNK = 2048  # elements summed in the elements' own precision before the sum moves to double
STEPS = 4  # ordinary blocks need one; what has not arrived then is solved in double
LARGEST_UNIT = 1e300  # as in rovrl.robust.soft.eager


@vectorised
def _count(keep):
    count = 0
    for i in range(0, keep.size, PARTIAL):
        part = np.uint16(0)
        for flag in keep[i : i + PARTIAL]:
            part = np.uint16(part + flag)
        count += part
    return count


@helper
def _behind(keep, place, more):
    """The place just behind the next `more` kept elements from `place` on."""
    found = _count(keep[place : place + STRIDE])
    while found < more:
        place += STRIDE
        more -= found
        found = _count(keep[place : place + STRIDE])
    while more > 0:
        more -= keep[place]
        place += 1
    return place


@entry
def cut_rows(keep, place, length, num_blocks, min_block, sizes, edges, dense):
    """Fills per row n_b, the edges of its blocks, and whether it is free of holes; returns whether all rows are.

    Row i's mask is keep[place[i] : place[i] + length[i]]. B = min(num_blocks, T // min_block), at least 1, and the first
    T mod B blocks have one element more; blocks beyond B have size 0 and lie behind the last element.
    """
    all_dense = True
    for row in range(place.size):
        held = keep[place[row] : place[row] + length[row]]
        count = _count(held)
        edge = 0
        dense[row] = _count(held[:count]) == count  # right-padded, the usual case
        if not dense[row]:
            edge = _behind(held, 0, 1) - 1
            dense[row] = _count(held[edge : edge + count]) == count
            all_dense = all_dense and dense[row]
        used = count // min_block
        used = num_blocks if used > num_blocks else used
        used = 1 if used < 1 else used
        edges[row, 0] = edge
        for b in range(num_blocks):
            size = 0 if b >= used else count // used + (b < count % used)
            edge = edge + size if dense[row] else _behind(held, edge, size)
            sizes[row, b] = size
            edges[row, b + 1] = edge
    return all_dense


def cut_whole(length: np.ndarray, num_blocks: int, min_block: int) -> tuple[np.ndarray, np.ndarray]:
    """The same sizes and edges for rows without a mask, from their lengths alone."""
    used = np.clip(length // min_block, 1, num_blocks)[:, None]
    block = np.arange(num_blocks)
    sizes = np.where(block < used, length[:, None] // used + (block < length[:, None] % used), 0)
    edges = np.concatenate([np.zeros_like(length)[:, None], sizes.cumsum(1)], axis=1)
    return sizes, edges


@vectorised
def _total(x, keep, zero):
    total = zero
    for i in range(x.size):
        if keep is None:
            total += x[i]
        else:
            total += x[i] if keep[i] else zero
    return total


@vectorised
def _sums(x, keep, base, inverse, shift, far, one):
    """ΣP, ΣP', ΣP², ΣPP', ΣPw⁴, Σ(4w⁶ - 3w⁴) at u = base + c·shift."""
    zero = one - one
    three = one + one + one
    s0 = s1 = s2 = s3 = s4 = s5 = zero
    for i in range(x.size):
        r = (x[i] - base) * inverse - shift
        if keep is not None:
            r = r if keep[i] else zero  # a masked element may hold anything
        r = far if r > far else r
        r = -far if r < -far else r
        w = one / math.sqrt(one + r * r)
        if keep is not None:
            w = w if keep[i] else zero
        p, w2 = r * w, w * w
        w3, w4 = w2 * w, w2 * w2
        s0 += p
        s1 += w3
        s2 += p * p
        s3 += p * w3
        s4 += p * w4
        s5 += w4 * (w2 + three * (w2 - one))
    return s0, s1, s2, s3, s4, s5


@helper
def _center(x, keep, count, width, far, short, rounding, found):
    """Fills found with (u, ΣP', ΣP², ΣPP', ΣPw⁴) at the M-center u, eq:block_m; False if that takes more than this.

    The second-order step t lands within 4|t|³ of the root, whatever the data. It is taken as the last one if |t| ≤ short
    and t³ is below the rounding of mean P², so that the sums follow by their Taylor series too. A flat score (mean P'
    below 0.02, where float32 sums no longer see the root) or a long step is left to the solver in double.
    """
    typed = x.dtype.type
    total = 0.0
    for i in range(0, x.size, CHUNK):
        if keep is None:
            total += _total(x[i : i + CHUNK], None, typed(0))
        else:
            total += _total(x[i : i + CHUNK], keep[i : i + CHUNK], typed(0))
    u = total / count
    for _ in range(STEPS):
        base = typed(u)
        inverse, shift = typed(1.0 / width), typed((u - base) / width)
        s0, s1, s2, s3, s4, s5 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for i in range(0, x.size, CHUNK):
            if keep is None:
                part = _sums(x[i : i + CHUNK], None, base, inverse, shift, typed(far), typed(1))
            else:
                part = _sums(x[i : i + CHUNK], keep[i : i + CHUNK], base, inverse, shift, typed(far), typed(1))
            s0, s1, s2 = s0 + part[0], s1 + part[1], s2 + part[2]
            s3, s4, s5 = s3 + part[3], s4 + part[4], s5 + part[5]
        newton = s0 / s1
        step = newton - 1.5 * (s4 / s1) * newton * newton
        length = abs(step)
        if not (s1 >= 0.02 * count and length <= 0.5):
            return False
        u += step * width
        if length <= short and length * length * length <= rounding * (s2 / count) + rounding * rounding * rounding:
            square = s2 - 2.0 * step * s3 + step * step * s5
            found[0], found[1], found[2] = u, s1 + 3.0 * step * s4, square if square > 0 else 0.0
            found[3], found[4] = s3 - step * s5, s4
            return True
    return False


@entry
def solve_rows(x, keep, begin, place, length, width, sizes, edges, limits, state):
    """Fills per block (u, ΣP', ΣP², ΣPP', ΣPw⁴); u = inf marks those left to the solver in double; how many those are.

    Row i is x[begin[i] : begin[i] + length[i]], its mask keep[place[i] : ...]. `limits` is (far, short, rounding) for the
    precision of x.
    """
    far, short, rounding = limits
    left = 0
    for row in range(begin.size):
        elements = x[begin[row] : begin[row] + length[row]]
        for b in range(sizes.shape[1]):
            i, j, n = edges[row, b], edges[row, b + 1], sizes[row, b]
            if n == 0:
                break
            if keep is None:
                good = _center(elements[i:j], None, n, width[row], far, short, rounding, state[row, b])
            else:
                held = keep[place[row] + i : place[row] + j]
                good = _center(elements[i:j], held, n, width[row], far, short, rounding, state[row, b])
            if not good:
                state[row, b, 0] = math.inf
                left += 1
    return left


@vectorised
def _mean(x, keep, share):
    """Σ x/n, divided first: a sum of large numbers must not overflow."""
    total = 0.0
    for i in range(x.size):
        if keep is None:
            total += x[i] * share
        else:
            total += x[i] * share if keep[i] else 0.0
    return total


@vectorised
def _deviation(x, keep, share, mean):
    total = 0.0
    for i in range(x.size):
        if keep is None:
            total += abs(x[i] * share - mean * share)
        else:
            total += abs(x[i] * share - mean * share) if keep[i] else 0.0
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
                deviation = _deviation(elements, None, 1.0 / n, _mean(elements, None, 1.0 / n))
            else:
                held = keep[place[row] + i : place[row] + j]
                deviation = _deviation(elements, held, 1.0 / n, _mean(elements, held, 1.0 / n))
            k = used
            while k > 0 and ordered[k - 1] > deviation:
                ordered[k] = ordered[k - 1]
                k -= 1
            ordered[k] = deviation
            used += 1
        unit[row] = least
        if used > 0:
            middle = math.sqrt(0.5 * math.pi) * (0.5 * ordered[(used - 1) // 2] + 0.5 * ordered[used // 2])
            middle = LARGEST_UNIT if middle > LARGEST_UNIT else middle
            unit[row] = least if middle < least else middle  # a NaN stays


@helper
def _weights(values, used, u, width, weights):
    """Fills `weights` with the derivative of the smooth median u of values, P'_b/ΣP', which sums to one."""
    nearest, total = math.inf, 0.0
    for b in range(used):
        weights[b] = math.hypot(0.25 * width, 0.25 * values[b] - 0.25 * u)  # a quarter: no difference overflows
        nearest = weights[b] if weights[b] < nearest else nearest
    for b in range(used):
        weights[b] = (nearest / weights[b]) ** 3.0
        total += weights[b]
    for b in range(used):
        weights[b] /= total


@helper
def _outer(centers, scales, start, pooled, work, sizes, used, offsets, constants):
    """SoftRoVR of several blocks: eq:rovr with smooth medians and H_γ, from centers, capped scales and their smooth medians.

    Fills ∂value/∂center (work[0]) and ∂value/∂scale (work[1]). With h = H(1 - H)/γ summed over the levels, s = ν/(D_K W_B):
        ∂/∂μ_b = s h_b + (1 - s Σh) ∂μ_0/∂μ_b,    ∂/∂ν = -Σ(H - τ)/(D_K W_B) - s Σ h Δ_k/√n_b.
    """
    temperature, scale_floor, scale_cap = constants.temperature, constants.scale_floor, constants.scale_cap
    by_center, by_scale, steepness = work[0], work[1], work[4]
    _weights(centers, used, start, constants.median_width, by_center)
    _weights(scales, used, pooled, constants.median_width, by_scale)
    nu = scale_floor if pooled < scale_floor else pooled
    nu = scale_cap if nu > scale_cap else nu
    weight, excess, pull, steep = 0.0, 0.0, 0.0, 0.0
    for b in range(used):
        root_n = math.sqrt(sizes[b])
        total = 0.0
        for k in range(offsets.size):
            away = offsets[k] / root_n
            z = (centers[b] - start - nu * away) / temperature
            small = math.exp(-abs(z))
            step = 1.0 / (1.0 + small)
            h = small * step * step / temperature
            excess += small * step if z > 0 else step
            total += h
            pull += h * away
        excess -= 0.5 * offsets.size
        weight += root_n
        steep += total
        steepness[b] = total
    weight = constants.density * weight + constants.regularizer
    share = nu / weight
    by_nu = -excess / weight - share * pull if scale_floor <= pooled <= scale_cap else 0.0
    for b in range(used):
        by_center[b] = share * steepness[b] + (1.0 - share * steep) * by_center[b]
        by_scale[b] *= by_nu
    return start - share * excess


@entry
def outer_rows(sizes, state, unit, centers, scales, start, pooled, offsets, constants, work, value, coefficients):
    """Fills value[row] and coefficients[row, block] = (center, α, β, γ); a row without an element has value 0.

    `centers` and capped `scales` are in the row's `unit`, `start` and `pooled` are their smooth medians (eq:smooth_median),
    `offsets` are Δ_1..K, `constants` are `SoftConstants`, `work` is scratch [5, block].
    """
    curvature_floor, regularizer = constants.curvature_floor, constants.regularizer
    scale_cap, score_width = constants.scale_cap, constants.score_width
    by_center, by_scale, by_square, by_slope = work[0], work[1], work[2], work[3]
    for row in range(sizes.shape[0]):
        used = 0
        while used < sizes.shape[1] and sizes[row, used] > 0:
            area = sizes[row, used] * score_width * score_width
            curvature, root = state[row, used, 1] / area, math.sqrt(state[row, used, 2] / area)
            bent = curvature > curvature_floor
            floored = (curvature if bent else curvature_floor) + regularizer
            scale = root / floored  # ν_b = √b/(a ∨ a_min)
            capped = scale > scale_cap
            by_square[used] = 0.0 if capped or root == 0 else 1.0 / (area * score_width * root * floored)
            by_slope[used] = 3.0 * scale / (area * score_width * floored) if bent and not capped else 0.0
            used += 1
        by_center[0], by_scale[0] = 1.0, 0.0
        value[row] = state[row, 0, 0] if used == 1 else 0.0
        if used > 1:
            medians = start[row], pooled[row]
            value[row] = unit[row] * _outer(
                centers[row], scales[row], *medians, work, sizes[row], used, offsets, constants
            )
        for b in range(used):
            mixed, second = by_scale[b] * by_square[b], by_scale[b] * by_slope[b]
            through = by_center[b] - mixed * state[row, b, 3] - second * state[row, b, 4]
            coefficients[row, b, 0], coefficients[row, b, 1] = state[row, b, 0], through / state[row, b, 1]
            coefficients[row, b, 2], coefficients[row, b, 3] = mixed, second


@vectorised
def _write_gradient(x, keep, out, base, inverse, shift, far, one, first, mixed, second):
    """out_i = first·P'_i + mixed·P_i P'_i + second·P_i w_i⁴; 0 where masked."""
    zero = one - one
    for i in range(x.size):
        r = (x[i] - base) * inverse - shift
        if keep is not None:
            r = r if keep[i] else zero
        r = far if r > far else r
        r = -far if r < -far else r
        w = one / math.sqrt(one + r * r)
        if keep is not None:
            w = w if keep[i] else zero
        p, w2 = r * w, w * w
        out[i] = w2 * (w * (first + mixed * p) + second * p * w2)


@entry
def gradient_rows(x, keep, begin, place, length, width, edges, limits, coefficients, grad, out):
    """Fills out with grad[row]·∂value/∂element, (α P' + β PP' + γ Pw⁴) by block and 0 elsewhere: one pass.

    Rows as in `solve_rows`; `out` is laid out like the mask; coefficients[row, block] is (center, α, β, γ).
    """
    typed = x.dtype.type
    far, one = typed(limits[0]), typed(1)
    for row in range(begin.size):
        elements = x[begin[row] : begin[row] + length[row]]
        written = out[place[row] : place[row] + length[row]]
        written[: edges[row, 0]] = 0
        written[edges[row, -1] :] = 0
        inverse = typed(1.0 / width[row])
        for b in range(edges.shape[1] - 1):
            i, j = edges[row, b], edges[row, b + 1]
            if i == j:
                break
            u, scale = coefficients[row, b, 0], grad[row]
            first, mixed, second = coefficients[row, b, 1], coefficients[row, b, 2], coefficients[row, b, 3]
            base = typed(u)
            shift = typed((u - base) / width[row])
            factors = typed(scale * first), typed(scale * mixed), typed(scale * second)
            if keep is None:
                _write_gradient(elements[i:j], None, written[i:j], base, inverse, shift, far, one, *factors)
            else:
                held = keep[place[row] + i : place[row] + j]
                _write_gradient(elements[i:j], held, written[i:j], base, inverse, shift, far, one, *factors)
