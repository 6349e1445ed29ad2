"""The paper's SoftRoVR: S solver steps that autograd can see, kept for comparison with the implicit derivative."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rovrl.robust.centers import sandwich_scale
from rovrl.robust.correction import soft_correction
from rovrl.robust.score import scaled_residuals
from rovrl.robust.settings import SoftSettings
from rovrl.robust.soft.eager import contiguous_layout, row_unit
from rovrl.robust.solve import masked_median, precise, score_sums

Center = Callable[[Tensor, float, Tensor], Tensor]


def unrolled(
    x: Float[Tensor, "row n"], mask: Bool[Tensor, "row n"] | None, settings: SoftSettings
) -> Float[Tensor, " row"]:
    """SoftRoVR_{γ,η,S} of each row: every root by S differentiated solver steps (eq:softrovr_ratio).

    Gradient: autograd, which keeps every step; none through the unit of units="robust".
    """
    keep = torch.ones_like(x, dtype=torch.bool) if mask is None else mask
    layout = contiguous_layout(keep, settings.num_blocks, settings.min_block)
    values = layout.gather(precise(torch.where(keep, x, 0.0)))
    values = torch.where(layout.mask, values, 0.0)
    if settings.units == "robust":
        unit = row_unit(values.detach(), layout, settings.scale_floor)
        value = unit * _steps(values / unit[:, None, None], layout.mask, layout.sizes, settings)
    else:
        value = _steps(values, layout.mask, layout.sizes, settings)
    # an infinite element: NaN, as of the implicit form, not the solver's bracket
    value = value + (0 * values).sum((-2, -1))
    return torch.where(keep.any(-1), value, 0.0).to(x.dtype)


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


def _steps(values: Tensor, mask: Tensor, sizes: Tensor, settings: SoftSettings) -> Tensor:
    def center(values: Tensor, width: float, keep: Tensor) -> Tensor:
        return unrolled_center(values, width, keep, settings.iterations, settings.regularizer)

    c, regularizer = settings.score_width, settings.regularizer
    centers = center(values, c, mask)
    scales = sandwich_scale(values, centers, c, mask, settings.curvature_floor, regularizer)
    return outer_map(centers, scales, sizes.to(values.dtype), settings, center)


def unrolled_center(
    x: Float[Tensor, "*batch n"],
    score_width: float,
    mask: Bool[Tensor, "*batch n"],
    iterations: int,
    regularizer: float = 1e-8,
) -> Float[Tensor, "*batch"]:
    """The M-center after S = `iterations` safeguarded steps from the median; the last is a plain Newton step.

    From the mean, one element of 1e12 would still be 1e11 away after S = 32 bisections.
    Gradient: autograd through every step. Bracket ends, start and steps all move with a common shift and carry their
    gradient, so the gradient sums to one whatever steps were taken (prop:main_softrovr_stability); a bracket without
    gradient would silently zero it at a bisection. Stores every step: memory grows with S. Empty rows give 0.
    """
    keep = mask.to(x.dtype)
    count = keep.sum(-1).clamp(min=1)
    x = torch.where(mask, x, 0.0)
    empty = ~mask.any(-1)
    low = torch.where(mask, x, torch.inf).amin(-1).masked_fill(empty, 0.0)
    high = torch.where(mask, x, -torch.inf).amax(-1).masked_fill(empty, 0.0)
    u = masked_median(x, mask)
    for step in range(iterations):
        r, w = scaled_residuals(x, u, score_width)
        plain = (r * w * keep).sum(-1)
        exact = score_width**2 * score_sums(x - u.unsqueeze(-1), score_width, keep)[0]
        score = (exact.detach() + (plain - plain.detach())) / count  # the plain sum only gives its derivative
        slope = ((w * w * w * keep).sum(-1) / count).masked_fill(empty, 1.0)
        newton = u + score_width * score / (slope + regularizer)
        if step == iterations - 1:
            return newton
        low = torch.where(score > 0, u, low)
        high = torch.where(score < 0, u, high)
        inside = (newton >= low) & (newton <= high)
        u = torch.where(inside, newton, 0.5 * (low + high))
    return u
