"""Local centers and their scales: the M-center with its implicit gradient, the sandwich scale, the smooth median."""

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from rovrl.robust.score import scaled_residuals
from rovrl.robust.solve import m_root


def m_center(
    x: Float[Tensor, "*batch n"],
    score_width: float | Float[Tensor, "*batch"] = 1.0,
    mask: Bool[Tensor, "*batch n"] | None = None,
) -> Float[Tensor, "*batch"]:
    """The convex M-center argmin_u Σ ρ_c(x_i - u), eq:block_m.

    Keeps float32 and float64; narrower types are taken to float32, integers to float64. Empty rows give 0.
    Gradient: implicit, ∂u/∂x_i = ψ'(x_i - u)/Σ_j ψ'(x_j - u), which sums to one; first order only (a second derivative
    is refused). None with respect to score_width.
    """
    if isinstance(score_width, int | float) and not 0 < score_width < math.inf:
        raise ValueError(f"score_width must be a finite positive number, not {score_width!r}")
    x = as_working(x)
    if x.ndim == 0:
        raise ValueError("x must have at least one axis, not a single number")
    if mask is None:
        mask = torch.ones_like(x, dtype=torch.bool)
    elif mask.shape != x.shape:
        mask = _fitting(mask, x)
    width = torch.as_tensor(score_width, dtype=x.dtype, device=x.device).expand(x.shape[:-1])
    return _MCenter.apply(x, width, mask.bool())  # pyright: ignore[reportReturnType]


def _fitting(mask: Tensor, x: Tensor) -> Tensor:
    try:
        return mask.expand(x.shape)
    except RuntimeError:
        raise ValueError(f"mask must have the shape of x, {tuple(x.shape)}, not {tuple(mask.shape)}") from None


def smooth_median(
    values: Float[Tensor, "*batch block"],
    median_width: float | Float[Tensor, "*batch"],
    mask: Bool[Tensor, "*batch block"] | None = None,
) -> Float[Tensor, "*batch"]:
    """smed_η(v) = argmin_u Σ ρ_η(v_b - u), eq:smooth_median: the M-center at width η. Gradient: implicit."""
    return m_center(values, median_width, mask)


def as_working(x: Tensor) -> Tensor:
    """x in the precision we compute in: float64 and float32 stay, half precisions widen, integers become float64."""
    x = dense_real(x)
    if x.dtype in (torch.float32, torch.float64):
        return x
    return x.float() if x.dtype.is_floating_point else x.double()


def dense_real(x: Tensor) -> Tensor:
    """`x` as it is; a ValueError that says what to write for a tensor that does not hold plain real numbers."""
    if x.is_nested:
        kind, remedy = "nested", "pad it (torch.nested.to_padded_tensor) and mask the padding"
    elif x.layout != torch.strided:
        kind, remedy = "sparse", "write x.to_dense()"
    elif x.is_quantized:
        kind, remedy = "quantized", "write x.dequantize()"
    elif x.is_complex():
        kind, remedy = "complex", "write x.real"
    elif x.device.type == "meta":
        kind, remedy = "meta", "it has a shape and no values: load it onto a device first"
    elif x.is_floating_point() and x.itemsize == 1:
        kind, remedy = "8-bit float", "write x.float()"
    else:
        return x
    raise ValueError(f"a {kind} tensor of shape {_shape_of(x)} is no tensor of plain real numbers: {remedy}")


def _shape_of(x: Tensor) -> str:
    return "[ragged]" if x.is_nested else str(tuple(x.shape))


def center_weights(
    x: Float[Tensor, "*batch n"], center: Float[Tensor, "*batch"], width: Tensor, mask: Bool[Tensor, "*batch n"]
) -> Float[Tensor, "*batch n"]:
    """ψ'(x_i - u)/Σ_j ψ'(x_j - u), which sums to one: with s_i = √(c² + (x_i - u)²), the share of (min s/s_i)³."""
    apart = 0.25 * torch.where(mask, x, 0.0) - 0.25 * center.unsqueeze(-1)  # a quarter: no difference overflows
    s = torch.where(mask, torch.hypot(apart, 0.25 * width.unsqueeze(-1)), torch.inf)
    weights = torch.where(mask, s.amin(-1, keepdim=True) / s, 0.0) ** 3
    return weights / weights.sum(-1, keepdim=True).clamp(min=1)  # 0 of an empty row; the nearest element has weight 1


class _MCenter(torch.autograd.Function):
    """The root, differentiated by the implicit-function theorem; written for torch.func as well."""

    @staticmethod
    def forward(x: Tensor, width: Tensor, mask: Tensor) -> Tensor:
        return m_root(x, width, mask)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        x, width, mask, center = ctx.saved_tensors
        return grad.unsqueeze(-1) * center_weights(x, center, width, mask), None, None

    @staticmethod
    def vmap(info, in_dims, x: Tensor, width: Tensor, mask: Tensor):
        batched = [
            t.movedim(d, 0) if d is not None else t.expand(info.batch_size, *t.shape)
            for t, d in zip((x, width, mask), in_dims, strict=True)
        ]
        return _MCenter.apply(*batched), 0


def sandwich_scale(
    x: Float[Tensor, "*batch n"],
    center: Float[Tensor, "*batch"],
    score_width: float | Float[Tensor, "*batch"],
    mask: Bool[Tensor, "*batch n"],
    curvature_floor: float,
    regularizer: float = 0.0,
) -> Float[Tensor, "*batch"]:
    """ν̂_b = √b̂_b/(â_b ∨ a_min), â_b = mean ψ'(x_i - μ̃_b), b̂_b = mean ψ²(x_i - μ̃_b), above eq:robust_sandwich_scale.

    Empty rows give 0. Gradient: autograd, also at a constant block, where the scale is 0 and its gradient is taken as 0.
    """
    width = torch.as_tensor(score_width, dtype=x.dtype, device=x.device)
    r, w = scaled_residuals(x, center, width, mask)
    keep = mask.to(x.dtype)
    count = keep.sum(-1).clamp(min=1)
    a = (w**3 * keep).sum(-1) / count / width**2
    b = ((r * w / width.unsqueeze(-1)) ** 2 * keep).sum(-1) / count
    positive = b > 0
    root = torch.where(positive, torch.sqrt(torch.where(positive, b, 1.0)), 0.0)
    return root / (a.clamp(min=curvature_floor) + regularizer)
