"""`torch.ops.rovrl.soft_rovr`: SoftRoVR's rows as one node of a graph, for torch.compile, torch.export and what they call.

Which kernel computes is decided when the node runs. A graph is there to be run again, so the CPU kernels are compiled for rows
of any size, as within `compiled()`. Gradient: registered, first order; a second derivative is refused with a sentence.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rovrl.robust.fused import compute
from rovrl.robust.fused.saved import Saved
from rovrl.robust.kernels import compiled, kernel_for
from rovrl.robust.once import FIRST_ONLY, NOT_PACKED, folded
from rovrl.robust.settings import SoftNumbers

Solved = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
AUTOCAST = ("cpu", "cuda")


@torch.library.custom_op("rovrl::soft_rovr", mutates_args=())
def operator(
    x: Tensor,
    mask: Tensor | None,
    bounds: Tensor | None,
    num_blocks: int,
    min_block: int,
    num_levels: int,
    score_width: float,
    temperature: float,
    median_width: float,
    curvature_floor: float,
    scale_floor: float,
    scale_cap: float,
    regularizer: float,
    units: str,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The value of every row, eq:softrovr_ratio, then the fields of `Saved`, which only the gradient needs.

    x is float32 or float64, [row, element] with a bool mask or None, or flat with `bounds`, cumulative lengths in int64.
    """
    if x.dtype not in (torch.float32, torch.float64):
        raise ValueError(f"rovrl::soft_rovr takes float32 or float64, not {x.dtype}; rovrl.soft_rovr takes any")
    settings = SoftNumbers(
        num_blocks, min_block, num_levels, score_width, temperature, median_width,
        curvature_floor, scale_floor, scale_cap, regularizer, units,
    )  # fmt: skip
    value, saved = compute.solve(x, mask, bounds, settings, _kernel(x))
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
    return compute.gradient(grad, x, mask, bounds, Saved(edges, coefficients, width, dense), _kernel(x)).contiguous()


def _kernel(x: Tensor) -> str:
    with compiled():
        return kernel_for(x)


@operator.register_fake
def _fake(x: Tensor, mask: Tensor | None, bounds: Tensor | None, num_blocks: int, *_) -> Solved:
    rows = compute.num_rows(x, bounds)
    saved = Saved.blank(x, rows, num_blocks)
    return x.new_empty(rows), saved.edges, saved.coefficients, saved.width, saved.dense


@gradient_operator.register_fake
def _fake_gradient(grad: Tensor, x: Tensor, *_) -> Tensor:
    return x.new_empty(x.shape)


def _remember(ctx, inputs, output) -> None:
    ctx.mark_non_differentiable(*output[1:])
    ctx.save_for_backward(*inputs[:3], *output[1:])


def _backward(ctx, grad: Tensor, *_):
    unlearned = (None,) * (2 + len(SoftNumbers._fields))
    return torch.ops.rovrl.soft_rovr_gradient(grad, *ctx.saved_tensors), *unlearned


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
