"""SoftRoVR at convergence as a differentiable function: one forward solve, one backward pass over the elements.

Saved for backward: the inputs, and four numbers per block. Works under torch.func's grad and vmap; second derivatives are
refused with a sentence. While a graph is being traced it is `torch.ops.rovrl.soft_rovr`, one node, for torch.compile,
torch.export and what they call; otherwise the dispatcher would cost a quarter of a small call, and drop forward-mode
derivatives in silence. Which kernel computes is decided when the node runs. A graph is there to be run again, so the CPU
kernels are compiled for rows of any size, as within `compiled()`.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import overload

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd import forward_ad

from rovrl.robust.kernels import compiled, kernel_for
from rovrl.robust.settings import SoftSettings
from rovrl.robust.soft.solution import Saved, check_bounds

FIRST_ONLY = "SoftRoVR has first derivatives only; a second one was asked for (create_graph=True, or grad of grad)"
REVERSE_ONLY = "SoftRoVR has reverse-mode derivatives only, no forward-mode ones (jvp, jacfwd, hessian)"
NOT_PACKED = "torch.func.vmap over packed elements: append the rows to one packed tensor instead"
Solved = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
AUTOCAST = ("cpu", "cuda")

BACKENDS = {
    "eager": "rovrl.robust.soft.eager",
    "numba": "rovrl.robust.soft.cpu",
    "triton": "rovrl.robust.soft.cuda",
}
"""Kernel -> the module with its `solve` and `gradient`; imported when it is needed."""


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
        return operator(x, mask, bounds, settings.numbers, settings.units)[0]
    return _Solve.apply(x, mask, bounds, settings, kernel_for(x))[0]  # pyright: ignore[reportOptionalSubscript, reportIndexIssue]


def solve(
    x: Tensor, mask: Tensor | None, bounds: Tensor | None, settings: SoftSettings, kernel: str
) -> tuple[Tensor, Saved]:
    """The value of every row at convergence, eq:softrovr_ratio, and what its gradient needs.

    x is [row, element] with a bool mask or None, or flat elements with `bounds`, their cumulative lengths.
    """
    if bounds is not None:
        check_bounds(bounds, len(x))
    if x.numel() == 0:
        rows = num_rows(x, bounds)
        return x.new_zeros(rows), Saved.blank(x, rows, settings.num_blocks)
    return _backend(kernel).solve(x, mask, bounds, settings)


def gradient(grad: Tensor, x: Tensor, mask: Tensor | None, bounds: Tensor | None, saved: Saved, kernel: str) -> Tensor:
    """grad[row]·∂value/∂element in the shape of x, from what `solve` gave: one pass over the elements."""
    return x.new_zeros(x.shape) if x.numel() == 0 else _backend(kernel).gradient(grad, x, mask, bounds, saved)


def num_rows(x: Tensor, bounds: Tensor | None) -> int:
    """How many rows there are."""
    return x.shape[0] if bounds is None else bounds.shape[0] - 1


def _backend(kernel: str) -> ModuleType:
    return import_module(BACKENDS[kernel])


class _Solve(torch.autograd.Function):
    """Forward: value, then the fields of `Saved`, which the gradient needs."""

    @staticmethod
    def forward(x: Tensor, mask: Tensor | None, bounds: Tensor | None, settings: SoftSettings, kernel: str):
        value, saved = solve(x, mask, bounds, settings, kernel)
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
        return gradient(grad, x, mask, bounds, Saved(edges, coefficients, width, dense), kernel)

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


@overload
def folded(t: Tensor, dim: int | None, batch: int) -> Tensor: ...
@overload
def folded(t: None, dim: int | None, batch: int) -> None: ...
def folded(t: Tensor | None, dim: int | None, batch: int) -> Tensor | None:
    """t with vmap's axis merged into the row axis; None stays None."""
    if t is None:
        return None
    t = t.movedim(dim, 0) if dim is not None else t.expand(batch, *t.shape)
    return t.flatten(0, 1)


