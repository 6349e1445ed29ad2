"""SoftRoVR on CUDA through the Triton kernels; the same two functions as cpu.py, without any wait for the device."""

# pyright: reportMissingImports=false, reportOperatorIssue=false, reportAttributeAccessIssue=false, reportArgumentType=false

from __future__ import annotations

import math

import torch
import triton
from torch import Tensor

from rovrl.robust.kernels import triton_rows
from rovrl.robust.settings import SoftSettings
from rovrl.robust.soft.eager import LARGEST_UNIT
from rovrl.robust.soft.solution import Saved, soft_tensors
from rovrl.robust.solve import masked_median

CHUNK = 1024
STEPS = 2400
"""Bisection of the whole double range, every other step near an end; seldom more than ten."""
FAR = 1e90
"""r at which it is cut off: w³ must not underflow, and all arithmetic is in double."""


def solve(x: Tensor, mask: Tensor | None, bounds: Tensor | None, settings: SoftSettings) -> tuple[Tensor, Saved]:
    """The value of every row, and what its gradient needs; see cpu.solve."""
    elements, begin, place, length = _rows(x, bounds)
    rows, blocks, masked = len(begin), settings.num_blocks, mask is not None
    keep = _bytes(mask, x)
    sizes = torch.empty(rows, blocks, dtype=torch.int64, device=x.device)
    edges = torch.empty(rows, blocks + 1, dtype=torch.int64, device=x.device)
    lanes = triton.next_power_of_2(blocks)
    triton_rows.cut_kernel[(rows,)](
        keep, place, length, sizes, edges, blocks, settings.min_block, LANES=lanes, MASKED=masked, CHUNK=CHUNK
    )
    options = {"MASKED": masked, "CHUNK": CHUNK}
    unit = torch.ones(rows, dtype=torch.float64, device=x.device)
    if settings.units == "robust":
        deviation = torch.empty(rows, blocks, dtype=torch.float64, device=x.device)
        triton_rows.deviation_kernel[(rows, blocks)](
            elements, keep, begin, place, sizes, edges, deviation, blocks, **options
        )
        unit = (math.sqrt(math.pi / 2) * masked_median(deviation, sizes > 0)).clamp(settings.scale_floor, LARGEST_UNIT)
    width = settings.score_width * unit
    state = torch.empty(rows, blocks, 5, dtype=torch.float64, device=x.device)
    triton_rows.solve_kernel[(rows, blocks)](
        elements, keep, begin, place, width, sizes, edges, state, blocks, FAR, STEPS=STEPS, **options
    )
    offsets, constants = soft_tensors(settings, x.device)
    value = torch.empty(rows, dtype=torch.float64, device=x.device)
    coefficients = torch.empty(rows, blocks, 4, dtype=torch.float64, device=x.device)
    triton_rows.outer_kernel[(rows,)](
        sizes, state, unit, offsets, constants, value, coefficients, blocks, settings.num_levels,
        LANES=lanes, LEVELS=triton.next_power_of_2(settings.num_levels), STEPS=STEPS,
    )  # fmt: skip
    saved = Saved(edges, coefficients, width, torch.zeros_like(begin, dtype=torch.bool))
    return value.to(x.dtype), saved


def gradient(grad: Tensor, x: Tensor, mask: Tensor | None, bounds: Tensor | None, saved: Saved) -> Tensor:
    """grad[row]·∂value/∂element in the shape of x: one pass over the elements."""
    elements, begin, place, _ = _rows(x, bounds)
    out = torch.zeros(x.shape, dtype=x.dtype, device=x.device)
    blocks = saved.edges.shape[1] - 1
    triton_rows.gradient_kernel[(len(begin), blocks)](
        elements, _bytes(mask, x), begin, place, saved.width, saved.edges, saved.coefficients,
        grad.double().contiguous(), out, blocks, FAR, MASKED=mask is not None, CHUNK=CHUNK,
    )  # fmt: skip
    return out


def _bytes(mask: Tensor | None, x: Tensor) -> Tensor:
    """The mask's bytes; any tensor where there is none, since a kernel needs a pointer."""
    return x if mask is None else mask.contiguous().view(torch.uint8)


def _rows(x: Tensor, bounds: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    if bounds is not None:
        return x.contiguous(), bounds[:-1].contiguous(), bounds[:-1].contiguous(), bounds.diff()
    if x.stride(1) != 1:
        x = x.contiguous()
    row = torch.arange(x.shape[0], device=x.device)
    return x, row * x.stride(0), row * x.shape[1], torch.full_like(row, x.shape[1])
