"""SoftRoVR at convergence in plain torch, differentiated by the implicit-function theorem (eq:softrovr_ratio).

The same two functions as the fused kernels have, in the same terms. In units of the score width, r = (x - u)/c and
w = (1 + r²)^(-1/2), an element's derivative is α_b P' + β_b PP' + γ_b Pw⁴ with three numbers per block, where

    P = r w = c ψ_c,   P' = w³ = c² ψ_c',   P w⁴ = -c³ ψ_c''/3.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rovrl.robust.fused.saved import Saved
from rovrl.robust.score import scaled_residuals
from rovrl.robust.settings import SoftSettings
from rovrl.robust.soft.layout import LARGEST, contiguous_layout, row_unit
from rovrl.robust.soft.outer import outer_derivatives
from rovrl.robust.soft.packed import padded
from rovrl.robust.solve import m_root, precise


class BlockSums(NamedTuple):
    """Of each block at its center: ΣP', ΣP², ΣPP' and ΣPw⁴."""

    slope: Float[Tensor, "row block"]
    square: Float[Tensor, "row block"]
    mixed: Float[Tensor, "row block"]
    bend: Float[Tensor, "row block"]


def solve(
    x: Tensor, mask: Tensor | None, bounds: Tensor | None, settings: SoftSettings
) -> tuple[Float[Tensor, " row"], Saved]:
    """The value of every row, and what its gradient needs.

    x is [row, element] with a bool mask or None, or flat elements with `bounds`, their cumulative lengths.
    """
    rows, keep = _rows(x, mask, bounds)
    layout = contiguous_layout(keep, settings.num_blocks, settings.min_block)
    values = layout.gather(rows)
    unit = rows.new_ones(len(rows))
    if settings.units == "robust":
        unit = row_unit(values, layout, settings.scale_floor)
    width = settings.score_width * unit
    centers = m_root(values, width.unsqueeze(-1).expand(layout.sizes.shape), layout.mask)
    p, w = _scores(values, centers, width.unsqueeze(-1), layout.mask)
    sums = BlockSums(*(terms.sum(-1) for terms in (w**3, p * p, p * w**3, p * w**4)))
    in_units = (centers / unit.unsqueeze(-1)).clamp(-LARGEST, LARGEST)
    value, factors = block_factors(in_units, sums, layout.sizes, settings)
    saved = Saved(layout.edges(), torch.cat((centers.unsqueeze(-1), factors), -1), width, torch.zeros_like(keep[:, 0]))
    return torch.where(keep.any(-1), unit * value, 0.0).to(x.dtype), saved


def gradient(grad: Tensor, x: Tensor, mask: Tensor | None, bounds: Tensor | None, saved: Saved) -> Tensor:
    """grad[row]·∂value/∂element in the shape of x, from what `solve` gave: one pass over the elements."""
    rows, keep = _rows(x, mask, bounds)
    place = torch.arange(rows.shape[-1], device=x.device).expand_as(rows).contiguous()
    block = torch.searchsorted(saved.edges[:, 1:].contiguous(), place, right=True)
    out = element_gradient(grad, rows, keep, block, saved.coefficients, saved.width).to(x.dtype)
    return out if bounds is None else out[keep]


def element_gradient(
    grad: Float[Tensor, " row"],
    x: Float[Tensor, "row n"],
    keep: Bool[Tensor, "row n"],
    block: Int[Tensor, "row n"],
    coefficients: Float[Tensor, "row block 4"],
    width: Float[Tensor, " row"],
) -> Float[Tensor, "row n"]:
    """grad[row]·(α_b P' + β_b PP' + γ_b Pw⁴) of each kept element with its block's (center, α, β, γ); 0 elsewhere."""
    block = block.clamp(max=coefficients.shape[1] - 1)
    center, alpha, beta, gamma = (numbers.gather(-1, block) for numbers in coefficients.unbind(-1))
    p, w = _scores(x - center, torch.zeros_like(width), width, keep)
    return torch.where(keep, grad.unsqueeze(-1) * (w**3 * (alpha + beta * p) + gamma * p * w**4), 0.0)


def block_factors(
    centers: Float[Tensor, "row block"], sums: BlockSums, sizes: Int[Tensor, "row block"], settings: SoftSettings
) -> tuple[Float[Tensor, " row"], Float[Tensor, "row block 3"]]:
    """Value, and (α, β, γ) per block, by the chain rule from the outer map F down to one element.

    With w_i = P'_i/ΣP' (the center's derivative), ν_b = √b/a, a = ΣP'/(nc²) and b = ΣP²/(nc²):
      ∂ν_b/∂x_i = [ (P_iP'_i - w_i ΣPP')/√b + 3ν_b·(P_iw_i⁴ - w_i ΣPw⁴)·1{a > a_min} ] / (n a c³)
      ∂F/∂x_i   = F_μ w_i + F_ν ∂ν_b/∂x_i
    """
    c = settings.score_width
    area = sizes.clamp(min=1).to(centers) * c**2  # of integers a float would make float32
    a = sums.slope / area
    root = (sums.square / area).sqrt()  # √b
    floored = a.clamp(min=settings.curvature_floor) + settings.regularizer
    scales = root / floored
    value, by_center, by_scale = outer_derivatives(centers, scales, sizes.to(centers.dtype), settings)

    tiny = torch.finfo(centers.dtype).tiny
    by_scale = by_scale / (area * c * floored)
    beta = torch.where(root > 0, by_scale / root.clamp(min=tiny), 0.0)  # P/√b is at most c√n
    gamma = torch.where(a > settings.curvature_floor, 3 * by_scale * scales, 0.0)
    alpha = (by_center - beta * sums.mixed - gamma * sums.bend) / sums.slope.clamp(min=tiny)
    return value, torch.stack((alpha, beta, gamma), -1)


def _scores(values: Tensor, centers: Tensor, width: float | Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
    """P and w of the kept elements; both 0 elsewhere."""
    r, w = scaled_residuals(values, centers, width, keep)
    w = torch.where(keep, w, 0.0)
    return r * w, w


def _rows(x: Tensor, mask: Tensor | None, bounds: Tensor | None) -> tuple[Tensor, Tensor]:
    """The elements as [row, element] in working precision, 0 where there is none, and which there are."""
    if bounds is not None:
        x, mask = padded(x, bounds)
    keep = torch.ones_like(x, dtype=torch.bool) if mask is None else mask
    return precise(torch.where(keep, x.detach(), 0.0)), keep