@torch.library.custom_op("rovrl::soft_rovr", mutates_args=())
def operator(
    x: Tensor, mask: Tensor | None, bounds: Tensor | None, numbers: list[float], units: str
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The value of every row, eq:softrovr_ratio, then the fields of `Saved`, which only the gradient needs.

    x is float32 or float64, [row, element] with a bool mask or None, or flat with `bounds`, cumulative lengths in int64;
    `numbers` and `units` are those of the settings.
    """
    if x.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"rovrl::soft_rovr takes float32 or float64, not {x.dtype}; rovrl.soft_rovr takes any")
    settings = SoftSettings.of_numbers(numbers, units)
    value, saved = solve(x, mask, bounds, settings, _kernel(x))
    return value, saved.edges, saved.coefficients, saved.width, saved.dense


@torch.library.custom_op("rovrl::soft_rovr_gradient", mutates_args=())
def gradient_operator(
    grad: Tensor,
    x: Tensor,
    mask: Tensor | None,
    bounds: Tensor | None,
    edges: Tensor,
    coefficients: Tensor,
    width: Tensor,
    dense: Tensor,
) -> Tensor:
    """grad[row]·∂value/∂element in the shape of x."""
    # plain torch keeps the strides of x; a graph relies on those of `_fake_gradient`
    return gradient(grad, x, mask, bounds, Saved(edges, coefficients, width, dense), _kernel(x)).contiguous()


def _kernel(x: Tensor) -> str:
    with compiled():
        return kernel_for(x)


@operator.register_fake
def _fake(x: Tensor, mask: Tensor | None, bounds: Tensor | None, numbers: list[float], units: str) -> Solved:
    rows = num_rows(x, bounds)
    saved = Saved.blank(x, rows, SoftSettings.of_numbers(numbers, units).num_blocks)
    return x.new_empty(rows), saved.edges, saved.coefficients, saved.width, saved.dense


@gradient_operator.register_fake
def _fake_gradient(grad: Tensor, x: Tensor, *_) -> Tensor:
    return x.new_empty(x.shape)


def _remember(ctx, inputs, output) -> None:
    ctx.mark_non_differentiable(*output[1:])
    ctx.save_for_backward(*inputs[:3], *output[1:])


def _backward(ctx, grad: Tensor, *_):
    return torch.ops.rovrl.soft_rovr_gradient(grad, *ctx.saved_tensors), None, None, None, None


def _refuse(ctx, *_):
    raise NotImplementedError(FIRST_ONLY)


operator.register_autograd(_backward, setup_context=_remember)
gradient_operator.register_autograd(_refuse)
for _device in AUTOCAST:
    operator.register_autocast(_device, torch.float32)  # float64 stays as it is


@operator.register_vmap
def _vmap(info, in_dims, x: Tensor, mask: Tensor | None, bounds: Tensor | None, *settings):
    if bounds is not None:
        raise NotImplementedError(NOT_PACKED)
    rows = [folded(t, d, info.batch_size) for t, d in zip((x, mask), in_dims[:2], strict=True)]
    outputs = torch.ops.rovrl.soft_rovr(*rows, None, *settings)
    return tuple(t.unflatten(0, (info.batch_size, -1)) for t in outputs), (0,) * 5


@gradient_operator.register_vmap
def _vmap_gradient(info, in_dims, grad: Tensor, x: Tensor, mask: Tensor | None, bounds: Tensor | None, *numbers):
    batch = info.batch_size
    rows = [folded(t, d, batch) for t, d in zip((grad, x, mask), in_dims[:3], strict=True)]
    kept = [folded(t, d, batch) for t, d in zip(numbers, in_dims[4:], strict=True)]
    return torch.ops.rovrl.soft_rovr_gradient(*rows, bounds, *kept).unflatten(0, (batch, -1)), 0
