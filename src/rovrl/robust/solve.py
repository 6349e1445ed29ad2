"""The root of the convex score equation Σ ψ_c(x_i - u) = 0 along the last axis: batched, masked, safeguarded."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rovrl.robust.fused.lanes import center_rows
from rovrl.robust.kernels import takes_lanes
from rovrl.robust.score import scaled_residuals

MAX_STEPS = 200
"""Far above need (about 6 on ordinary data); the bracket shrinks at every step, so the loop always ends."""


def m_root(
    x: Float[Tensor, "*batch n"],
    score_width: float | Float[Tensor, "*batch"] = 1.0,
    mask: Bool[Tensor, "*batch n"] | None = None,
) -> Float[Tensor, "*batch"]:
    """The unique root u of Σ_i ψ_c(x_i - u) = 0, eq:block_m, without gradient.

    Bracket [min, max], start at the median; a Newton step that leaves the bracket is replaced by a bisection. A row is
    done when its score is at rounding level or its bracket has closed. Empty rows give 0, one element gives itself,
    a row with a non-finite entry gives NaN. Finite for every finite input, also where x_i - u overflows.
    """
    if x.shape[-1] == 0:
        return x.new_zeros(x.shape[:-1])
    if isinstance(score_width, int | float) and takes_lanes(x):
        root, solved = center_rows(x, score_width, mask)
        rest = ~solved
        if bool(rest.any()):
            root[rest] = _any_root(x[rest], score_width, None if mask is None else mask.expand(x.shape)[rest])
        return root
    return _any_root(x, score_width, mask)


def _any_root(x: Tensor, score_width: float | Tensor, mask: Tensor | None) -> Tensor:
    x, mask, good = _prepare(x, mask)
    limit = torch.finfo(x.dtype).max / 8
    shrink = torch.where(x.abs().amax(-1) > limit, 0.125, 1.0).to(x.dtype)  # exact: a power of two
    width = torch.as_tensor(score_width, dtype=x.dtype, device=x.device) * shrink
    u = _safeguarded_newton(x * shrink.unsqueeze(-1), width.expand(shrink.shape), mask)
    return torch.where(good, u / shrink, torch.nan)


def masked_median(x: Float[Tensor, "*batch n"], mask: Bool[Tensor, "*batch n"]) -> Float[Tensor, "*batch"]:
    """The midpoint median of the kept entries; 0 for an empty row. Constants are preserved to the last bit."""
    count = mask.sum(-1, keepdim=True)
    ordered = torch.where(mask, x, torch.inf).sort(-1).values
    lower = ordered.gather(-1, ((count - 1) // 2).clamp(min=0)).squeeze(-1)
    upper = ordered.gather(-1, (count // 2).clamp(max=x.shape[-1] - 1)).squeeze(-1)
    middle = torch.where(lower == upper, lower, 0.5 * lower + 0.5 * upper)
    return torch.where(count.squeeze(-1) > 0, middle, 0.0)


def _prepare(x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    x = x.detach()
    if mask is None:
        mask = torch.ones_like(x, dtype=torch.bool)
    x = torch.where(mask, x, 0.0)
    good = x.isfinite().all(-1)
    return torch.where(good.unsqueeze(-1), x, 0.0), mask, good


def _safeguarded_newton(x: Tensor, width: Tensor, mask: Tensor) -> Tensor:
    keep = mask.to(x.dtype)
    count = keep.sum(-1)
    empty = count == 0
    low = torch.where(empty, 0.0, torch.where(mask, x, torch.inf).amin(-1))
    high = torch.where(empty, 0.0, torch.where(mask, x, -torch.inf).amax(-1))

    def sums(u: Tensor) -> tuple[Tensor, Tensor]:
        r, w = scaled_residuals(x, u, width)
        return (r * w * keep).sum(-1), (w * w * w * keep).sum(-1)

    watched = x.device.type == "cpu"  # elsewhere looking would stall the device
    return bracketed_root(sums, low, high, masked_median(x, mask), width, count, watched)


def bracketed_root(
    sums: Callable[[Tensor], tuple[Tensor, Tensor]],
    low: Float[Tensor, "*batch"],
    high: Float[Tensor, "*batch"],
    start: Float[Tensor, "*batch"],
    width: Float[Tensor, "*#batch"],
    count: Tensor,
    watched: bool,
    arrived: float = 0.0,
) -> Float[Tensor, "*batch"]:
    """The root u in [low, high] of the score, eq:block_m; `sums(u)` gives Σ cψ and Σ c²ψ' over the `count` elements.

    Newton inside a bracket that shrinks at every step. `watched`: it looks whether all are done, and then stops. A Newton step
    of at most `arrived` widths is the last one.
    """
    eps = torch.finfo(low.dtype).eps
    u, done = start, low == high
    for step in range(MAX_STEPS):
        score, slope = sums(u)
        low = torch.where(score > 0, u, low)
        high = torch.where(score < 0, u, high)
        newton = u + width * (score / slope)
        inside = (newton >= low) & (newton <= high)
        proposal = torch.where(inside, newton, _bisection(low, high, width, step))
        settled = (score.abs() <= eps * count) | (high - low <= 2 * eps * (low.abs() + high.abs()))
        if arrived:
            settled = settled | (inside & ((newton - u).abs() <= arrived * width))
        u = torch.where(done | (settled & ~inside), u, proposal)
        done = done | settled
        if watched and bool(done.all()):
            break
    return u


def _bisection(low: Tensor, high: Tensor, width: Tensor, step: int) -> Tensor:
    """A point of the bracket. Where it spans many widths the root hugs an end, so every other try is geometric there."""
    middle = 0.5 * low + 0.5 * high
    hop = torch.sqrt(width) * torch.sqrt(high - low)
    near_low, near_high = low + hop, high - hop
    candidate = (middle, near_low, middle, near_high)[step % 4]
    return torch.where((candidate > low) & (candidate < high), candidate, middle)
