"""Where the elements of each row go: contiguous blocks of balanced sizes, and the unit in which a row is measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rovrl.robust.solve import masked_median

LARGEST_UNIT = 1e300
"""So that a width in such units is still a number."""
LARGEST = 2e307
"""Centers in small units are cut off here, so that differences of two do not overflow."""


@dataclass(frozen=True)
class Layout:
    """Where the elements of each row go: `index` into the row, and which slots exist."""

    index: Int[Tensor, "row block slot"]
    mask: Bool[Tensor, "row block slot"]
    sizes: Int[Tensor, "row block"]

    def gather(self, x: Float[Tensor, "row n"]) -> Float[Tensor, "row block slot"]:
        """The elements in their slots; slots that do not exist hold anything."""
        return x.gather(-1, self.index.flatten(1)).view_as(self.index)

    def edges(self) -> Int[Tensor, "row edge"]:
        """The first element of the first block, and the place behind the last element of each; the same for empty blocks."""
        used = self.sizes > 0
        last = self.index.gather(-1, (self.sizes - 1).clamp(min=0).unsqueeze(-1)).squeeze(-1)
        behind = torch.where(used, last + 1, 0).cummax(-1).values
        return torch.cat((torch.where(used[:, :1], self.index[:, 0, :1], 0), behind), -1)


def balanced(total: Int[Tensor, "row 1"], num_blocks: int, min_block: int) -> tuple[Tensor, Tensor]:
    """n_b and the number of elements before block b: B = min(num_blocks, T // min_block), at least 1.

    The first T mod B blocks have one element more. Rows with fewer blocks leave the last ones empty.
    """
    used = (total // min_block).clamp(1, num_blocks)
    base, extra = total // used, total % used
    block = torch.arange(num_blocks, device=total.device)
    sizes = torch.where(block < used, base + (block < extra), 0)
    return sizes, block * base + torch.minimum(block, extra)


def contiguous_layout(mask: Bool[Tensor, "row n"], num_blocks: int, min_block: int) -> Layout:
    """Balanced contiguous blocks over the kept elements in order.

    The number of slots follows from the shape alone, so that nothing waits for the device.
    """
    width = mask.shape[-1]
    sizes, starts = balanced(mask.sum(-1, keepdim=True), num_blocks, min_block)
    slots = min(width, max(-(-width // num_blocks), 2 * min_block))
    slot = torch.arange(slots, device=mask.device)
    kept_first = (~mask).to(torch.uint8).argsort(dim=-1, stable=True)
    place = (starts.unsqueeze(-1) + slot).clamp(max=width - 1).flatten(1)
    index = kept_first.gather(-1, place).unflatten(-1, (num_blocks, slots))
    return Layout(index, slot < sizes.unsqueeze(-1), sizes)


def row_unit(values: Float[Tensor, "row block slot"], layout: Layout, scale_floor: float) -> Float[Tensor, " row"]:
    """The unit of units="robust": the median over blocks of √(π/2)·(mean absolute deviation), at least scale_floor.

    Not in the paper. The median over blocks ignores a burst; the mean deviation inside a block, unlike a median one, is
    not zero where a few elements carry all the movement. In this unit SoftRoVR is scale equivariant as well.
    """
    keep = layout.mask.to(values.dtype)
    sizes = layout.sizes.clamp(min=1).to(values.dtype)
    share = keep / sizes.unsqueeze(-1)  # divided first: a sum of large numbers must not overflow
    mean = (values * share).sum(-1, keepdim=True)
    deviation = (values * share - mean * share).abs().sum(-1)
    return pooled_unit(deviation, layout.sizes, scale_floor)


def pooled_unit(
    deviation: Float[Tensor, "row block"], sizes: Int[Tensor, "row block"], scale_floor: float
) -> Float[Tensor, " row"]:
    """The same from the blocks' mean absolute deviations."""
    return (math.sqrt(math.pi / 2) * masked_median(deviation, sizes > 0)).clamp(scale_floor, LARGEST_UNIT)
