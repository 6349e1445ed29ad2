"""The hard side through the compiled lane kernels: torch tensors in, torch tensors out. No gradient."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from rovrl.config import RewardChannel
from rovrl.robust.blocks import Blocks
from rovrl.robust.correction import quantile_grid
from rovrl.robust.kernels import bounded, lanes


def center_rows(x: Tensor, width: float, mask: Tensor | None, slower: Callable[..., Tensor]) -> Tensor:
    """The M-center of every row [..., n], eq:block_m; rows that need it go to `slower(rows, width, mask)`."""
    rows = x.detach().reshape(-1, x.shape[-1]).contiguous()
    kept = None if mask is None else mask.reshape(rows.shape).contiguous()
    center, solved = np.empty(len(rows)), np.empty(len(rows), bool)
    bytes_ = None if kept is None else kept.view(torch.uint8).numpy()
    lanes.center_rows(rows.numpy(), bytes_, float(width), center, solved)
    found = torch.from_numpy(center).to(x.dtype)
    if not solved.all():
        rest = torch.from_numpy(~solved)
        found[rest] = slower(rows[rest], width, None if kept is None else kept[rest])
    return found.reshape(x.shape[:-1])


def reference_rows(
    x: Tensor, blocks: Blocks, channel: RewardChannel, slower: Callable[..., tuple[Tensor, Tensor]]
) -> tuple[Tensor, Tensor]:
    """RoVR of every float64 row [..., n] and its scale ν, eq:rovr, for B > 1; "lagged" must have become a number.

    Rows that need it go to `slower(rows, blocks, channel)`.
    """
    rows = x.detach().reshape(-1, x.shape[-1]).contiguous()
    order, starts = _flat(blocks)
    grid, c = quantile_grid(channel.num_levels), channel
    given = math.nan if isinstance(c.scale_source, str) else c.scale_source  # NaN: the blocks' own
    numbers = (c.score_width, c.curvature_floor, c.scale_floor, c.scale_cap, c.tie_tolerance, grid.density, given)
    reference, used, solved = np.empty(len(rows)), np.empty(len(rows)), np.empty(len(rows), bool)
    lanes.reference_rows(rows.numpy(), order, starts, grid.offsets.numpy(), np.array(numbers), reference, used, solved)
    found, scale = torch.from_numpy(reference), torch.from_numpy(used)
    if not solved.all():
        rest = torch.from_numpy(~solved)
        found[rest], scale[rest] = slower(rows[rest], blocks, channel)
    return found.reshape(x.shape[:-1]), scale.reshape(x.shape[:-1])


def bounded_rows(x: Tensor, center: Tensor, bound: float, floor: float) -> tuple[Tensor, Tensor]:
    """χ(x - center)/scale and scale = {floor² + mean χ²}^½ of every float64 row, χ(u) = u/√(1 + (u/bound)²)."""
    out, scale = torch.empty_like(x), torch.empty_like(center)
    bounded.bounded_rows(x.detach().contiguous().numpy(), center.numpy(), bound, floor, out.numpy(), scale.numpy())
    return out, scale


@lru_cache(maxsize=256)
def _flat(blocks: Blocks) -> tuple[np.ndarray, np.ndarray]:
    order = np.array([i for block in blocks.members for i in block])
    return order, np.concatenate([[0], np.cumsum(blocks.sizes)])
