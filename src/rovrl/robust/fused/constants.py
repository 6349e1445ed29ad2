"""The settings as the numbers that kernels take."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor

from rovrl.robust.correction import quantile_grid
from rovrl.robust.kernels.constants import OuterConstants, ReferenceConstants
from rovrl.robust.settings import ReferenceSettings, SoftSettings


def reference_constants(settings: ReferenceSettings, given_scale: float | None) -> ReferenceConstants:
    """The numbers of eq:rovr; a scale of None is each row's own."""
    numbers = (
        settings.score_width,
        settings.curvature_floor,
        settings.scale_floor,
        settings.scale_cap,
        settings.tie_tolerance,
        quantile_grid(settings.num_levels).density,
        math.nan if given_scale is None else given_scale,
    )
    return ReferenceConstants(*map(float, numbers))  # an int would be another type, and compiled anew


@lru_cache(maxsize=64)
def outer_constants(settings: SoftSettings) -> tuple[Tensor, OuterConstants]:
    """Δ_1..K and the numbers of the outer map (eq:softrovr_ratio)."""
    grid = quantile_grid(settings.num_levels)
    numbers = (
        grid.density,
        settings.temperature,
        settings.median_width,
        settings.scale_floor,
        settings.scale_cap,
        settings.curvature_floor,
        settings.regularizer,
        settings.score_width,
    )
    return grid.offsets, OuterConstants(*map(float, numbers))


@lru_cache(maxsize=64)
def outer_tensors(settings: SoftSettings, device: torch.device) -> tuple[Tensor, Tensor]:
    """`outer_constants` on a device, the numbers as one float64 tensor in the order of their names."""
    offsets, constants = outer_constants(settings)
    return offsets.to(device), torch.tensor(constants, dtype=torch.float64, device=device)
