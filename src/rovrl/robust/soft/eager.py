"""SoftRoVR at convergence in plain torch, differentiated by the implicit-function theorem (eq:softrovr_ratio).

The same two functions as the fused kernels have, in the same terms. In units of the score width, r = (x - u)/c and
w = (1 + r²)^(-1/2), an element's derivative is α_b P' + β_b PP' + γ_b Pw⁴ with three numbers per block, where

    P = r w = c ψ_c,   P' = w³ = c² ψ_c',   P w⁴ = -c³ ψ_c''/3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rovrl.robust.centers import center_weights
from rovrl.robust.correction import composite, composite_weight, logistic_step, quantile_grid, thresholds
from rovrl.robust.score import scaled_residuals
from rovrl.robust.settings import SoftSettings
from rovrl.robust.soft.solution import Saved, padded
from rovrl.robust.solve import m_root, masked_median, precise

LARGEST_UNIT = 1e300
"""So that a width in such units is still a number."""
LARGEST = 2e307
"""Centers in small units are cut off here, so that differences of two do not overflow."""


@dataclass(frozen=True)
class Layout:
    """Where the elements of each row go: `index` into the row, and which slots exist."""

    index: Int[Tensor, "row block slot"]
    mask: Bool[Tensor, "row block slot"]
    sizes: Int[Tensor, "row block"]

    def gather(self, x: Float[Tensor, "row n"]) -> Float[Tensor, "row block slot"]:
        """The elements in their slots; slots that do not exist hold anything."""
        return x.gather(-1, self.index.flatten(1)).view_as(self.index)

    def edges(self) -> Int[Tensor, "row edge"]:
        """The first element of the first block, and the place behind the last element of each; the same for empty blocks."""
        used = self.sizes > 0
        last = self.index.gather(-1, (self.sizes - 1).clamp(min=0).unsqueeze(-1)).squeeze(-1)
        behind = torch.where(used, last + 1, 0).cummax(-1).values
        return torch.cat((torch.where(used[:, :1], self.index[:, 0, :1], 0), behind), -1)


def balanced(total: Int[Tensor, "row 1"], num_blocks: int, min_block: int) -> tuple[Tensor, Tensor]:
    """n_b and the number of elements before block b: B = min(num_blocks, T // min_block), at least 1.

    The first T mod B blocks have one element more. Rows with fewer blocks leave the last ones empty.
    """
    used = (total // min_block).clamp(1, num_blocks)
    base, extra = total // used, total % used
    block = torch.arange(num_blocks, device=total.device)
    sizes = torch.where(block < used, base + (block < extra), 0)
    return sizes, block * base + torch.minimum(block, extra)


def contiguous_layout(mask: Bool[Tensor, "row n"], num_blocks: int, min_block: int) -> Layout:
    """Balanced contiguous blocks over the kept elements in order.

    The number of slots follows from the shape alone, so that nothing waits for the device.
    """
    width = mask.shape[-1]
    sizes, starts = balanced(mask.sum(-1, keepdim=True), num_blocks, min_block)
    slots = min(width, max(-(-width // num_blocks), 2 * min_block))
    slot = torch.arange(slots, device=mask.device)
    kept_first = (~mask).to(torch.uint8).argsort(dim=-1, stable=True)
    place = (starts.unsqueeze(-1) + slot).clamp(max=width - 1).flatten(1)
    index = kept_first.gather(-1, place).unflatten(-1, (num_blocks, slots))
    return Layout(index, slot < sizes.unsqueeze(-1), sizes)


def row_unit(values: Float[Tensor, "row block slot"], layout: Layout, scale_floor: float) -> Float[Tensor, " row"]:
    """The unit of units="robust": the median over blocks of √(π/2)·(mean absolute deviation), at least scale_floor.

    Not in the paper. The median over blocks ignores a burst; the mean deviation inside a block, unlike a median one, is
    not zero where a few elements carry all the movement. In this unit SoftRoVR is scale equivariant as well.
    """
    keep = layout.mask.to(values.dtype)
    sizes = layout.sizes.clamp(min=1).to(values.dtype)
    share = keep / sizes.unsqueeze(-1)  # divided first: a sum of large numbers must not overflow
    mean = (values * share).sum(-1, keepdim=True)
    deviation = (values * share - mean * share).abs().sum(-1)
    return pooled_unit(deviation, layout.sizes, scale_floor)


def pooled_unit(
    deviation: Float[Tensor, "row block"], sizes: Int[Tensor, "row block"], scale_floor: float
) -> Float[Tensor, " row"]:
    """The same from the blocks' mean absolute deviations."""
    return (math.sqrt(math.pi / 2) * masked_median(deviation, sizes > 0)).clamp(scale_floor, LARGEST_UNIT)


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
