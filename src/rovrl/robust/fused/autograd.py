"""SoftRoVR at convergence as a differentiable function: one forward solve, one backward pass over the elements.

Saved for backward: the inputs, and four numbers per block. Works under torch.func's grad and vmap; second derivatives are
refused with a sentence. While a graph is being traced it is `torch.ops.rovrl.soft_rovr`, one node; otherwise the dispatcher
would cost a quarter of a small call, and drop forward-mode derivatives in silence.
"""

from __future__ import annotations

import inspect

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd import forward_ad

from rovrl.robust.fused import compute
from rovrl.robust.fused.operator import operator
from rovrl.robust.fused.saved import Saved
from rovrl.robust.kernels import kernel_for
from rovrl.robust.once import FIRST_ONLY, NOT_PACKED, REVERSE_ONLY, folded
from rovrl.robust.settings import SoftNumbers, SoftSettings


def soft_rows(
    x: Float[Tensor, "row element"], mask: Bool[Tensor, "row element"] | None, settings: SoftSettings
) -> Float[Tensor, " row"]:
    """SoftRoVR of each row at convergence, eq:softrovr_ratio. Gradient: implicit, first order."""
    return _solved(x, mask, None, settings)


def soft_packed(
    x: Float[Tensor, " element"], bounds: Int[Tensor, " row_plus_1"], settings: SoftSettings
) -> Float[Tensor, " row"]:
    """The same for rows that lie one behind the other: row i is x[bounds[i] : bounds[i + 1]]."""
    return _solved(x, None, bounds, settings)


def _solved(x: Tensor, mask: Tensor | None, bounds: Tensor | None, settings: SoftSettings) -> Tensor:
    if torch.compiler.is_compiling():
        if forward_ad.unpack_dual(x).tangent is not None:
            raise NotImplementedError(REVERSE_ONLY)
        return operator(x, mask, bounds, *(getattr(settings, name) for name in SoftNumbers._fields))[0]
    return _Solve.apply(x, mask, bounds, settings, kernel_for(x))[0]  # pyright: ignore[reportOptionalSubscript, reportIndexIssue]


class _Solve(torch.autograd.Function):
    """Forward: value, then the fields of `Saved`, which the gradient needs."""

    @staticmethod
    def forward(x: Tensor, mask: Tensor | None, bounds: Tensor | None, settings: SoftSettings, kernel: str):
        value, saved = compute.solve(x, mask, bounds, settings, kernel)
        return value, *saved

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        x, mask, bounds, _, ctx.kernel = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(x, mask, bounds, *output[1:])

    @staticmethod
    def backward(ctx, grad: Tensor, *_):  # pyright: ignore[reportIncompatibleMethodOverride]
        return _Gradient.apply(grad, *ctx.saved_tensors, ctx.kernel), None, None, None, None

    @staticmethod
    def jvp(ctx, *_):
        raise NotImplementedError(REVERSE_ONLY)

    @staticmethod
    def vmap(info, in_dims, x: Tensor, mask: Tensor | None, bounds: Tensor | None, settings: SoftSettings, kernel: str):
        if bounds is not None:
            raise NotImplementedError(NOT_PACKED)
        batch = info.batch_size
        rows = [folded(t, d, batch) for t, d in zip((x, mask), in_dims[:2], strict=True)]
        outputs = _Solve.apply(*rows, None, settings, kernel)
        return tuple(t.unflatten(0, (batch, -1)) for t in outputs), (0,) * 5  # pyright: ignore[reportOptionalIterable]


class _Gradient(torch.autograd.Function):
    """The element pass as a function of its own, so that vmap reaches it and a second derivative meets a sentence."""

    @staticmethod
    def forward(grad: Tensor, x, mask, bounds, edges, coefficients, width, dense, kernel: str) -> Tensor:
        return compute.gradient(grad, x, mask, bounds, Saved(edges, coefficients, width, dense), kernel)

    @staticmethod
    def setup_context(ctx, inputs, output) -> None:
        pass

    @staticmethod
    def backward(ctx, *_):
        raise NotImplementedError(FIRST_ONLY)

    @staticmethod
    def vmap(info, in_dims, grad, x, mask, bounds, *rest):
        *numbers, kernel = rest
        batch = info.batch_size
        rows = [folded(t, d, batch) for t, d in zip((grad, x, mask), in_dims[:3], strict=True)]
        numbers = [folded(t, d, batch) for t, d in zip(numbers, in_dims[4:-1], strict=True)]
        out = _Gradient.apply(*rows, bounds, *numbers, kernel)
        return out.unflatten(0, (batch, -1)), 0  # pyright: ignore[reportOptionalMemberAccess]


for _function in (
    _Solve,
    _Gradient,
):  # torch asks for the signature at every call; a stored one saves a sixth of a small one
    _function.forward.__signature__ = inspect.signature(_function.forward)  # pyright: ignore[reportFunctionMemberAccess]
