"""From a row's block numbers to its value: the outer map, and its derivative in closed form (eq:softrovr_ratio)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rovrl.robust.centers import center_weights
from rovrl.robust.correction import (
    composite,
    composite_weight,
    logistic_step,
    quantile_grid,
    soft_correction,
    thresholds,
)
from rovrl.robust.settings import SoftSettings
from rovrl.robust.solve import m_root

Center = Callable[[Tensor, float, Tensor], Tensor]


def outer_map(
    centers: Float[Tensor, "row block"],
    scales: Float[Tensor, "row block"],
    sizes: Float[Tensor, "row block"],
    settings: SoftSettings,
    median: Center,
) -> Float[Tensor, " row"]:
    """SoftRoVR from local centers and sandwich scales: eq:rovr with smooth medians and H_γ in place of J_0.

    Local scales are capped at ν_max, pooled by the smooth median, then clipped to [ν_min, ν_max]. One block: its center.
    Gradient: autograd, through `median`.
    """
    used = sizes > 0
    start = median(centers, settings.median_width, used)
    nu = median(scales.clamp(max=settings.scale_cap), settings.median_width, used)
    nu = nu.clamp(settings.scale_floor, settings.scale_cap)
    correction = soft_correction(
        centers, start, nu, sizes, settings.num_levels, settings.temperature, settings.regularizer
    )
    several = used.sum(-1) > 1
    return torch.where(several, start - correction, centers[..., 0])


def outer_derivatives(
    centers: Float[Tensor, "row block"],
    scales: Float[Tensor, "row block"],
    sizes: Float[Tensor, "row block"],
    settings: SoftSettings,
) -> tuple[Float[Tensor, " row"], Float[Tensor, "row block"], Float[Tensor, "row block"]]:
    """F at convergence, ∂F/∂μ̃_b and ∂F/∂ν̂_b. With h = H(1 - H)/γ summed over the levels and s = ν/(D_K W_B):

        ∂F/∂μ̃_b = s h_b + (1 - s Σh) ∂μ̂_0/∂μ̃_b,    ∂F/∂ν = -Σ(H - τ)/(D_K W_B) - s Σ h Δ_k/√n_b.

    No autograd inside: an operator is computed below it.
    """
    used = sizes > 0
    start, by_start = _smooth_median(centers, settings.median_width, used)
    pooled, by_pooled = _smooth_median(scales.clamp(max=settings.scale_cap), settings.median_width, used)
    nu = pooled.clamp(settings.scale_floor, settings.scale_cap)
    levels = settings.num_levels
    u = thresholds(centers, start, nu, sizes, levels)
    steps = logistic_step(u, settings.temperature)
    per_scale = composite(steps, torch.ones_like(nu), sizes, settings.regularizer)  # Σ(H - τ)/(D_K W_B)
    share = nu / composite_weight(sizes, levels, settings.regularizer)

    h = torch.where(used.unsqueeze(-1), steps * logistic_step(-u, settings.temperature) / settings.temperature, 0.0)
    away = quantile_grid(levels).offsets.to(centers) / sizes.clamp(min=1).sqrt().unsqueeze(-1)
    free = (pooled >= settings.scale_floor) & (pooled <= settings.scale_cap)
    by_nu = torch.where(free, -per_scale - share * (h * away).sum((-2, -1)), 0.0)
    steep = h.sum(-1)
    by_center = share.unsqueeze(-1) * steep + (1 - share * steep.sum(-1)).unsqueeze(-1) * by_start
    by_scale = torch.where(scales > settings.scale_cap, 0.0, by_nu.unsqueeze(-1) * by_pooled)

    several = (used.sum(-1) > 1).unsqueeze(-1)
    alone = (torch.arange(centers.shape[-1], device=centers.device) == 0).to(centers)
    value = torch.where(several.squeeze(-1), start - nu * per_scale, centers[..., 0])
    return value, torch.where(several, by_center, alone), torch.where(several, by_scale, 0.0)


def _smooth_median(
    values: Float[Tensor, "row block"], width: float, used: Bool[Tensor, "row block"]
) -> tuple[Float[Tensor, " row"], Float[Tensor, "row block"]]:
    """smed_η(values), eq:smooth_median, and its derivative."""
    widths = torch.full_like(values[..., 0], width)
    root = m_root(values, widths, used)
    return root, center_weights(values, root, widths, used)
