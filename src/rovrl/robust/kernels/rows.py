"""The element passes of SoftRoVR, compiled: block centers with the sums that matter, and the gradient.

Per block one pass finds the mean and one sums the score and its derivatives there; from the sums follows, in double, the
short step to the M-center and the sums at it. In units of the score width, r = (x - u)/c and w = (1 + r²)^(-1/2),

    P = r w = c ψ_c,   P' = w³,   P'' = -3 P w⁴,   (P²)''/2 = 4 w⁶ - 3 w⁴.

The loops hold no branch and no constant of another type, and slices tell the compiler that no index is negative: so it
takes eight float32 elements at a time. `keep` is None for rows without holes (another compiled version), else their bytes.
"""

from __future__ import annotations

import math

from rovrl.robust.kernels.jit import entry, helper, vectorised

CHUNK = 2048  # elements summed in the elements' own precision before the sum moves to double
STEPS = 4  # ordinary blocks need one; what has not arrived then is solved in double


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
