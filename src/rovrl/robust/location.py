"""The six reference estimators of tab:reference_estimators, with one signature, and the auxiliary map S_γ."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from rovrl.robust.blocks import Blocks
from rovrl.robust.centers import dense_real, sandwich_scale
from rovrl.robust.compiled import reference_rows
from rovrl.robust.correction import hard_correction, soft_correction
from rovrl.robust.kernels import takes_lanes
from rovrl.robust.scale import median_of, pooled_scale, scale_source
from rovrl.robust.settings import ReferenceSettings
from rovrl.robust.solve import m_root, masked_median

Reference = Callable[..., Tensor]
"""(x [..., n], blocks, channel) -> [...]."""


def mean(x: Float[Tensor, "*batch n"], blocks: Blocks, channel: ReferenceSettings) -> Float[Tensor, "*batch"]:
    """The arithmetic mean; blocks play no part."""
    return (x / x.shape[-1]).sum(-1)  # divided first: a sum of large numbers must not overflow


def global_m(x: Float[Tensor, "*batch n"], blocks: Blocks, channel: ReferenceSettings) -> Float[Tensor, "*batch"]:
    """One convex M-center of all elements, eq:block_m with B = 1."""
    return m_root(x, channel.score_width)


def mom(x: Float[Tensor, "*batch n"], blocks: Blocks, channel: ReferenceSettings) -> Float[Tensor, "*batch"]:
    """Median of means."""
    return _median(_block_means(x, blocks))


def vrmom(x: Float[Tensor, "*batch n"], blocks: Blocks, channel: ReferenceSettings) -> Float[Tensor, "*batch"]:
    """Block means with the composite-quantile correction; scale: the median block standard deviation, clipped like ν."""
    values, mask = blocks.gather(x)
    means = _block_means(x, blocks)
    keep = mask.to(x.dtype)
    square = torch.where(mask, (values - means.unsqueeze(-1)) ** 2, 0.0)  # not times the mask: the square may overflow
    variance = square.sum(-1) / keep.sum(-1)
    scale = pooled_scale(variance.sqrt(), channel.scale_floor, channel.scale_cap)
    return _median(means) - _correction(means, scale, blocks, channel)


def robust_mom(x: Float[Tensor, "*batch n"], blocks: Blocks, channel: ReferenceSettings) -> Float[Tensor, "*batch"]:
    """Median of the blocks' M-centers: RoVR without its outer correction."""
    return _median(block_centers(x, blocks, channel))


def rovr(x: Float[Tensor, "*batch n"], blocks: Blocks, channel: ReferenceSettings) -> Float[Tensor, "*batch"]:
    """The hard RoVR reference, eq:rovr.

    θ̂ = μ̂_0 - ν̂/(D_K W_B)·Σ_b Σ_k [J_0(μ̃_b - μ̂_0 - ν̂Δ_k/√n_b) - τ_k],  μ̂_0 = median_b μ̃_b

    Constants are preserved and shifts followed (prop:calibration); B = 1 is the M-center. Computed in float64. The scale
    ν̂ is `scale(...)`. A row with a non-finite entry gives NaN. Gradient: none.
    """
    return rovr_parts(x, blocks, channel).reference


class Located(NamedTuple):
    """A reference, the scale ν̂ it used, and Ĉ_B = |θ̂_RoVR - μ̂_0| of eq:correction_magnitude; both 0 where it needs none."""

    reference: Float[Tensor, "*batch"]
    scale: Float[Tensor, "*batch"]
    correction: Float[Tensor, "*batch"]


def rovr_parts(x: Float[Tensor, "*batch n"], blocks: Blocks, channel: ReferenceSettings) -> Located:
    """The RoVR reference eq:rovr of finite float64 rows, with its scale and correction (0 for one block, which needs none)."""
    if len(blocks.sizes) == 1:
        center = block_centers(x, blocks, channel).squeeze(-1)
        return Located(center, torch.zeros_like(center), torch.zeros_like(center))
    given = _given_scale(x, blocks, channel)
    if takes_lanes(x):
        return Located(*reference_rows(x, blocks, channel, given))
    centers = block_centers(x, blocks, channel)
    nu = _scale(x, centers, blocks, channel, given)
    correction = _correction(centers, nu, blocks, channel)
    return Located(_median(centers) - correction, nu, correction.abs())


def reference_parts(x: Float[Tensor, "*batch n"], blocks: Blocks, channel: ReferenceSettings) -> Located:
    """The reference that `channel.reference` names, of finite float64 rows, with its scale and correction (0: it has none).

    The reference of equal numbers is that number, also where an estimator is off by rounding.
    """
    if channel.reference == "rovr":
        return rovr_parts(x, blocks, channel)
    constant = (x == x[..., :1]).all(-1)
    reference = torch.where(constant, x[..., 0], REFERENCES[channel.reference](x, blocks, channel))
    return Located(reference, torch.zeros_like(reference), torch.zeros_like(reference))


def reference_row_by_row(
    x: Float[Tensor, "*batch n"], blocks: Blocks, channel: ReferenceSettings
) -> Float[Tensor, "*batch"]:
    """The reference that `channel.reference` names, of finite float64 rows, each from nothing but itself.

    As `reference_parts`, except that RoVR's "lagged" ν̂ is not pooled over the rows: it is the sandwich scale of the whole row.
    """
    if channel.reference != "rovr" or scale_source(blocks, channel) != "lagged":
        return reference_parts(x, blocks, channel).reference
    nu = whole_scale(x, channel).clamp(channel.scale_floor, channel.scale_cap)
    centers = block_centers(x, blocks, channel)
    return _median(centers) - _correction(centers, nu, blocks, channel)


