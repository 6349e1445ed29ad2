"""The hard estimators through the compiled lane kernels: torch tensors in, torch tensors out. No gradient.

Numba is imported at the first call, because it takes about a second and is optional.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rovrl.robust.blocks import Blocks
from rovrl.robust.correction import quantile_grid
from rovrl.robust.settings import ReferenceSettings


class ReferenceConstants(NamedTuple):
    """The numbers of the hard estimator (eq:rovr), by name: numba takes the tuple itself."""

    score_width: float
    curvature_floor: float
    scale_floor: float
    scale_cap: float
    tie_tolerance: float
    density: float
    """D_K."""
    given_scale: float
    """ν for all rows; NaN: each row's own."""


def center_rows(x: Tensor, width: float, mask: Tensor | None) -> Tensor:
    """The M-center of every row [..., n], eq:block_m; NaN where a kept element is not finite, 0 of nothing."""
    from rovrl.robust.kernels import lanes

    rows = x.detach().reshape(-1, x.shape[-1]).contiguous()
    kept = None if mask is None else mask.expand(x.shape).reshape(rows.shape).contiguous().view(torch.uint8).numpy()
    center = np.empty(len(rows))
    lanes.center_rows(rows.numpy(), kept, float(width), center)
    return torch.from_numpy(center).to(x.dtype).reshape(x.shape[:-1])


def reference_rows(x: Tensor, blocks: Blocks, settings: ReferenceSettings, given_scale: float | None) -> list[Tensor]:
    """RoVR of every float64 row [..., n], its scale ν and Ĉ_B, eq:rovr; for B > 1.

    `given_scale` is the ν of all rows; None: each row's own.
    """
    from rovrl.robust.kernels import lanes

    rows = x.detach().reshape(-1, x.shape[-1]).contiguous()
    order, starts = _flat(blocks)
    grid = quantile_grid(settings.num_levels)
    numbers = [getattr(settings, name) for name in ReferenceConstants._fields[:-2]]
    nu = math.nan if given_scale is None else given_scale
    constants = ReferenceConstants(*map(float, (*numbers, grid.density, nu)))  # an int would be compiled anew
    found = [np.empty(len(rows)) for _ in range(3)]
    lanes.reference_rows(rows.numpy(), order, starts, grid.offsets.numpy(), constants, *found)
    return [torch.from_numpy(numbers).reshape(x.shape[:-1]) for numbers in found]


def bounded_rows(x: Tensor, center: Tensor, bound: float, floor: float) -> tuple[Tensor, Tensor]:
    """χ(x - center)/scale and scale = {floor² + mean χ²}^½ of every float64 row, χ(u) = u/√(1 + (u/bound)²)."""
    from rovrl.robust.kernels import lanes

    out, scale = torch.empty_like(x), torch.empty_like(center)
    rows = x.detach().contiguous().numpy()
    lanes.bounded_rows(rows, center.numpy(), float(bound), float(floor), out.numpy(), scale.numpy())
    return out, scale


@lru_cache(maxsize=256)
def _flat(blocks: Blocks) -> tuple[np.ndarray, np.ndarray]:
    order = np.array([i for block in blocks.members for i in block])
    return order, np.concatenate([[0], np.cumsum(blocks.sizes)])
