"""The differentiable RoVR of masked rows: contiguous blocks, smooth medians, logistic correction (eq:softrovr_ratio).

Two ways to differentiate one map. "implicit" differentiates the converged solution in closed form: the outer map lives on
small [row, block] tensors, and each element's derivative is α_b ψ' + β_b ψψ' + γ_b ψ'' with three numbers per block.
"unrolled" is the paper's object: S solver steps, each seen by autograd.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rovrl.robust.centers import sandwich_scale, smooth_median
from rovrl.robust.correction import soft_correction
from rovrl.robust.once import FIRST_ONLY, REVERSE_ONLY, folded
from rovrl.robust.score import scaled_residuals
from rovrl.robust.settings import SoftSettings
from rovrl.robust.solve import m_root
from rovrl.robust.unroll import unrolled_center

Center = Callable[[Tensor, float, Tensor], Tensor]


@dataclass(frozen=True)
class Layout:
    """Where the elements of each row go: `index` into the row, and which slots exist."""

    index: Int[Tensor, "row block slot"]
    mask: Bool[Tensor, "row block slot"]
    sizes: Int[Tensor, "row block"]

    def gather(self, x: Float[Tensor, "row n"]) -> Float[Tensor, "row block slot"]:
        """The elements in their slots; slots that do not exist hold anything."""
        return x.gather(-1, self.index.flatten(1)).view_as(self.index)


def contiguous_layout(mask: Bool[Tensor, "row n"], num_blocks: int, min_block: int) -> Layout:
    """Balanced contiguous blocks over the kept elements in order: B = min(num_blocks, T // min_block), at least 1.

    The first T mod B blocks have one element more. Rows with fewer blocks leave the last ones empty. The number of slots
    follows from the shape alone, so that nothing waits for the device.
    """
    width = mask.shape[-1]
    total = mask.sum(-1, keepdim=True)
    used = (total // min_block).clamp(1, num_blocks)
    base, extra = total // used, total % used
    block = torch.arange(num_blocks, device=mask.device)
    sizes = torch.where(block < used, base + (block < extra), 0)
    starts = block * base + torch.minimum(block, extra)
    slots = min(width, max(-(-width // num_blocks), 2 * min_block))
    slot = torch.arange(slots, device=mask.device)
    kept_first = (~mask).to(torch.uint8).argsort(dim=-1, stable=True)
    place = (starts.unsqueeze(-1) + slot).clamp(max=width - 1).flatten(1)
    index = kept_first.gather(-1, place).unflatten(-1, (num_blocks, slots))
    return Layout(index, slot < sizes.unsqueeze(-1), sizes)


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


def unrolled(x: Float[Tensor, "row n"], mask: Bool[Tensor, "row n"], settings: SoftSettings) -> Float[Tensor, " row"]:
    """The paper's SoftRoVR_{γ,η,S}: every root by S differentiated solver steps (eq:softrovr_ratio)."""

    def center(values: Tensor, width: float, keep: Tensor) -> Tensor:
        return unrolled_center(values, width, keep, settings.iterations, settings.regularizer)

    layout = contiguous_layout(mask, settings.num_blocks, settings.min_block)
    values = layout.gather(x)
    values = torch.where(layout.mask, values, 0.0)
    sizes = layout.sizes.to(x.dtype)
    centers = center(values, settings.score_width, layout.mask)
    scales = sandwich_scale(
        values, centers, settings.score_width, layout.mask, settings.curvature_floor, settings.regularizer
    )
    return outer_map(centers, scales, sizes, settings, center)


def implicit(x: Float[Tensor, "row n"], mask: Bool[Tensor, "row n"], settings: SoftSettings) -> Float[Tensor, " row"]:
    """SoftRoVR at convergence (eq:softrovr_ratio), differentiated by the implicit-function theorem.

    Gradient: one pass over the elements; nothing but the input and three numbers per block is kept. First order only.
    """
    return _Implicit.apply(x, mask, settings)[0]  # pyright: ignore[reportIndexIssue, reportOptionalSubscript]


SOLUTIONS = {"implicit": implicit, "unrolled": unrolled}
"""RatioChannel.gradient -> the map."""


class _Implicit(torch.autograd.Function):
    """Forward: value, and per block the center and the coefficients (α, β, γ) of the element-wise derivative."""

    @staticmethod
    def forward(x: Tensor, mask: Tensor, settings: SoftSettings):
        layout = contiguous_layout(mask, settings.num_blocks, settings.min_block)
        values = layout.gather(x)
        centers = m_root(values, settings.score_width, layout.mask)
        return _coefficients(values, centers, layout, settings)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        x, mask, settings = inputs
        _, centers, coefficients = output
        ctx.mark_non_differentiable(centers, coefficients)
        ctx.save_for_backward(x, mask, centers, coefficients)
        ctx.settings = settings

    @staticmethod
    def backward(ctx, grad: Tensor, *_):  # pyright: ignore[reportIncompatibleMethodOverride]
        return _Adjoint.apply(grad, *ctx.saved_tensors, ctx.settings), None, None

    @staticmethod
    def jvp(ctx, *_):
        raise NotImplementedError(REVERSE_ONLY)

    @staticmethod
    def vmap(info, in_dims, x: Tensor, mask: Tensor, settings: SoftSettings):
        rows, keep = (folded(t, d, info.batch_size) for t, d in zip((x, mask), in_dims[:2], strict=True))
        outputs = _Implicit.apply(rows, keep, settings)
        return tuple(t.unflatten(0, (info.batch_size, -1)) for t in outputs), (0, 0, 0)  # pyright: ignore[reportOptionalIterable]


class _Adjoint(torch.autograd.Function):
    """The pass over the elements as a function of its own, so that vmap reaches it and a second derivative meets a sentence."""

    @staticmethod
    def forward(grad: Tensor, x: Tensor, mask: Tensor, centers: Tensor, coefficients: Tensor, settings: SoftSettings):
        layout = contiguous_layout(mask, settings.num_blocks, settings.min_block)
        values = layout.gather(x)
        psi, slope, bend = _derivatives(values, centers, layout.mask, settings.score_width)
        alpha, beta, gamma = (c.unsqueeze(-1) for c in coefficients.unbind(-1))
        local = torch.where(layout.mask, alpha * slope + beta * psi * slope + gamma * bend, 0.0)
        flat = torch.zeros_like(x).scatter_add(-1, layout.index.flatten(1), local.flatten(1))
        return flat * grad.unsqueeze(-1)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        pass

    @staticmethod
    def backward(ctx, *_):
        raise NotImplementedError(FIRST_ONLY)

    @staticmethod
    def vmap(info, in_dims, *inputs):
        *tensors, settings = inputs
        rows = [folded(t, d, info.batch_size) for t, d in zip(tensors, in_dims[:-1], strict=True)]
        return _Adjoint.apply(*rows, settings).unflatten(0, (info.batch_size, -1)), 0  # pyright: ignore[reportOptionalMemberAccess]


def _derivatives(values: Tensor, centers: Tensor, mask: Tensor, width: float) -> tuple[Tensor, Tensor, Tensor]:
    """cψ, c²ψ' and c³ψ'' of the residuals (eq:convex_score and its derivative), free of units."""
    r, w = scaled_residuals(values, centers, width, mask)
    slope = w * w * w
    return r * w, slope, -3 * r * slope * w * w


def _coefficients(values: Tensor, centers: Tensor, layout: Layout, settings: SoftSettings):
    """Value, centers, and (α, β, γ) per block, by the chain rule from the outer map down to one element.

    With w_i = ψ'_i/Σψ' (the center's derivative), p = mean ψ ψ', d = mean ψ'', and F the outer map:
      ∂ν_b/∂x_i = [ (ψ_iψ'_i - n p w_i)/√b - (√b/a)(ψ''_i - n d w_i)·1{a > a_min} ] / (n a)
      ∂F/∂x_i   = F_μ w_i + F_ν ∂ν_b/∂x_i
    """
    c = settings.score_width
    keep = layout.mask.to(values.dtype)
    n = keep.sum(-1).clamp(min=1)
    psi, slope, bend = _derivatives(values, centers, layout.mask, c)
    total = (slope * keep).sum(-1)
    a = total / n / c**2
    root = ((psi * psi * keep).sum(-1) / n).sqrt() / c  # √b
    floored = a.clamp(min=settings.curvature_floor) + settings.regularizer
    scales = root / floored
    value, by_center, by_scale = _outer_derivatives(centers, scales, layout.sizes.to(values.dtype), settings)

    tiny = torch.finfo(values.dtype).tiny
    from_psi = by_scale / (n * floored * c**2) / (root * c).clamp(min=tiny)  # multiplies c³ψψ'; ψ/√b is at most √n
    from_psi = torch.where(root > 0, from_psi, 0.0)
    free = a > settings.curvature_floor
    from_bend = torch.where(free, -by_scale * root / (n * floored**2 * c**3), 0.0)
    through_center = by_center - from_psi * (psi * slope * keep).sum(-1) - from_bend * (bend * keep).sum(-1)
    alpha = through_center / total.clamp(min=tiny)
    return value, centers, torch.stack((alpha, from_psi, from_bend), -1)


def _outer_derivatives(centers: Tensor, scales: Tensor, sizes: Tensor, settings: SoftSettings):
    """F, ∂F/∂μ̃_b and ∂F/∂ν̂_b: the outer map is small, so autograd differentiates it."""
    with torch.enable_grad():
        centers = centers.detach().requires_grad_()
        scales = scales.detach().requires_grad_()
        value = outer_map(centers, scales, sizes, settings, smooth_median)
        by_center, by_scale = torch.autograd.grad(value.sum(), (centers, scales))
    return value.detach(), by_center, by_scale