def auxiliary(
    x: Float[Tensor, "*batch n"], blocks: Blocks, channel: ReferenceSettings, temperature: float
) -> Float[Tensor, "*batch"]:
    """S_γ of prop:smoothing: hard centers, median and scale, only J_0 replaced by H_γ; isolates the smoothing error."""
    x = x.detach().double()
    centers = block_centers(x, blocks, channel)
    if len(blocks.sizes) == 1:
        return centers.squeeze(-1)
    start = _median(centers)
    nu = scale(x, centers, blocks, channel)
    return start - soft_correction(centers, start, nu, _sizes(blocks, centers), channel.num_levels, temperature)


def block_centers(
    x: Float[Tensor, "*batch n"], blocks: Blocks, channel: ReferenceSettings
) -> Float[Tensor, "*batch block"]:
    """μ̃_b, the M-center of every block, eq:block_m."""
    values, mask = blocks.gather(x)
    return m_root(values, channel.score_width, mask.expand(values.shape))


def scale(
    x: Float[Tensor, "*batch n"], centers: Float[Tensor, "*batch block"], blocks: Blocks, channel: ReferenceSettings
) -> Float[Tensor, "*batch"]:
    """ν̂ by `channel.scale_source`: the pooled block sandwich scale eq:robust_sandwich_scale, a pilot number, or lagged.

    This function knows no earlier steps: for "lagged" it takes the batch's own pooled value, the median over the rows
    that are not constant of the whole-row sandwich scale.
    """
    return _scale(x, centers, blocks, channel, _given_scale(x, blocks, channel))


def _scale(x: Tensor, centers: Tensor, blocks: Blocks, channel: ReferenceSettings, given: float | None) -> Tensor:
    if given is not None:
        return torch.full_like(centers[..., 0], given).clamp(channel.scale_floor, channel.scale_cap)
    values, mask = blocks.gather(x)
    local = sandwich_scale(values, centers, channel.score_width, mask.expand(values.shape), channel.curvature_floor)
    return pooled_scale(local, channel.scale_floor, channel.scale_cap)


def _given_scale(x: Tensor, blocks: Blocks, channel: ReferenceSettings) -> float | None:
    """The ν̂ that all rows share, a pilot or the batch's own pooled value; None where each row has its own."""
    source = scale_source(blocks, channel)
    if source == "local":
        return None
    number = channel.scale_source if source == "pilot" else pooled_whole_scale(x, channel)
    return max(float(number), channel.scale_floor)


def whole_scale(x: Float[Tensor, "*batch n"], channel: ReferenceSettings) -> Float[Tensor, "*batch"]:
    """The sandwich scale of each whole row about its own M-center; 0 for a constant row."""
    center = m_root(x, channel.score_width)
    every = torch.ones_like(x, dtype=torch.bool)
    return sandwich_scale(x, center, channel.score_width, every, channel.curvature_floor)


def pooled_whole_scale(x: Float[Tensor, "*batch n"], channel: ReferenceSettings) -> float:
    """The median of `whole_scale` over the rows that are not constant; 0 if all are.

    Constant rows say nothing about the scale of a difference: counting them as 0 would shrink it to nothing late in training.
    """
    scales = whole_scale(x, channel)
    return median_of(scales[scales > 0])


def _block_means(x: Tensor, blocks: Blocks) -> Tensor:
    values, mask = blocks.gather(x)
    keep = mask.to(x.dtype)
    return (values * keep / keep.sum(-1, keepdim=True)).sum(-1)


def _median(values: Tensor) -> Tensor:
    return masked_median(values, torch.ones_like(values, dtype=torch.bool))


def _sizes(blocks: Blocks, like: Tensor) -> Tensor:
    return torch.tensor(blocks.sizes, dtype=like.dtype, device=like.device)


def _correction(centers: Tensor, nu: Tensor, blocks: Blocks, channel: ReferenceSettings) -> Tensor:
    """What eq:rovr subtracts from the median of the centers."""
    sizes = _sizes(blocks, centers)
    return hard_correction(centers, _median(centers), nu, sizes, channel.num_levels, channel.tie_tolerance)


def _in_float64(estimator: Reference) -> Reference:
    """The estimator without gradient and in float64 (float32 input comes back as float32); non-finite rows are NaN."""

    def reference(x: Tensor, blocks: Blocks, channel: ReferenceSettings) -> Tensor:
        if not isinstance(blocks, Blocks):
            raise ValueError(
                f"blocks must be a rovrl.Blocks, such as Blocks.contiguous(n, 3), not {type(blocks).__name__}"
            )
        if dense_real(x).shape[-1:] != (blocks.n,):
            raise ValueError(
                f"x must have {blocks.n} elements on its last axis to fit the blocks, not shape {tuple(x.shape)}"
            )
        with torch.no_grad():
            good = x.isfinite().all(-1)
            value = estimator(torch.where(good.unsqueeze(-1), x, 0).double(), blocks, channel)
            value = torch.where(good, value, torch.nan)
        return value.to(x.dtype) if x.dtype.is_floating_point else value

    reference.__name__ = estimator.__name__
    reference.__doc__ = estimator.__doc__
    return reference


REFERENCES: dict[str, Reference] = {f.__name__: _in_float64(f) for f in (mean, global_m, mom, vrmom, robust_mom, rovr)}
"""Name -> estimator of values [..., n], given blocks and settings. An entry added here is a `reference` for every channel."""
