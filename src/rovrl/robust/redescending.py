"""Redescending centers (Barron shapes below 1), under their own name: no guarantee of the paper covers them.

Their objective may have several minima, so the answer depends on the start and on the path; both are fixed here, as
app:implementation demands: the median, then a declared schedule of shapes from 1 down to the one asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rovrl.robust.centers import as_working
from rovrl.robust.score import psi
from rovrl.robust.solve import m_root, masked_median

STEPS = 200


def graduated_schedule(shape: float, stages: int = 4) -> tuple[float, ...]:
    """Shapes from just below 1 down to `shape`, evenly in 1/(2 - α), which is finite also for α = -∞."""
    if not shape < 1:
        raise ValueError(f"shape must be below 1 (redescending), not {shape!r}; for shape 1 use rovrl.m_center")
    if stages < 1:
        raise ValueError(f"stages must be at least 1, not {stages}")
    end = 0.0 if shape == -math.inf else 1 / (2 - shape)
    inner = [1 + (end - 1) * k / stages for k in range(1, stages)]
    return (*(2 - 1 / t for t in inner), float(shape))


def redescending_center(
    x: Float[Tensor, "*batch n"],
    shape: float,
    score_width: float = 1.0,
    mask: Bool[Tensor, "*batch n"] | None = None,
    schedule: Sequence[float] | None = None,
) -> Float[Tensor, "*batch"]:
    """A stationary point of Σ ρ(x_i - u; α, c) for α < 1: from the median, through `schedule`, by reweighted means.

    Each stage lowers its own objective at every step (IRLS is a majorise-minimise scheme for this family). Empty rows
    give 0. Gradient: none. Outside every theorem of the paper (app:implementation).
    """
    stages = tuple(graduated_schedule(shape) if schedule is None else schedule)
    if not stages or stages[-1] != shape or any(not s < 1 for s in stages):
        raise ValueError(f"schedule must hold shapes below 1 and end with shape {shape!r}, not {stages}")
    with torch.no_grad():
        x = as_working(x.detach())
        keep = torch.ones_like(x, dtype=torch.bool) if mask is None else mask
        u = masked_median(x, keep)
        for alpha in stages:
            u = _reweighted_mean(x, u, alpha, score_width, keep)
        return torch.where(keep.any(-1), u, m_root(x, score_width, keep))


def _reweighted_mean(x: Tensor, u: Tensor, alpha: float, width: float, keep: Tensor) -> Tensor:
    tolerance = 4 * torch.finfo(x.dtype).eps
    for _ in range(STEPS):
        r = torch.where(keep, x, 0.0) - u.unsqueeze(-1)
        flat = r == 0
        weight = torch.where(flat, 1.0 / width**2, psi(r, width, alpha) / torch.where(flat, 1.0, r)) * keep
        total = weight.sum(-1)
        move = torch.where(total > 0, (weight * r).sum(-1) / torch.where(total > 0, total, 1.0), 0.0)
        u = u + move
        if x.device.type == "cpu" and bool((move.abs() <= tolerance * (u.abs() + width)).all()):
            break
    return u
