"""What the forward pass of a fused kernel leaves for its gradient."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Bool, Float, Int
from torch import Tensor


class Saved(NamedTuple):
    """Per row: where its blocks lie, (center, α, β, γ) of each block, the score width, and whether the row has no holes."""

    edges: Int[Tensor, "row edge"]
    coefficients: Float[Tensor, "row block 4"]
    width: Float[Tensor, " row"]
    dense: Bool[Tensor, " row"]
