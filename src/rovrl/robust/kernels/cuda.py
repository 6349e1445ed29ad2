"""SoftRoVR on CUDA through the Triton kernels; the same two functions as cpu.py, without any wait for the device."""

# pyright: reportMissingImports=false, reportOperatorIssue=false, reportAttributeAccessIssue=false, reportArgumentType=false

from __future__ import annotations

import math
from functools import lru_cache

import torch
import triton
from torch import Tensor

from rovrl.config import RatioChannel
from rovrl.robust.correction import quantile_grid
from rovrl.robust.kernels import triton_outer, triton_rows
from rovrl.robust.solve import masked_median

CHUNK = 1024
STEPS = 400
FAR = {torch.float32: 1e7, torch.float64: 1e15}


def solve(x: Tensor, mask: Tensor | None, bounds: Tensor | None, channel: RatioChannel) -> tuple[Tensor, ...]:
    """The value of every row, and what its gradient needs: (value, edges, coefficients, width, dense); see cpu.solve."""
    tokens, begin, place, length = _rows(x, bounds)
    rows, blocks, masked = len(begin), channel.num_blocks, mask is not None
    keep = _bytes(mask, x)
    sizes = torch.empty(rows, blocks, dtype=torch.int64, device=x.device)
    edges = torch.empty(rows, blocks + 1, dtype=torch.int64, device=x.device)
    lanes = triton.next_power_of_2(blocks)
    triton_rows.cut_kernel[(rows,)](
        keep, place, length, sizes, edges, blocks, channel.min_block, LANES=lanes, MASKED=masked, CHUNK=CHUNK
    )
    options = {"MASKED": masked, "CHUNK": CHUNK}
    unit = torch.ones(rows, dtype=torch.float64, device=x.device)
    if channel.units == "robust":
        deviation = torch.empty(rows, blocks, dtype=torch.float64, device=x.device)
        triton_rows.deviation_kernel[(rows, blocks)](
            tokens, keep, begin, place, sizes, edges, deviation, blocks, **options
        )
        unit = (math.sqrt(math.pi / 2) * masked_median(deviation, sizes > 0)).clamp(min=channel.scale_floor)
    width = channel.score_width * unit
    state = torch.empty(rows, blocks, 5, dtype=torch.float64, device=x.device)
    triton_rows.solve_kernel[(rows, blocks)](
        tokens, keep, begin, place, width, sizes, edges, state, blocks, FAR[x.dtype], STEPS=STEPS, **options
    )
    offsets, constants = _constants(channel, x.device)
    value = torch.empty(rows, dtype=torch.float64, device=x.device)
    coefficients = torch.empty(rows, blocks, 4, dtype=torch.float64, device=x.device)
    triton_outer.outer_kernel[(rows,)](
        sizes, state, unit, offsets, constants, value, coefficients, blocks, channel.num_levels,
        LANES=lanes, LEVELS=triton.next_power_of_2(channel.num_levels), STEPS=STEPS,
    )  # fmt: skip
    return value.to(x.dtype), edges, coefficients, width, torch.zeros_like(begin, dtype=torch.bool)


def gradient(
    grad: Tensor,
    x: Tensor,
    mask: Tensor | None,
    bounds: Tensor | None,
    edges: Tensor,
    coefficients: Tensor,
    width: Tensor,
    dense: Tensor,
) -> Tensor:
    """grad[row]·∂value/∂token in the shape of x: one pass over the tokens."""
    tokens, begin, place, _ = _rows(x, bounds)
    out = torch.zeros(x.shape, dtype=x.dtype, device=x.device)
    blocks = edges.shape[1] - 1
    triton_rows.gradient_kernel[(len(begin), blocks)](
        tokens, _bytes(mask, x), begin, place, width, edges, coefficients, grad.double().contiguous(), out, blocks,
        FAR[x.dtype], MASKED=mask is not None, CHUNK=CHUNK,
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


@lru_cache(maxsize=64)
def _constants(channel: RatioChannel, device: torch.device) -> tuple[Tensor, Tensor]:
    """Δ_1..K, and (D_K, γ, η, ν_min, ν_max, a_min, regularizer, c), on the device."""
    c, grid = channel, quantile_grid(channel.num_levels)
    constants = (
        grid.density,
        c.temperature,
        c.median_width,
        c.scale_floor,
        c.scale_cap,
        c.curvature_floor,
        c.regularizer,
        c.score_width,
    )
    return grid.offsets.to(device), torch.tensor(constants, dtype=torch.float64, device=device)
