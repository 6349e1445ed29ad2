"""The spread of values within their groups, in the values' own unit: what "adaptive" credit is measured in.

Not in the paper. Its sandwich scale has the unit of `score_width`: with c = 1 and values that differ by 0.15, a spike counts
as 1. At 10 % spikes four out of five groups of sixteen hold one, so the median over groups triples. Here the width follows the
data, and members are pooled instead of groups, so that 10 % spikes are 10 % of what is averaged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rovrl.robust.outliers.bulk import DISCRETE, ROUNDING
from rovrl.robust.score import scaled_residuals
from rovrl.robust.solve import m_root

WIDTH = 1.25
"""The score width in units of the spread. Wider resists fewer spikes, narrower takes rare honest differences for spikes."""
BEYOND, FEW = 4.0, 0.02
"""What lies so many spreads from the median of its group is far. Up to this share of all, far values hardly matter."""
FAR = 1e12
"""Values farther than this many units from the center count as this far; the score is flat long before."""


@torch.no_grad()
def spread(groups: Sequence[Float[Tensor, "group n"]]) -> float:
    """The s that is its own sandwich scale at c = 1.25·s, over the members of all groups with contrast; 0 if none has.

    s = √(mean ψ_c²)/mean ψ_c' of the residuals R_ij - μ_j, with μ_j the group's M-center at c; at least half the step of a
    discrete variable. `groups` holds one matrix of finite values for each group size. Scales with the unit, ignores
    offsets of groups. Gradient: none.
    """
    parts = [_residuals(rows.detach().double().cpu()) for rows in groups if rows.shape[-1] > 1]
    steps = torch.cat([step for _, step in parts]) if parts else torch.zeros(0, device="cpu")
    if not len(steps):
        return 0.0
    least = 0.5 * float(torch.quantile(steps, DISCRETE, interpolation="lower"))
    typical = float(torch.cat([residual.flatten() for residual, _ in parts]).abs().median())
    unit = max(1.4826 * typical, least)
    scaled = [(residual / unit).clamp(-FAR, FAR) for residual, _ in parts if len(residual)]
    most = max(float(rows.abs().max()) for rows in scaled)
    stacks = _stacked(scaled)
    found = _root(lambda s: _sandwich(stacks, WIDTH * s) / s, max(least / unit, 1e-9), 4 * most)
    return min(found * unit, torch.finfo(torch.float64).max / 4)


@torch.no_grad()
def core_spread(groups: Sequence[Float[Tensor, "group n"]], scattered: Callable[[float], bool]) -> float:
    """`spread` of what lies within `BEYOND` of it from the median of its group, if what is farther is `scattered` by chance.

    That spread times `caution`, since more of what is far asks for a narrower bound. Else, and where no more than `FEW` are
    far, it is the `spread`, which a fifth of far values more than doubles. One step of hard rejection only: rejecting until
    nothing is far would leave the commonest outcome alone. Gradient: none.
    """
    found, rows = spread(groups), [own for own in groups if own.numel()]
    centers = [own.median(-1, keepdim=True).values for own in rows]
    size = float(torch.cat(centers).abs().median()) if rows else 0.0
    limit = BEYOND * found * (1 + ROUNDING) + ROUNDING * size  # discrete values lie on it: rounding puts none beyond
    near = [(own - center).abs() <= limit for own, center in zip(rows, centers, strict=True)]
    far = sum(int((~mask).sum()) for mask in near) / max(sum(mask.numel() for mask in near), 1)
    if far <= FEW or not scattered(limit):
        return found
    return caution(far) * spread(_only(rows, near)) or found


def caution(share: float) -> float:
    """How much narrower than with `FEW` far by chance the best bound is where this `share` is, at least as many."""
    return minimax_bound(share) / minimax_bound(FEW)


def minimax_bound(share: float) -> float:
    """Huber's k: clipping at ±k standard deviations has the least worst variance where this share, in (0, 1), is arbitrary.

    The root of 2φ(k)/k - 2Φ(-k) = share/(1 - share), which falls in k.
    """
    normal = NormalDist()

    def excess(k: float) -> float:
        return 2 * normal.pdf(k) / k - 2 * normal.cdf(-k) - share / (1 - share)

    low, high = 1e-6, 8.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return high


def spread_of_others(rows: Float[Tensor, "group n"]) -> Float[Tensor, "group n"]:
    """For each member a `spread` without its own group, or, if there is one group only, without the member itself.

    Groups are split into two halves, every other one, and each half takes the spread of the other.
    """
    if len(rows) == 1:
        return rows.new_tensor([[spread([rest[None]]) for rest in without_each(rows)[0]]])
    halves = rows.new_tensor([spread([rows[1::2]]), spread([rows[::2]])])
    return halves[torch.arange(len(rows), device=rows.device) % 2].unsqueeze(-1).expand_as(rows)


def without_each(rows: Float[Tensor, "group n"]) -> Float[Tensor, "group n n_minus_1"]:
    """The rows with each of their elements left out in turn."""
    n = rows.shape[-1]
    others = torch.tensor([[j for j in range(n) if j != i] for i in range(n)], device=rows.device)
    return rows[:, others]


def _only(groups: Sequence[Tensor], chosen: Sequence[Tensor]) -> list[Tensor]:
    """The chosen members of each group, one matrix for each number of them."""
    left: dict[int, list[Tensor]] = {}
    for rows, mask in zip(groups, chosen, strict=True):
        sizes = mask.sum(-1)
        for m in sizes.unique().tolist():
            left.setdefault(m, []).append(rows[sizes == m][mask[sizes == m]].view(-1, m))
    return [torch.cat(parts) for parts in left.values()]


def _residuals(x: Tensor) -> tuple[Tensor, Tensor]:
    """The residuals of each group with contrast from its median, and its smallest step from one value to another."""
    largest = torch.finfo(x.dtype).max
    residual = (x - x.median(-1, keepdim=True).values).clamp(-largest, largest)
    ordered = x.sort(-1).values
    lower, upper = ordered[:, :-1], ordered[:, 1:]
    step, rounding = (upper - lower).clamp(max=largest), ROUNDING * torch.maximum(lower.abs(), upper.abs())
    step = torch.where(step > rounding.clamp(min=1e-300), step, torch.inf).amin(-1)
    contrast = step.isfinite()
    return residual[contrast], step[contrast]


class Stack(NamedTuple):
    """Groups of similar sizes as one matrix, the shorter ones filled up with zeros; and their members in a row."""

    rows: Float[Tensor, "group n"]
    mask: Bool[Tensor, "group n"] | None
    """What is not filled up; None: nothing is."""
    members: Float[Tensor, "m 1"]
    group: Int[Tensor, " m"]
    """The row of each member."""


def _stacked(groups: Sequence[Float[Tensor, "group n"]]) -> list[Stack]:
    """Few matrices in place of one for each group size; none is more than half empty."""
    left = sorted(groups, key=lambda rows: rows.shape[-1], reverse=True)
    stacks = []
    while left:
        longest = left[0].shape[-1]
        alike = [rows for rows in left if 2 * rows.shape[-1] >= longest]
        left = left[len(alike) :]
        rows = torch.cat([torch.nn.functional.pad(rows, (0, longest - rows.shape[-1])) for rows in alike])
        sizes = torch.cat([torch.full((len(rows),), rows.shape[-1], device=rows.device) for rows in alike])
        mask = torch.arange(longest, device=rows.device) < sizes.unsqueeze(-1)
        group = torch.arange(len(rows), device=rows.device).repeat_interleave(sizes)
        stacks.append(Stack(rows, mask if len(alike) > 1 else None, rows[mask].unsqueeze(-1), group))
    return stacks


def _sandwich(stacks: Sequence[Stack], c: float) -> float:
    """√(mean ψ_c²)/mean ψ_c' over all groups' residuals from their M-centers."""
    square = slope = count = 0.0
    for rows, mask, members, group in stacks:
        r, w = scaled_residuals(members, m_root(rows, c, mask)[group], c)
        square += float(((r * w) ** 2).sum())
        slope += float((w * w * w).sum())
        count += len(members)
    return c * math.sqrt(square * count) / slope


def _root(ratio: Callable[[float], float], low: float, high: float) -> float:
    """The s in [low, high] at which the falling `ratio` is 1, by secants in log s that keep a bracket; `low` if none is."""
    a, b = math.log(low), math.log(high)
    at_a, at_b = math.log(ratio(low)), math.log(ratio(high))
    if at_a <= 0:
        return low
    for _ in range(60):
        middle = b - at_b * (b - a) / (at_b - at_a)
        at_middle = math.log(ratio(math.exp(middle)))
        if at_middle * at_b < 0:
            a, at_a = b, at_b
        else:
            at_a /= 2  # Illinois: the end that stays must not hold the secant back
        b, at_b = middle, at_middle
        if abs(at_b) < 1e-10 or abs(b - a) < 1e-10:
            break
    return math.exp(b)
