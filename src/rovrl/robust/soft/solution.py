"""What every kernel of SoftRoVR takes and leaves: its constants, what a gradient needs, rows that lie one behind the other."""

from __future__ import annotations

from collections import namedtuple
from functools import lru_cache
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rovrl.robust.correction import quantile_grid
from rovrl.robust.settings import NUMBERS, SoftSettings

SoftConstants = namedtuple("SoftConstants", ("density", *NUMBERS))  # pyright: ignore[reportUntypedNamedTuple]
"""D_K and the settings as the kernels take them: numba the tuple itself, Triton an array in the same order."""


@lru_cache(maxsize=64)
def soft_constants(settings: SoftSettings) -> tuple[Tensor, SoftConstants]:
    """Δ_1..K and the constants of the outer map (eq:softrovr_ratio)."""
    grid = quantile_grid(settings.num_levels)
    return grid.offsets, SoftConstants(grid.density, *(float(getattr(settings, name)) for name in NUMBERS))


@lru_cache(maxsize=64)
def soft_tensors(settings: SoftSettings, device: torch.device) -> tuple[Tensor, Tensor]:
    """`soft_constants` on a device, the numbers as one float64 tensor in the order of their names."""
    offsets, constants = soft_constants(settings)
    return offsets.to(device), torch.tensor(constants, dtype=torch.float64, device=device)


class Saved(NamedTuple):
    """Per row: where its blocks lie, (center, α, β, γ) of each block, the score width, and whether the row has no holes.

    The same for every kernel: one may finish what another began. A row that says it has holes may have none.
    """

    edges: Int[Tensor, "row edge"]
    coefficients: Float[Tensor, "row block 4"]
    width: Float[Tensor, " row"]
    dense: Bool[Tensor, " row"]

    @classmethod
    def blank(cls, x: Tensor, rows: int, num_blocks: int) -> Saved:
        """What rows without elements leave: zeros."""
        wide = x.dtype if x.device.type == "mps" else torch.float64
        return cls(
            x.new_zeros(rows, num_blocks + 1, dtype=torch.int64),
            x.new_zeros(rows, num_blocks, 4, dtype=wide),
            x.new_zeros(rows, dtype=wide),
            x.new_zeros(rows, dtype=torch.bool),
        )


def check_bounds(bounds: Int[Tensor, " row_plus_1"], elements: int) -> None:
    """A ValueError unless `bounds` rise from 0 to the number of elements."""
    if bounds.device.type != "cpu":  # the check would stall the device
        return
    if int(bounds[0]) != 0 or int(bounds[-1]) != elements or bool((bounds.diff() < 0).any()):
        raise ValueError(
            f"cu_seqlens must rise from 0 to the length of log_ratios, {elements}, "
            f"not {bounds[:4].tolist()} ... {int(bounds[-1])}"
        )


def padded(
    x: Float[Tensor, " element"], bounds: Int[Tensor, " row_plus_1"]
) -> tuple[Float[Tensor, "row n"], Bool[Tensor, "row n"]]:
    """The rows side by side, as long as the longest, and which elements exist. Gradient: autograd."""
    lengths = bounds.diff().unsqueeze(-1)
    place = torch.arange(int(lengths.max()) if len(lengths) else 0, device=x.device)
    keep = place < lengths
    return x[torch.where(keep, bounds[:-1, None] + place, 0)], keep
