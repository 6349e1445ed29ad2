"""The peers, with the same signatures as ours, each with its reference and its known weakness in one line.

`ADVANTAGES[name](rewards [..., group], channel, *, blocks=None, generator=None)`; the channel and the blocks play no part.
`WEIGHTS[name](log_ratios [..., token], mask, channel)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rovrl.config import RatioChannel
from rovrl.groups import as_rewards
from rovrl.robust.centers import as_working
from rovrl.robust.solve import masked_median
from rovrl.weight import gspo_mean

MAD_CONSISTENCY = 1.4826
SCALE_EPSILON = 1e-6
WINSOR_SHARE = 0.1
GMPO_RANGE = 0.4

Rewards = Float[Tensor, "*batch group"]


def dr_grpo(rewards: Rewards, keep: Tensor) -> Rewards:
    """R_i - mean, no scale (Dr. GRPO, arXiv 2503.20783). Weakness: one huge reward is one huge advantage."""
    return rewards - _mean(rewards, keep)


def rloo(rewards: Rewards, keep: Tensor) -> Rewards:
    """R_i minus the mean of the others (RLOO, arXiv 2402.14740). Weakness: unbounded, like every raw residual."""
    count = keep.sum(-1, keepdim=True)
    return (rewards - _mean(rewards, keep)) * count / (count - 1).clamp(min=1)


def median_mad(rewards: Rewards, keep: Tensor) -> Rewards:
    """(R_i - median)/(1.4826 MAD + 1e-6) (MC-GRPO, arXiv 2601.22582). Weakness: MAD is 0 as soon as half the rewards tie."""
    residual = rewards - _median(rewards, keep)
    return residual / (MAD_CONSISTENCY * _median(residual.abs(), keep) + SCALE_EPSILON)


def shortest_half(rewards: Rewards, keep: Tensor) -> Rewards:
    """Residual to the median of the shortest half, over its RMS (GAPO, arXiv 2510.21830). Weakness: the RMS is the raw one."""
    residual = rewards - _shortest_half_median(rewards, keep)
    square = torch.where(keep, residual**2, 0.0).sum(-1, keepdim=True) / keep.sum(-1, keepdim=True).clamp(min=1)
    return residual / (square.sqrt() + SCALE_EPSILON)


def winsor(rewards: Rewards, keep: Tensor) -> Rewards:
    """GRPO after clamping each tail's tenth to its edge (winsorising). Weakness: a fixed share is cut, clean or not."""
    count = keep.sum(-1, keepdim=True)
    cut = (WINSOR_SHARE * count).ceil().long().clamp(max=(count - 1).clamp(min=0) // 2)
    ordered = torch.where(keep, rewards, torch.inf).sort(-1).values
    low, high = ordered.gather(-1, cut), ordered.gather(-1, (count - 1 - cut).clamp(min=0))
    clamped = torch.minimum(torch.maximum(rewards, low), high)
    residual = clamped - _mean(clamped, keep)
    square = torch.where(keep, residual**2, 0.0).sum(-1, keepdim=True) / (count - 1).clamp(min=1)
    return residual / (square.sqrt() + SCALE_EPSILON)


def gspo(
    log_ratios: Float[Tensor, "*seq token"], mask: Bool[Tensor, "*seq token"] | None = None, channel: Any = None
) -> Float[Tensor, "*seq"]:
    """The mean token log-ratio (GSPO, arXiv 2507.18071). Weakness: one burst moves it by its size over T."""
    return gspo_mean(log_ratios, mask)


def gmpo(
    log_ratios: Float[Tensor, "*seq token"], mask: Bool[Tensor, "*seq token"] | None = None, channel: Any = None
) -> Float[Tensor, "*seq"]:
    """The mean of token log-ratios clamped to ±0.4 (GMPO, arXiv 2507.20673). Weakness: the range knows nothing of the data.

    GMPO itself clamps only in the direction in which the advantage would push; without an advantage both sides are.
    """
    return gspo_mean(as_working(log_ratios).clamp(-GMPO_RANGE, GMPO_RANGE), mask)


def _mean(rewards: Tensor, keep: Tensor) -> Tensor:
    count = keep.sum(-1, keepdim=True).clamp(min=1)
    return (torch.where(keep, rewards, 0.0) / count).sum(-1, keepdim=True)


def _median(values: Tensor, keep: Tensor) -> Tensor:
    return masked_median(values, keep).unsqueeze(-1)


def _shortest_half_median(rewards: Tensor, keep: Tensor) -> Tensor:
    """The median of the ⌈n/2⌉ consecutive order statistics that span the shortest interval (the first, if several do)."""
    count = keep.sum(-1, keepdim=True)
    half = (count + 1) // 2
    ordered = torch.where(keep, rewards, torch.inf).sort(-1).values
    place = torch.arange(rewards.shape[-1], device=rewards.device).expand(rewards.shape)
    end = (place + half - 1).clamp(min=0, max=rewards.shape[-1] - 1)
    span = torch.where(place + half <= count, ordered.gather(-1, end) - ordered, torch.inf)
    first = span.argmin(-1, keepdim=True)
    inside = (place >= first) & (place < first + half)
    return _median(torch.where(inside, ordered, 0.0), inside)


def _guarded(formula: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """Ours around theirs: float64, no gradient, non-finite rewards left out with advantage 0, tied and single groups 0."""

    @torch.no_grad()
    def advantage(rewards: Tensor, channel: Any = None, *, blocks: Any = None, generator: Any = None) -> Tensor:
        values = as_rewards(rewards)
        keep = values.isfinite()
        x = torch.where(keep, values, 0.0).double()
        low = torch.where(keep, x, torch.inf).amin(-1, keepdim=True)
        high = torch.where(keep, x, -torch.inf).amax(-1, keepdim=True)
        return torch.where(keep & (low < high), formula(x, keep), 0.0).to(values.dtype)

    advantage.__name__ = formula.__name__
    advantage.__doc__ = formula.__doc__
    return advantage


ADVANTAGES: dict[str, Callable[..., Tensor]] = {
    f.__name__: _guarded(f) for f in (dr_grpo, rloo, median_mad, shortest_half, winsor)
}
"""The peers of the reward channel."""

WEIGHTS: dict[str, Callable[[Tensor, Tensor | None, RatioChannel | None], Tensor]] = {"gspo": gspo, "gmpo": gmpo}
"""The peers of the ratio channel."""
