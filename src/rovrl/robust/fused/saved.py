"""What the forward pass of a kernel leaves for its gradient."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


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
