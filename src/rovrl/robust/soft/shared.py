"""SoftRoVR of rows whose elements are spread over the processes of a group (eq:softrovr_ratio).

Every process holds a piece of every row. Blocks are those of the whole row, wherever it is cut; what the processes tell each
other is how many elements each has and sums per block, so that the traffic does not depend on the length of a row.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.distributed as dist
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from rovrl.robust.score import scaled_residuals
from rovrl.robust.settings import SoftSettings
from rovrl.robust.soft.eager import BlockSums, balanced, block_factors, element_gradient, pooled_unit
from rovrl.robust.solve import bracketed_root, precise, score_terms

ORDERS = {
    "contiguous": lambda rank, ranks: (rank,),
    "zigzag": lambda rank, ranks: (rank, 2 * ranks - 1 - rank),
}
"""Order -> the numbers of the pieces of a row that a rank holds, one behind the other."""


def soft_shared(
    x: Float[Tensor, "row n"],
    mask: Bool[Tensor, "row n"] | None,
    settings: SoftSettings,
    group: dist.ProcessGroup | None,
    order: str,
) -> Float[Tensor, " row"]:
    """SoftRoVR of each row at convergence, the same number on every rank. Gradient: of the rank's own elements; first order."""
    keep = torch.ones_like(x, dtype=torch.bool) if mask is None else mask
    return _Shared.apply(x, keep, settings, group, order)  # pyright: ignore[reportReturnType]


class _Shared(torch.autograd.Function):
    """The backward pass needs no word from the other ranks: the block's numbers are known to all."""

    @staticmethod
    def forward(ctx, x: Tensor, keep: Tensor, settings: SoftSettings, group: dist.ProcessGroup | None, order: str):  # pyright: ignore[reportIncompatibleMethodOverride]
        piece = _Piece.of(precise(torch.where(keep, x.detach(), 0.0)), keep, settings, group, order)
        value, coefficients, width = _solve(piece, settings)
        ctx.save_for_backward(x, keep, piece.block.to(torch.int32), coefficients, width)
        return torch.where(piece.sizes.sum(-1) > 0, value, 0.0).to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):  # pyright: ignore[reportIncompatibleMethodOverride]
        x, keep, block, coefficients, width = ctx.saved_tensors
        wide = precise(torch.where(keep, x, 0.0))
        return element_gradient(grad, wide, keep, block.long(), coefficients, width).to(x.dtype), None, None, None, None


class _Piece(NamedTuple):
    """A rank's elements, 0 where there is none, which block of the whole row each belongs to, and the blocks' sizes."""

    x: Float[Tensor, "row n"]
    keep: Bool[Tensor, "row n"]
    block: Int[Tensor, "row n"]
    sizes: Int[Tensor, "row block"]
    group: dist.ProcessGroup | None

    @classmethod
    def of(cls, x: Tensor, keep: Tensor, settings: SoftSettings, group: dist.ProcessGroup | None, order: str) -> _Piece:
        ranks = dist.get_world_size(group)
        mine = ORDERS[order](dist.get_rank(group), ranks)
        parts = keep.tensor_split(len(mine), -1)
        counts = keep.new_zeros(len(mine) * ranks, len(keep), dtype=torch.int64)
        for number, part in zip(mine, parts, strict=True):
            counts[number] = part.sum(-1)
        dist.all_reduce(counts, group=group)
        before = counts.cumsum(0) - counts
        place = [before[number, :, None] + part.cumsum(-1) - 1 for number, part in zip(mine, parts, strict=True)]
        sizes, starts = balanced(counts.sum(0)[:, None], settings.num_blocks, settings.min_block)
        block = torch.searchsorted(starts + sizes, torch.cat(place, -1), right=True)
        return cls(x, keep, block.clamp(max=settings.num_blocks - 1), sizes, group)

    def sums(self, *terms: Float[Tensor, "row n"]) -> tuple[Tensor, ...]:
        """Σ of each term over every block of the whole row, [row, block] each."""
        kept = torch.stack([torch.where(self.keep, term, 0.0) for term in terms])
        index = self.block.expand_as(kept)
        total = self.x.new_zeros(len(terms), *self.sizes.shape).scatter_add(-1, index, kept)
        dist.all_reduce(total, group=self.group)
        return total.unbind(0)

    def range(self) -> tuple[Tensor, Tensor]:
        """The least and the greatest element of every block; 0 for an empty one."""
        ends = torch.stack([torch.where(self.keep, end, -torch.inf) for end in (-self.x, self.x)])
        most = ends.new_full((2, *self.sizes.shape), -torch.inf)
        most = most.scatter_reduce(-1, self.block.expand_as(ends), ends, "amax")
        dist.all_reduce(most, op=dist.ReduceOp.MAX, group=self.group)
        negated, high = torch.where(self.sizes > 0, most, 0.0).unbind(0)
        return -negated, high

    def at(self, numbers: Float[Tensor, "row block"]) -> Float[Tensor, "row n"]:
        """Each element's block's number."""
        return numbers.gather(-1, self.block)


def _solve(piece: _Piece, settings: SoftSettings) -> tuple[Tensor, Tensor, Tensor]:
    """Value, (center, α, β, γ) per block, and score width of every row."""
    finite = piece.x.isfinite()
    piece = piece._replace(x=torch.where(finite, piece.x, 0.0))
    total, bad = piece.sums(piece.x, (~finite).to(piece.x.dtype))
    count = piece.sizes.clamp(min=1)
    unit = piece.x.new_ones(len(piece.x))
    if settings.units == "robust":
        (deviation,) = piece.sums((piece.x - piece.at(total / count)).abs())
        unit = pooled_unit(deviation / count, piece.sizes, settings.scale_floor)
        piece, total = piece._replace(x=piece.x / unit[:, None]), total / unit[:, None]
    centers = _centers(piece, total / count, settings.score_width)
    p, w = _scores(piece, centers, settings.score_width)
    sums = BlockSums(*piece.sums(w**3, p * p, p * w**3, p * w**4))
    centers = torch.where(bad > 0, torch.nan, centers)
    value, factors = block_factors(centers, sums, piece.sizes, settings)
    coefficients = torch.cat(((unit[:, None] * centers).unsqueeze(-1), factors), -1)
    return unit * value, coefficients, settings.score_width * unit


def _centers(piece: _Piece, mean: Tensor, width: float) -> Float[Tensor, "row block"]:
    """The M-center of every block, eq:block_m: from its mean, one pair of sums per step; the root is unique."""
    low, high = piece.range()

    def sums(u: Tensor) -> tuple[Tensor, Tensor]:
        side, rest, slope = piece.sums(*score_terms(piece.x - piece.at(u), width))
        return side / width**2 - rest, slope

    start = torch.where(mean.isfinite(), mean, 0.5 * low + 0.5 * high).clamp(low, high)
    return bracketed_root(sums, low, high, start, width, watched=True)


def _scores(piece: _Piece, centers: Tensor, width: float) -> tuple[Tensor, Tensor]:
    r, w = scaled_residuals(piece.x - piece.at(centers), piece.x.new_zeros(len(piece.x)), width)
    return r * w, w
