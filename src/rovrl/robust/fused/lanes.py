"""The hard estimators through the compiled lane kernels: torch tensors in, torch tensors out. No gradient.

The kernels take short rows side by side and give up on a row with huge outliers or a non-finite entry: they say which rows
are solved, and the caller has a slower way for the rest. Numba is imported at the first call, because it takes about a second
and is optional.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from rovrl.robust.blocks import Blocks
from rovrl.robust.correction import quantile_grid
from rovrl.robust.fused.constants import reference_constants
from rovrl.robust.settings import ReferenceSettings


def center_rows(x: Tensor, width: float, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """The M-center of every row [..., n], eq:block_m, and a bool mask [...] of the rows that are solved."""
    from rovrl.robust.kernels import lanes

    rows = x.detach().reshape(-1, x.shape[-1]).contiguous()
    kept = None if mask is None else mask.reshape(rows.shape).contiguous().view(torch.uint8).numpy()
    center, solved = np.empty(len(rows)), np.empty(len(rows), bool)
    lanes.center_rows(rows.numpy(), kept, float(width), center, solved)
    shape = x.shape[:-1]
    return torch.from_numpy(center).to(x.dtype).reshape(shape), torch.from_numpy(solved).reshape(shape)


def reference_rows(
    x: Tensor, blocks: Blocks, settings: ReferenceSettings, given_scale: float | None
) -> tuple[Tensor, Tensor, Tensor]:
    """RoVR of every float64 row [..., n], its scale ν, eq:rovr, and a bool mask [...] of the rows that are solved; for B > 1.

    `given_scale` is the ν of all rows; None: each row's own.
    """
    from rovrl.robust.kernels import lanes

    rows = x.detach().reshape(-1, x.shape[-1]).contiguous()
    order, starts = _flat(blocks)
    offsets, constants = quantile_grid(settings.num_levels).offsets, reference_constants(settings, given_scale)
    reference, scale, solved = np.empty(len(rows)), np.empty(len(rows)), np.empty(len(rows), bool)
    lanes.reference_rows(rows.numpy(), order, starts, offsets.numpy(), constants, reference, scale, solved)
    found = (torch.from_numpy(numbers).reshape(x.shape[:-1]) for numbers in (reference, scale, solved))
    return tuple(found)  # pyright: ignore[reportReturnType]


def bounded_rows(x: Tensor, center: Tensor, bound: float, floor: float) -> tuple[Tensor, Tensor]:
    """χ(x - center)/scale and scale = {floor² + mean χ²}^½ of every float64 row, χ(u) = u/√(1 + (u/bound)²)."""
    from rovrl.robust.kernels import bounded

    out, scale = torch.empty_like(x), torch.empty_like(center)
    rows = x.detach().contiguous().numpy()
    bounded.bounded_rows(rows, center.numpy(), float(bound), float(floor), out.numpy(), scale.numpy())
    return out, scale


@lru_cache(maxsize=256)
def _flat(blocks: Blocks) -> tuple[np.ndarray, np.ndarray]:
    order = np.array([i for block in blocks.members for i in block])
    return order, np.concatenate([[0], np.cumsum(blocks.sizes)])
