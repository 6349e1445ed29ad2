"""The root of the convex score equation Σ ψ_c(x_i - u) = 0 along the last axis: batched, masked, for every finite input."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rovrl.robust.compiled import center_rows
from rovrl.robust.kernels import takes_lanes

MAX_STEPS = 200
"""Far above need (about 6 on ordinary data); the bracket shrinks at every step, so the loop always ends."""


def m_root(
    x: Float[Tensor, "*batch n"],
    score_width: float | Float[Tensor, "*batch"] = 1.0,
    mask: Bool[Tensor, "*batch n"] | None = None,
) -> Float[Tensor, "*batch"]:
    """The unique root u of Σ_i ψ_c(x_i - u) = 0, eq:block_m, without gradient; solved in float64.

    Empty rows give 0, one element gives itself, a row with a non-finite entry gives NaN. Finite for every finite input,
    also where x_i - u overflows.
    """
    if x.shape[-1] == 0:
        return x.new_zeros(x.shape[:-1])
    if isinstance(score_width, int | float) and takes_lanes(x):
        return center_rows(x, score_width, mask)
    dtype, x = x.dtype, precise(x.detach())
    mask = torch.ones_like(x, dtype=torch.bool) if mask is None else mask.expand(x.shape)
    x = torch.where(mask, x, 0.0)
    good = x.isfinite().all(-1)
    root = _from_the_middle(torch.where(good.unsqueeze(-1), x, 0.0), score_width, mask)
    return torch.where(good, root, torch.nan).to(dtype)


def precise(x: Tensor) -> Tensor:
    """float64 where the device has it: the clip band is 3e-4 wide, and a float32 sum over a long row shows in it."""
    return x if x.device.type == "mps" else x.double()


def masked_median(x: Float[Tensor, "*batch n"], mask: Bool[Tensor, "*batch n"]) -> Float[Tensor, "*batch"]:
    """The midpoint median of the kept entries; 0 for an empty row. Constants are preserved to the last bit."""
    return _midpoint(*_middle_two(x, mask))


def _middle_two(x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The two middle observations, one twice if their number is odd; 0 for an empty row."""
    count = mask.sum(-1, keepdim=True)
    ordered = torch.where(mask, x, torch.inf).sort(-1).values
    lower = ordered.gather(-1, ((count - 1) // 2).clamp(min=0))
    upper = ordered.gather(-1, (count // 2).clamp(max=x.shape[-1] - 1))
    lower, upper = (torch.where(count > 0, middle, 0.0).squeeze(-1) for middle in (lower, upper))
    return lower, upper


def _midpoint(lower: Tensor, upper: Tensor) -> Tensor:
    return torch.where(lower == upper, lower, 0.5 * lower + 0.5 * upper)


def _from_the_middle(x: Tensor, score_width: float | Tensor, mask: Tensor) -> Tensor:
    """The root of finite rows, searched as a distance from their median m in units of g = max(c, half the middle gap).

    It lies within c√n/2 of the two middle observations: further out, the larger half pulls back whatever the other holds.
    In these units all that matters is of order one; what overflows is so far away that it only counts as a sign.
    """
    lower, upper = _middle_two(x, mask)
    median = _midpoint(lower, upper)
    half_gap = 0.5 * upper - 0.5 * lower
    c = torch.as_tensor(score_width, dtype=x.dtype, device=x.device).expand(median.shape)
    unit = torch.maximum(c, half_gap)
    z = (x - median.unsqueeze(-1)) / unit.unsqueeze(-1)
    width = (c / unit).clamp(min=torch.finfo(x.dtype).max ** -0.3)  # width⁻³ must not overflow; from far above it is 0
    reach = half_gap / unit + width * (0.5 * mask.sum(-1).to(x.dtype).sqrt())
    keep = mask.to(x.dtype)

    def sums(u: Tensor) -> tuple[Tensor, Tensor]:
        return score_sums(z - u.unsqueeze(-1), width.unsqueeze(-1), keep)

    watched = x.device.type == "cpu"  # elsewhere looking would stall the device
    return median + unit * bracketed_root(sums, -reach, reach, torch.zeros_like(median), width, watched)


def score_sums(
    distance: Float[Tensor, "*batch n"], width: float | Float[Tensor, "*#batch 1"], keep: Float[Tensor, "*#batch n"]
) -> tuple[Float[Tensor, "*batch"], Float[Tensor, "*batch"]]:
    """A = Σ ψ_c(d_i)/c and B = Σ ψ_c'(d_i)/c of the kept d_i = x_i - u (eq:convex_score), so that A/B is the Newton step.

    With s = √(c² + d²):  cψ_c(d) = d/s = ±1 ∓ c²/(s(s + |d|)),  A = (#above - #below)/c² - Σ rests,  B = Σ s⁻³.

    Farther than c the sides are counted and the rests ±1/(s(s + |d|)) summed: in a gap of many widths the ones cancel and the
    root hangs on the rests, which a plain Σ d/s has rounded away. Nearer than c, d/s itself is the small one of the two.
    """
    sign, rest, slope = (terms * keep for terms in score_terms(distance, width))
    side = sign.sum(-1, keepdim=True) / (width * width)
    return side.squeeze(-1) - rest.sum(-1), slope.sum(-1)


def score_terms(
    distance: Float[Tensor, "*batch n"], width: float | Float[Tensor, "*#batch 1"]
) -> tuple[Float[Tensor, "*batch n"], Float[Tensor, "*batch n"], Float[Tensor, "*batch n"]]:
    """Of each d: its side, ±1 if farther than c, else 0; the rest, side/c² - ψ_c(d)/c; and s⁻³: what `score_sums` sums."""
    s = (width * width + distance * distance).sqrt()
    near = distance.abs() <= width
    sign = torch.where(near, 0.0, distance.sign())
    rest = torch.where(near, -distance / (s * (width * width)), sign / (s * (s + distance.abs())))
    return sign, rest, 1 / (s * s * s)


def bracketed_root(
    sums: Callable[[Tensor], tuple[Tensor, Tensor]],
    low: Float[Tensor, "*batch"],
    high: Float[Tensor, "*batch"],
    start: Float[Tensor, "*batch"],
    width: float | Float[Tensor, "*#batch"],
    watched: bool,
) -> Float[Tensor, "*batch"]:
    """The root u in [low, high] of the score, eq:block_m; `sums(u)` gives A and B of `score_sums`.

    Newton inside a bracket that shrinks at every step; a step that leaves it is replaced by a bisection. The score bends on
    the scale of the distance h to the nearest element, and B^(-1/3) ≤ h: a step far shorter than that is the last one.
    `watched`: it looks whether all are done, and then stops.
    """
    eps = torch.finfo(low.dtype).eps
    u, done = start, low == high
    for step in range(MAX_STEPS):
        score, slope = sums(u)
        low = torch.where(score > 0, u, low)
        high = torch.where(score < 0, u, high)
        move = score / slope
        newton, arrived = u + move, move.abs() <= eps**0.5 * slope ** (-1 / 3)
        inside = (newton > low) & (
            newton < high
        )  # strictly: a step may be too short for u to move, and far from the root
        closed = (score == 0) | (high - low <= 2 * eps * (low.abs() + high.abs()))
        proposal = torch.where(inside | arrived, newton, _bisection(low, high, width, step))
        u = torch.where(done | closed, u, proposal)
        done = done | closed | arrived
        if watched and bool(done.all()):
            break
    return u


def _bisection(low: Tensor, high: Tensor, width: float | Tensor, step: int) -> Tensor:
    """A point of the bracket. Where it spans many widths the root hugs an end, so every other try is geometric there."""
    middle = 0.5 * low + 0.5 * high
    hop = width**0.5 * torch.sqrt(high - low)
    near_low, near_high = low + hop, high - hop
    candidate = (middle, near_low, middle, near_high)[step % 4]
    return torch.where((candidate > low) & (candidate < high), candidate, middle)
