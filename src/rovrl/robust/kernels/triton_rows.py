"""SoftRoVR for CUDA in Triton: the same steps as layout.py, rows.py and outer.py, one program per row or block.

All arithmetic is in double, so that one solver takes any data; nothing is read back to the host. Tested through Triton's
interpreter (TRITON_INTERPRET=1) against the eager path; no GPU has run it yet.
"""

# pyright: reportMissingImports=false, reportOperatorIssue=false, reportAttributeAccessIssue=false, reportGeneralTypeIssues=false

from __future__ import annotations

import triton
import triton.language as tl


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
    u, step = mean, 0
    while step < STEPS:
        score, slope = count * 0.0, count * 0.0
        for i in range(i0, i1, CHUNK):
            values, held = _load(x, keep, at, held_at, i + index, i1, MASKED)
            p, w = _weights(values, held, u, c, far)
            score += tl.sum(p)
            slope += tl.sum(w * w * w)
        t = score / slope
        low, high = tl.where(score > 0, u, low), tl.where(score < 0, u, high)
        newton = u + c * t
        inside = (newton >= low) & (newton <= high) & (slope * far * far * far > 2.0 * count)
        near = tl.sqrt(c) * tl.sqrt(high - low)
        end = tl.where(step % 4 == 1, low + near, high - near)
        split = tl.where((step % 2 == 1) & (near < 0.25 * (high - low)), end, 0.5 * low + 0.5 * high)
        closed = (score == 0) | (high - low <= 4e-16 * (tl.abs(low) + tl.abs(high))) | (score != score)
        u = tl.where(score == 0, u, tl.where(inside, newton, tl.where(closed, u, split)))
        step = tl.where(closed | (inside & (tl.abs(t) <= 1e-8)) | (n == 0), STEPS, step + 1)
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
