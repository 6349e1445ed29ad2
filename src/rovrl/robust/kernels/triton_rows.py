"""SoftRoVR for CUDA in Triton: the same steps as rows.py, one program per row or block.

All arithmetic is in double, so that one solver takes any data; nothing is read back to the host. Tested through Triton's
interpreter (TRITON_INTERPRET=1) against the eager path; no GPU has run it yet.
"""

# pyright: reportMissingImports=false, reportOperatorIssue=false, reportAttributeAccessIssue=false, reportGeneralTypeIssues=false

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _hypot(d, c):
    """√(c² + d²) without overflow."""
    large, small = tl.maximum(tl.abs(d), c), tl.minimum(tl.abs(d), c)
    return large * tl.sqrt(1.0 + small / large * (small / large))


@triton.jit
def _score_and_slope(side, rest, slope, h, c):
    """Σψ_c and Σψ_c' but for a common factor, and so that the first over the second, times h, is the Newton step."""
    one = h / c
    return tl.where(side == 0.0, 0.0, side * one * one) - rest, slope


@triton.jit
def cut_kernel(
    keep,
    place,
    length,
    sizes,
    edges,
    num_blocks,
    min_block,
    LANES: tl.constexpr,
    MASKED: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """Per row: n_b and the edges of its blocks, contiguous over the kept elements."""
    row = tl.program_id(0)
    start, n = tl.load(place + row), tl.load(length + row)
    lane, index = tl.arange(0, LANES), tl.arange(0, CHUNK)
    count = n
    if MASKED:
        count = n * 0
        for i in range(0, n, CHUNK):
            count += tl.sum(tl.load(keep + start + i + index, mask=i + index < n, other=0).to(tl.int64))
    used = tl.minimum(tl.maximum(count // min_block, 1), num_blocks)
    size = tl.where(lane < used, count // used + (lane < count % used).to(tl.int64), 0)
    edge, first = tl.cumsum(size, 0), n * 0
    if MASKED:
        target, seen, first, edge = edge, n * 0, n, edge * 0
        for i in range(0, n, CHUNK):
            held = tl.load(keep + start + i + index, mask=i + index < n, other=0).to(tl.int64)
            rank = tl.where(held > 0, seen + tl.cumsum(held, 0), -1)
            behind = tl.where(rank[:, None] == target[None, :], (i + index + 1)[:, None], 0)
            edge = tl.maximum(edge, tl.max(behind, 0))
            first = tl.minimum(first, tl.min(tl.where(held > 0, i + index, n), 0))
            seen += tl.sum(held)
    first = tl.where(count > 0, first, 0)
    tl.store(sizes + row * num_blocks + lane, size, mask=lane < num_blocks)
    tl.store(edges + row * (num_blocks + 1), first)
    tl.store(edges + row * (num_blocks + 1) + 1 + lane, edge, mask=lane < num_blocks)


@triton.jit
def _load(x, keep, at, held_at, index, stop, MASKED: tl.constexpr):
    """A chunk of elements in double, and which of them count."""
    held = index < stop
    if MASKED:
        held = held & (tl.load(keep + held_at + index, mask=held, other=0) > 0)
    return tl.load(x + at + index, mask=held, other=0.0).to(tl.float64), held


@triton.jit
def _weights(x, held, u, width, far):
    """P and w of the residuals, 0 where not held."""
    r = (x - u) / width
    r = tl.minimum(tl.maximum(r, -far), far)
    w = tl.where(held, 1.0 / tl.sqrt(1.0 + r * r), 0.0)
    return r * w, w


@triton.jit
def deviation_kernel(x, keep, begin, place, sizes, edges, out, num_blocks, MASKED: tl.constexpr, CHUNK: tl.constexpr):
    """Per block: the mean absolute deviation from the mean."""
    row, b = tl.program_id(0), tl.program_id(1)
    at, held_at, n = tl.load(begin + row), tl.load(place + row), tl.load(sizes + row * num_blocks + b)
    i0 = tl.load(edges + row * (num_blocks + 1) + b)
    i1 = tl.load(edges + row * (num_blocks + 1) + b + 1)
    index, count = tl.arange(0, CHUNK), tl.maximum(n, 1).to(tl.float64)
    total = count * 0.0
    for i in range(i0, i1, CHUNK):
        values, _ = _load(x, keep, at, held_at, i + index, i1, MASKED)
        total += tl.sum(values)
    mean, deviation = total / count, count * 0.0
    for i in range(i0, i1, CHUNK):
        values, held = _load(x, keep, at, held_at, i + index, i1, MASKED)
        deviation += tl.sum(tl.where(held, tl.abs(values - mean), 0.0))
    tl.store(out + row * num_blocks + b, deviation / count)


@triton.jit
def solve_kernel(
    x, keep, begin, place, width, sizes, edges, state, num_blocks, far, STEPS: tl.constexpr, MASKED: tl.constexpr,
    CHUNK: tl.constexpr,
):  # fmt: skip
    """Per block (u, ΣP', ΣP², ΣPP', ΣPw⁴) at the M-center: Newton inside the bracket [min, max], eq:block_m."""
    row, b = tl.program_id(0), tl.program_id(1)
    at, held_at, c = tl.load(begin + row), tl.load(place + row), tl.load(width + row)
    n = tl.load(sizes + row * num_blocks + b)
    i0 = tl.load(edges + row * (num_blocks + 1) + b)
    i1 = tl.load(edges + row * (num_blocks + 1) + b + 1)
    index, count = tl.arange(0, CHUNK), tl.maximum(n, 1).to(tl.float64)
    mean, low, high = count * 0.0, count * 0.0 + float("inf"), count * 0.0 - float("inf")
    for i in range(i0, i1, CHUNK):
        values, held = _load(x, keep, at, held_at, i + index, i1, MASKED)
        mean += tl.sum(values / count)
        low = tl.minimum(low, tl.min(tl.where(held, values, float("inf"))))
        high = tl.maximum(high, tl.max(tl.where(held, values, -float("inf"))))
    u, step, quarter = 0.25 * mean, 0, 0.25 * c  # a quarter of everything: no difference overflows
    low, high = 0.25 * low, 0.25 * high
    while step < STEPS:
        # in units of the s of the nearest element so far, as the ones of both sides cancel and the rests are what is left
        h, side, rest, slope = count * 0.0 + float("inf"), count * 0.0, count * 0.0, count * 0.0
        for i in range(i0, i1, CHUNK):
            values, held = _load(x, keep, at, held_at, i + index, i1, MASKED)
            d = 0.25 * values - u
            s = tl.where(held, _hypot(d, quarter), float("inf"))
            nearest = tl.minimum(h, tl.min(s))
            shrink = tl.where(nearest < h, nearest / h, 1.0)
            near = tl.where(held, nearest / s, 0.0)
            sign = tl.where(held, tl.where(d > 0.0, 1.0, tl.where(d < 0.0, -1.0, 0.0)), 0.0)
            side += tl.sum(sign)
            rest = shrink * shrink * rest + tl.sum(sign * near * (nearest / (s + tl.abs(d))))
            slope = shrink * shrink * shrink * slope + tl.sum(near * near * near)
            h = nearest
        score, slope = _score_and_slope(side, rest, slope, h, quarter)
        low, high = tl.where(score > 0, u, low), tl.where(score < 0, u, high)
        move = h * (score / slope)
        inside = ((u + move > low) & (u + move < high)) | (tl.abs(move) <= 1e-8 * h)
        hop = tl.sqrt(quarter) * tl.sqrt(high - low)
        end = tl.where(step % 4 == 1, low + hop, high - hop)
        split = tl.where((step % 2 == 1) & (hop < 0.25 * (high - low)), end, 0.5 * low + 0.5 * high)
        closed = (score == 0) | (score != score) | (high - low <= 4e-16 * (tl.abs(low) + tl.abs(high)))
        u = tl.where(closed, u, tl.where(inside, u + move, split))
        step = tl.where(closed | (tl.abs(move) <= 1e-8 * h) | (n == 0), STEPS, step + 1)
    u = 4.0 * u
    s1, s2, s3, s4 = count * 0.0, count * 0.0, count * 0.0, count * 0.0
    for i in range(i0, i1, CHUNK):
        values, held = _load(x, keep, at, held_at, i + index, i1, MASKED)
        p, w = _weights(values, held, u, c, far)
        s1 += tl.sum(w * w * w)
        s2 += tl.sum(p * p)
        s3 += tl.sum(p * w * w * w)
        s4 += tl.sum(p * w * w * w * w)
    at = state + (row * num_blocks + b) * 5
    tl.store(at, u)
    tl.store(at + 1, s1)
    tl.store(at + 2, s2)
    tl.store(at + 3, s3)
    tl.store(at + 4, s4)


@triton.jit
def gradient_kernel(
    x,
    keep,
    begin,
    place,
    width,
    edges,
    coefficients,
    grad,
    out,
    num_blocks,
    far,
    MASKED: tl.constexpr,
    CHUNK: tl.constexpr,
):
    """grad·(α P' + β PP' + γ Pw⁴) of one block's elements; the caller has zeroed the rest."""
    row, b = tl.program_id(0), tl.program_id(1)
    at, held_at, c, scale = tl.load(begin + row), tl.load(place + row), tl.load(width + row), tl.load(grad + row)
    i0 = tl.load(edges + row * (num_blocks + 1) + b)
    i1 = tl.load(edges + row * (num_blocks + 1) + b + 1)
    factors = coefficients + (row * num_blocks + b) * 4
    u, first, mixed, second = tl.load(factors), tl.load(factors + 1), tl.load(factors + 2), tl.load(factors + 3)
    index = tl.arange(0, CHUNK)
    for i in range(i0, i1, CHUNK):
        values, held = _load(x, keep, at, held_at, i + index, i1, MASKED)
        p, w = _weights(values, held, u, c, far)
        value = scale * (w * w) * (w * (first + mixed * p) + second * p * w * w)
        tl.store(out + held_at + i + index, value, mask=held)


@triton.jit
def _smooth_median(values, used, width, STEPS: tl.constexpr):
    """smed_η of the used lanes and its derivative, eq:smooth_median; the rests 1 - |P| are summed apart, in units of the
    nearest lane's s, as in `solve_kernel`. A quarter of everything: no difference overflows."""
    x, c = 0.25 * values, 0.25 * width
    count = tl.sum(used.to(tl.float64))
    low, high = tl.min(tl.where(used, x, float("inf"))), tl.max(tl.where(used, x, -float("inf")))
    u, step = tl.sum(tl.where(used, x / count, 0.0)), 0
    while step < STEPS:
        d = x - u
        s = tl.where(used, _hypot(d, c), float("inf"))
        h = tl.min(s)
        sign = tl.where(used, tl.where(d > 0.0, 1.0, tl.where(d < 0.0, -1.0, 0.0)), 0.0)
        near = h / s
        rest, cube = sign * near * (h / (s + tl.abs(d))), near * near * near
        score, slope = _score_and_slope(tl.sum(sign), tl.sum(rest), tl.sum(cube), h, c)
        low, high = tl.where(score > 0, u, low), tl.where(score < 0, u, high)
        move = h * (score / slope)
        inside = ((u + move > low) & (u + move < high)) | (tl.abs(move) <= 1e-8 * h)
        closed = (score == 0) | (score != score) | (high - low <= 4e-16 * (tl.abs(low) + tl.abs(high)))
        u = tl.where(closed, u, tl.where(inside, u + move, 0.5 * low + 0.5 * high))
        step = tl.where(closed | (tl.abs(move) <= 1e-8 * h), STEPS, step + 1)
    s = tl.where(used, _hypot(x - u, c), float("inf"))
    share = tl.min(s) / s
    weight = share * share * share
    return 4.0 * u, weight / tl.sum(weight)


@triton.jit
def outer_kernel(
    sizes, state, unit, offsets, constants, value, coefficients, num_blocks, num_levels, LANES: tl.constexpr,
    LEVELS: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    """Per row the value and per block (center, α, β, γ); `constants` points to `SoftConstants` as an array."""
    row, lane, level = tl.program_id(0), tl.arange(0, LANES), tl.arange(0, LEVELS)
    exists = lane < num_blocks
    n = tl.load(sizes + row * num_blocks + lane, mask=exists, other=0)
    used, at = n > 0, state + (row * num_blocks + lane) * 5
    center = tl.load(at, mask=used, other=0.0)
    slope = tl.load(at + 1, mask=used, other=1.0)
    square = tl.load(at + 2, mask=used, other=0.0)
    mixed_sum = tl.load(at + 3, mask=used, other=0.0)
    bend_sum = tl.load(at + 4, mask=used, other=0.0)
    density, score_width = (
        tl.load(constants),
        tl.load(constants + 1),
    )  # float arguments would arrive in single precision
    temperature, median_width = tl.load(constants + 2), tl.load(constants + 3)
    curvature_floor, scale_floor = tl.load(constants + 4), tl.load(constants + 5)
    scale_cap, regularizer = tl.load(constants + 6), tl.load(constants + 7)
    row_unit = tl.load(unit + row)

    size = tl.maximum(n, 1).to(tl.float64)
    area = size * score_width * score_width
    curvature, root = slope / area, tl.sqrt(square / area)
    bent = curvature > curvature_floor
    floored = tl.maximum(curvature, curvature_floor) + regularizer
    scale = root / floored
    free = (scale <= scale_cap) & used
    by_square = tl.where(free & (root > 0), 1.0 / (area * score_width * tl.where(root > 0, root, 1.0) * floored), 0.0)
    by_slope = tl.where(free & bent, 3.0 * scale / (area * score_width * floored), 0.0)
    scale = tl.minimum(scale, scale_cap)

    mu = tl.minimum(tl.maximum(center / row_unit, -2e307), 2e307)  # the quotient may overflow
    start, by_center = _smooth_median(mu, used, median_width, STEPS)
    pooled, by_scale = _smooth_median(scale, used, median_width, STEPS)
    nu = tl.minimum(tl.maximum(pooled, scale_floor), scale_cap)
    root_n = tl.sqrt(size)
    offset = tl.load(offsets + level, mask=level < num_levels, other=0.0)
    away = offset[None, :] / root_n[:, None]
    counts = used[:, None] & (level < num_levels)[None, :]
    z = ((mu - start)[:, None] - nu * away) / temperature
    small = tl.exp(-tl.abs(z))
    step = 1.0 / (1.0 + small)
    h = tl.where(counts, small * step * step / temperature, 0.0)
    excess = tl.sum(tl.sum(tl.where(counts, tl.where(z > 0, small * step, step) - 0.5, 0.0), 1), 0)
    steep = tl.sum(h, 1)
    weight = density * tl.sum(tl.where(used, root_n, 0.0)) + regularizer
    share = nu / weight
    by_nu = tl.where(
        (pooled >= scale_floor) & (pooled <= scale_cap), -excess / weight - share * tl.sum(tl.sum(h * away, 1), 0), 0.0
    )

    blocks = tl.sum(used.to(tl.int32))
    several = blocks > 1
    by_center = tl.where(several, share * steep + (1.0 - share * tl.sum(steep)) * by_center, 1.0)
    by_scale = tl.where(several, by_nu * by_scale, 0.0)
    single = tl.sum(tl.where(lane == 0, center, 0.0))
    result = tl.where(several, row_unit * (start - share * excess), single)
    tl.store(value + row, tl.where(blocks > 0, result, 0.0))
    mixed, second = by_scale * by_square, by_scale * by_slope
    to = coefficients + (row * num_blocks + lane) * 4
    tl.store(to, center, mask=exists)
    tl.store(to + 1, tl.where(used, (by_center - mixed * mixed_sum - second * bend_sum) / slope, 0.0), mask=exists)
    tl.store(to + 2, tl.where(used, mixed, 0.0), mask=exists)
    tl.store(to + 3, tl.where(used, second, 0.0), mask=exists)
