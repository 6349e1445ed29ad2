"""The composite-quantile correction: its grid, the hard step and the logistic one (eq:mid_indicator, eq:rovr)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class QuantileGrid:
    """τ_k = k/(K+1), Δ_k = Φ⁻¹(τ_k), D_K = Σ φ(Δ_k)."""

    levels: Float[Tensor, " level"]
    offsets: Float[Tensor, " level"]
    density: float


@lru_cache(maxsize=64)
def quantile_grid(num_levels: int) -> QuantileGrid:
    """The grid of eq:rovr in float64, antisymmetric to the last bit: Δ_{K+1-k} = -Δ_k."""
    levels = torch.arange(1, num_levels + 1, dtype=torch.float64, device="cpu") / (num_levels + 1)
    offsets = torch.special.ndtri(levels)
    offsets = 0.5 * (offsets - offsets.flip(0))
    density = float(torch.exp(-0.5 * offsets * offsets).sum() / math.sqrt(2 * math.pi))
    return QuantileGrid(levels, offsets, density)


def mid_indicator(u: Tensor, tolerance: Tensor | float = 0.0) -> Tensor:
    """J_0(u) = 1{u < 0} + ½·1{u = 0}, eq:mid_indicator; |u| ≤ tolerance counts as a tie."""
    return torch.where(u.abs() <= tolerance, 0.5, (u < 0).to(u.dtype))


def logistic_step(u: Tensor, temperature: float | Tensor) -> Tensor:
    """H_γ(u) = 1/(1 + exp(u/γ)), the smooth J_0; ½ at 0. Gradient: autograd."""
    return torch.sigmoid(-u / temperature)


def thresholds(
    centers: Float[Tensor, "*batch block"],
    start: Float[Tensor, "*batch"],
    scale: Float[Tensor, "*batch"],
    sizes: Float[Tensor, "*#batch block"],
    num_levels: int,
) -> Float[Tensor, "*batch block level"]:
    """u_bk = μ̃_b - μ̂_0 - ν̂ Δ_k/√n_b, the arguments of the step in eq:rovr. Gradient: autograd."""
    offsets = quantile_grid(num_levels).offsets.to(centers)
    spread = scale.unsqueeze(-1) / sizes.clamp(min=1).sqrt()
    return (centers - start.unsqueeze(-1)).unsqueeze(-1) - spread.unsqueeze(-1) * offsets


def composite(
    steps: Float[Tensor, "*batch block level"],
    scale: Float[Tensor, "*batch"],
    sizes: Float[Tensor, "*#batch block"],
    regularizer: float = 0.0,
) -> Float[Tensor, "*batch"]:
    """ν̂/(D_K W_B)·Σ_b Σ_k [J_bk - τ_k], what eq:rovr subtracts from the median; blocks of size 0 do not count.

    Σ_k τ_k = K/2 is used as such, so that a symmetric group of steps cancels exactly. Gradient: autograd.
    """
    num_levels = steps.shape[-1]
    used = sizes > 0
    excess = torch.where(used, steps.sum(-1) - 0.5 * num_levels, 0.0).sum(-1)
    return scale / composite_weight(sizes, num_levels, regularizer) * excess


def composite_weight(
    sizes: Float[Tensor, "*#batch block"], num_levels: int, regularizer: float = 0.0
) -> Float[Tensor, "*#batch"]:
    """D_K W_B, W_B = Σ_b √n_b, the denominator of eq:rovr, plus the regularizer."""
    return quantile_grid(num_levels).density * sizes.sqrt().sum(-1) + regularizer


def tie_width(
    centers: Float[Tensor, "*batch block"],
    start: Float[Tensor, "*batch"],
    scale: Float[Tensor, "*batch"],
    tie_tolerance: float,
) -> Float[Tensor, "*batch block 1"]:
    """How far from 0 a threshold u_bk may be and still tie: relative to the pooled scale, plus a few ulp of the centers.

    Two blocks with the same values in another order may differ in the last bit (app:implementation, epsilon_tie).
    """
    ulp = 4 * torch.finfo(centers.dtype).eps
    size = centers.abs() + start.abs().unsqueeze(-1)
    return (tie_tolerance * scale.unsqueeze(-1) + ulp * size).unsqueeze(-1)


def hard_correction(
    centers: Float[Tensor, "*batch block"],
    start: Float[Tensor, "*batch"],
    scale: Float[Tensor, "*batch"],
    sizes: Float[Tensor, "*#batch block"],
    num_levels: int,
    tie_tolerance: float,
) -> Float[Tensor, "*batch"]:
    """What eq:rovr subtracts from the median, with the tie-neutral step J_0. No gradient."""
    u = thresholds(centers, start, scale, sizes, num_levels)
    return composite(mid_indicator(u, tie_width(centers, start, scale, tie_tolerance)), scale, sizes)


def soft_correction(
    centers: Float[Tensor, "*batch block"],
    start: Float[Tensor, "*batch"],
    scale: Float[Tensor, "*batch"],
    sizes: Float[Tensor, "*#batch block"],
    num_levels: int,
    temperature: float,
    regularizer: float = 0.0,
) -> Float[Tensor, "*batch"]:
    """The same with the logistic step H_γ; eq:softrovr_ratio and the auxiliary map S_γ use it. Gradient: autograd."""
    u = thresholds(centers, start, scale, sizes, num_levels)
    return composite(logistic_step(u, temperature), scale, sizes, regularizer)
