"""Rows that lie one behind the other: row i is x[bounds[i] : bounds[i + 1]]."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


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
