"""The outer map of SoftRoVR for CUDA in Triton, one program per row; the same formulas as outer.py (eq:softrovr_ratio)."""

# pyright: reportMissingImports=false, reportOperatorIssue=false, reportAttributeAccessIssue=false, reportGeneralTypeIssues=false

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _smooth_median(values, used, width, STEPS: tl.constexpr):
    """smed_η of the used lanes and its derivative, eq:smooth_median; the rests 1 - |P| are summed apart, as in outer.py."""
    count = tl.sum(used.to(tl.float64))
    low, high = tl.min(tl.where(used, values, float("inf"))), tl.max(tl.where(used, values, -float("inf")))
    u, step = tl.sum(tl.where(used, values / count, 0.0)), 0
    while step < STEPS:
        r = (values - u) / width
        s = tl.sqrt(1.0 + r * r)
        rest = 1.0 / s / (s + tl.abs(r))
        sign = tl.where(r > 0, 1.0, -1.0)
        score = tl.sum(tl.where(used, sign, 0.0)) - tl.sum(tl.where(used, sign * rest, 0.0))
        slope = tl.sum(tl.where(used, 1.0 / s / s / s, 0.0))
        low, high = tl.where(score > 0, u, low), tl.where(score > 0, high, u)
        newton = u + width * (score / slope)
        inside = (newton >= low) & (newton <= high)
        closed = (score == 0) | (newton == u) | (score != score) | (high - low <= 2e-16 * (tl.abs(low) + tl.abs(high)))
        u = tl.where(closed, u, tl.where(inside, newton, 0.5 * low + 0.5 * high))
        step = tl.where(closed | (inside & (tl.abs(score) <= 1e-8 * slope)), STEPS, step + 1)
    r = (values - u) / width
    s = tl.where(used, tl.sqrt(1.0 + r * r), float("inf"))
    share = tl.min(s) / s
    weight = tl.where(used, share * share * share, 0.0)
    return u, weight / tl.sum(weight)


@triton.jit
def outer_kernel(
    sizes, state, unit, offsets, constants, value, coefficients, num_blocks, num_levels, LANES: tl.constexpr,
    LEVELS: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    """Per row the value and per block (center, α, β, γ); `constants` points to `OuterConstants` as an array."""
    row, lane, level = tl.program_id(0), tl.arange(0, LANES), tl.arange(0, LEVELS)
    exists = lane < num_blocks
    n = tl.load(sizes + row * num_blocks + lane, mask=exists, other=0)
    used, at = n > 0, state + (row * num_blocks + lane) * 5
    center = tl.load(at, mask=used, other=0.0)
    slope = tl.load(at + 1, mask=used, other=1.0)
    square = tl.load(at + 2, mask=used, other=0.0)
    mixed_sum = tl.load(at + 3, mask=used, other=0.0)
    bend_sum = tl.load(at + 4, mask=used, other=0.0)
    density, temperature, median_width = tl.load(constants), tl.load(constants + 1), tl.load(constants + 2)
    scale_floor, scale_cap = tl.load(constants + 3), tl.load(constants + 4)
    curvature_floor, regularizer = tl.load(constants + 5), tl.load(constants + 6)
    score_width = tl.load(constants + 7)  # a float argument would arrive in single precision
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

    mu = center / row_unit
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
