"""How far replaced rewards can move the reference of the group at hand, with certainty: it holds for any rewards."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from rovrl.config import RewardChannel
from rovrl.guarantees.efficiency import density_sum, root_size_sum
from rovrl.guarantees.premises import block_sizes, count
from rovrl.guarantees.sharp import one_sided_blocks
from rovrl.robust.blocks import Blocks
from rovrl.robust.centers import sandwich_scale
from rovrl.robust.location import REFERENCES
from rovrl.robust.scale import scale_source
from rovrl.robust.solve import m_root

SCALE_CELLS = 32
"""Cells in which a moved center is looked for when its block's scale is bounded."""
ROUNDING = 4e-12
"""What is added outwards: beyond the solver's error (1e-12 of the middle gap or the score width), and that of the reference
which the interval is to hold."""
SATURATED = 1e100
"""Distances are cut here, in score widths: ψ is ±M_c and ψ' is 0 to the last bit, and squares do not overflow."""
BOUNDED = ("rovr", "robust_mom", "global_m")
"""The references that a minority of replaced rewards cannot carry away."""


def breakdown(sizes: tuple[int, ...]) -> int:
    """The fewest replaced rewards that can carry the reference anywhere: half of each of ⌈B/2⌉ blocks, the smallest ones.

    One fewer cannot, wherever they are put and whoever chooses. Half of a block means ⌈n_b/2⌉. For an even number of
    blocks the reference is a midpoint, which half of the blocks carry away.
    """
    halves = sorted(-(-n // 2) for n in block_sizes(sizes))
    return sum(halves[: -(-len(halves) // 2)])


@torch.no_grad()
def reference_range(
    rewards: Float[Tensor, "*batch group"], blocks: Blocks, channel: RewardChannel, replaced: int
) -> tuple[Float[Tensor, "*batch"], Float[Tensor, "*batch"]]:
    """Interval that holds θ̂_R of every group that differs from this one in at most `replaced` rewards.

        median_b⁻ − C ≤ θ̂' ≤ median_b⁺ + C,   C = ν⁺ K h/(2 D_K W_B)  (`sharp_correction_envelope`)

    median_b⁺ is exact but for rounding outwards: m rewards move a block's center up at most to the root of
    Σ_kept ψ_c(x − t) + m M_c = 0, its m smallest left out, and the budget is spread over the blocks in the worst way. ν⁺ is
    the largest pooled scale that the same budget allows, at most ν_max. As exact for one block; infinite from `breakdown` on,
    and for references with unbounded scores. ν̂ is taken as fixed where it is a pilot or comes from earlier steps.
    """
    x = rewards.double()
    r = count("replaced", replaced, 0, blocks.n)
    if r == 0:
        exact = REFERENCES[channel.reference](x, blocks, channel)
        return exact, exact
    if channel.reference not in BOUNDED:
        reach = torch.full_like(x[..., 0], math.inf)
        return -reach, reach
    if channel.reference == "global_m":
        blocks = Blocks.contiguous(blocks.n, 1)
    values, mask = blocks.gather(x)
    up, down = (_centers(side, mask, r, channel.score_width) for side in (values, -values))
    envelope = _envelope(values, mask, -down, up, blocks, channel, r)
    low, high = -_median(down, r) - envelope, _median(up, r) + envelope
    return torch.nextafter(low, torch.full_like(low, -math.inf)), torch.nextafter(high, torch.full_like(high, math.inf))


def _centers(values: Tensor, mask: Tensor, r: int, width: float) -> Float[Tensor, "*batch block budget"]:
    """The highest M-center of each block after m = 0 ... r replacements, rounded up; infinite from half of the block on.

    Replaced rewards are as far as a number can be: what a nearer one lacks of M_c counts where the kept ones are far apart.
    """
    ascending = torch.where(mask, values, math.inf).sort(-1).values
    size = mask.sum(-1)
    ascending = torch.where(ascending.isinf(), 0.0, ascending)
    real = torch.arange(mask.shape[-1]) < size.unsqueeze(-1)  # the existing slots, now in front
    extent = torch.where(mask, values, -math.inf).amax(-1) - ascending[..., 0]
    reached = []
    for m in range(r + 1):
        moved = torch.where(torch.arange(mask.shape[-1]) < m, torch.finfo(values.dtype).max, ascending)
        center = m_root(moved, width, real.expand(moved.shape))
        center = center + ROUNDING * (width + extent) + 16 * torch.finfo(center.dtype).eps * center.abs()
        reached.append(torch.where(2 * m < size, center, math.inf))
    return torch.stack(reached, -1)


def _median(reach: Float[Tensor, "*batch block budget"], r: int) -> Float[Tensor, "*batch"]:
    """The highest median of the blocks that r replacements can reach; for even B a bound, the middle two taken apart."""
    B = reach.shape[-2]
    return _ranked(reach, B // 2 + 1, r) / 2 + _ranked(reach, (B + 1) // 2, r) / 2


def _ranked(reach: Tensor, k: int, r: int) -> Float[Tensor, "*batch"]:
    """The largest t that k blocks can reach together with r replacements; reach[b, m] rises with m.

    It is one of the values in `reach`; a block's price for t is the number of its values below t.
    """
    candidates = reach.flatten(-2)
    price = (reach.unsqueeze(-3) < candidates[..., None, None]).sum(-1)  # [*batch, candidate, block]
    cheapest = price.sort(-1).values[..., :k].sum(-1)
    return torch.where(cheapest <= r, candidates, -math.inf).amax(-1)


def _envelope(
    values: Tensor, mask: Tensor, low: Tensor, high: Tensor, blocks: Blocks, channel: RewardChannel, r: int
) -> Float[Tensor, "*batch"]:
    """The most that the outer correction adds to the median, with the largest pooled scale within the budget."""
    if len(blocks.sizes) == 1 or channel.reference != "rovr":
        return torch.zeros_like(values[..., 0, 0])
    K = channel.num_levels
    unit = K * one_sided_blocks(blocks.sizes) / (2 * density_sum(K) * root_size_sum(blocks.sizes))
    if scale_source(blocks, channel) != "local":
        if isinstance(channel.scale_source, str):
            raise ValueError('scale_source must be a number where the blocks\' own scale is not used, not "lagged"')
        nu = torch.full_like(values[..., 0, 0], channel.scale_source)
    else:
        nu = _median(_scales(values, mask, low, high, channel), r)
    return nu.clamp(channel.scale_floor, channel.scale_cap) * unit * (1 + ROUNDING)


def _scales(
    values: Tensor, mask: Tensor, low: Tensor, high: Tensor, channel: RewardChannel
) -> Float[Tensor, "*batch block budget"]:
    """A bound on each block's sandwich scale after m = 0 ... r replacements, its center anywhere in [low, high].

    ν² = mean ψ²/(mean ψ')²: the rewards farthest from the center have the largest ψ² and the smallest ψ', and a
    replaced one has at most M_c² and at least 0; so the m nearest are the ones to replace. Evaluated per cell of the
    center's range, at each reward's largest distance from the cell.
    """
    c, size = channel.score_width, mask.sum(-1)
    center = m_root(values, c, mask.expand(values.shape))
    own = sandwich_scale(values, center, c, mask.expand(values.shape), channel.curvature_floor)
    bounds = [own]
    for m in range(1, low.shape[-1]):
        edges = _edges(low[..., m], high[..., m])
        ends = (values.unsqueeze(-2) - edges.unsqueeze(-1)).abs() / c  # [*batch, block, edge, slot]
        distance = torch.maximum(ends[..., 1:, :], ends[..., :-1, :]).clamp(max=SATURATED)
        farthest = torch.where(mask.unsqueeze(-2), distance, -1.0).sort(-1, descending=True).values
        kept = torch.arange(mask.shape[-1]) < (size - m).clamp(min=0)[:, None, None]
        shrink = torch.rsqrt(1 + farthest * farthest)
        square = torch.where(kept, (farthest * shrink) ** 2, 0.0).sum(-1) + m
        slope = torch.where(kept, shrink**3, 0.0).sum(-1)
        n = size.unsqueeze(-1)
        worst = (square / n).sqrt() / c / (slope / n / c**2).clamp(min=channel.curvature_floor)
        whole = torch.where(2 * m < size, worst.amax(-1), math.inf)
        bounds.append(torch.maximum(whole, bounds[-1]))  # fewer replacements are allowed too
    return torch.stack(bounds, -1)


def _edges(low: Tensor, high: Tensor) -> Tensor:
    """The ends of the cells of [low, high]; of one empty cell where that is infinite."""
    steps = torch.linspace(0, 1, SCALE_CELLS + 1, dtype=low.dtype)
    bounded = low.isfinite() & high.isfinite()
    low, high = torch.where(bounded, low, 0.0).unsqueeze(-1), torch.where(bounded, high, 0.0).unsqueeze(-1)
    return low * (1 - steps) + high * steps  # no difference: that of two rewards may overflow
