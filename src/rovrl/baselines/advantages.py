"""The peers of the reward channel: formulas on groups with gaps, and the conventions around them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from rovrl.groups import as_rewards
from rovrl.robust.solve import masked_median

MAD_CONSISTENCY = 1.4826
SCALE_EPSILON = 1e-6
TRL_EPSILON, MC_EPSILON = 1e-4, 1e-3
"""What TRL adds to a standard deviation, and what MC-GRPO's code adds to its MAD."""
WINSOR_SHARE = 0.1
ADVANTAGE_CLIP = 1.0
QAE_LEVEL = 0.4

Rewards = Float[Tensor, "*batch group"]


def dr_grpo(rewards: Rewards, keep: Tensor) -> Rewards:
    """R_i - mean, no scale (Dr. GRPO, arXiv 2503.20783). Weakness: one huge reward is one huge advantage."""
    return rewards - _mean(rewards, keep)


def rloo(rewards: Rewards, keep: Tensor) -> Rewards:
    """R_i minus the mean of the others (RLOO, arXiv 2402.14740). Weakness: unbounded, like every raw residual."""
    count = keep.sum(-1, keepdim=True)
    return (rewards - _mean(rewards, keep)) * count / (count - 1).clamp(min=1)


def median_mad(rewards: Rewards, keep: Tensor) -> Rewards:
    """(R_i - median)/(1.4826 MAD + 1e-6), the textbook's robust z-score. Weakness: MAD is 0 as soon as half the rewards tie."""
    residual = rewards - _median(rewards, keep)
    return residual / (MAD_CONSISTENCY * _median(residual.abs(), keep) + SCALE_EPSILON)


def mc_grpo(rewards: Rewards, keep: Tensor) -> Rewards:
    """(R_i - median)/(MAD + 1e-3), lower medians (MC-GRPO, arXiv 2601.22582, its code). Weakness: half the rewards tie.

    MC-GRPO draws one response more, so that one of them is the median, and leaves that one out of the update: here, too,
    it has advantage 0. Give it an odd group for its own setting.
    """
    residual = rewards - _lower_quantile(rewards, keep, 0.5)
    return residual / (_lower_quantile(residual.abs(), keep, 0.5) + MC_EPSILON)


def qae(rewards: Rewards, keep: Tensor) -> Rewards:
    """(R_i - Q_0.4)/(sd + 1e-6), a quantile in place of the mean (QAE, arXiv 2509.22611). Weakness: the raw sd divides."""
    return (rewards - _lower_quantile(rewards, keep, QAE_LEVEL)) / (_sample_sd(rewards, keep) + SCALE_EPSILON)


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
    return (clamped - _mean(clamped, keep)) / (_sample_sd(clamped, keep) + SCALE_EPSILON)


def clipped(rewards: Rewards, keep: Tensor) -> Rewards:
    """clip(GRPO, -1, 1) (NeMo-RL's advantage_clip_low/high, its pull request 2686). Weakness: the others are already shrunk."""
    z = (rewards - _mean(rewards, keep)) / (_sample_sd(rewards, keep) + SCALE_EPSILON)
    return z.clamp(-ADVANTAGE_CLIP, ADVANTAGE_CLIP)


def normal_scores(rewards: Rewards, keep: Tensor) -> Rewards:
    """Φ⁻¹((midrank_i - ½)/n), the normal quantile of the rank (van der Waerden, Blom). Weakness: noise is ranked like merit."""
    low = ((rewards.unsqueeze(-1) > rewards.unsqueeze(-2)) & keep.unsqueeze(-2)).sum(-1)
    ties = ((rewards.unsqueeze(-1) == rewards.unsqueeze(-2)) & keep.unsqueeze(-2)).sum(-1)
    share = (low + ties.double() / 2) / keep.sum(-1, keepdim=True).clamp(min=1)
    return torch.special.ndtri(torch.where(keep, share, 0.5))


def batch_scale(rewards: Rewards, keep: Tensor) -> Rewards:
    """(R_i - mean)/(sd of the whole batch + 1e-4) (Lite-PPO, arXiv 2508.08221; TRL's scale_rewards="batch").

    The batch is everything that is passed at once. Weakness: one huge reward shrinks every prompt of the batch.
    """
    count = keep.sum().clamp(min=1)
    mean = torch.where(keep, rewards, 0.0).sum() / count
    square = torch.where(keep, (rewards - mean) ** 2, 0.0).sum() / (count - 1).clamp(min=1)
    return (rewards - _mean(rewards, keep)) / (square.sqrt() + TRL_EPSILON)


def _mean(rewards: Tensor, keep: Tensor) -> Tensor:
    count = keep.sum(-1, keepdim=True).clamp(min=1)
    return (torch.where(keep, rewards, 0.0) / count).sum(-1, keepdim=True)


def _sample_sd(rewards: Tensor, keep: Tensor) -> Tensor:
    residual = rewards - _mean(rewards, keep)
    square = torch.where(keep, residual**2, 0.0).sum(-1, keepdim=True)
    return (square / (keep.sum(-1, keepdim=True) - 1).clamp(min=1)).sqrt()


def _median(values: Tensor, keep: Tensor) -> Tensor:
    return masked_median(values, keep).unsqueeze(-1)


def _lower_quantile(values: Tensor, keep: Tensor, level: float) -> Tensor:
    """The smallest value at or below which at least `level` of the group lies; at 0.5 the lower of two middle ones."""
    place = (level * keep.sum(-1, keepdim=True)).ceil().long() - 1
    return torch.where(keep, values, torch.inf).sort(-1).values.gather(-1, place.clamp(min=0))


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
    """A peer by our rules: float64, no gradient, non-finite rewards left out with advantage 0, tied and single groups 0."""

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


PER_GROUP = (dr_grpo, rloo, median_mad, mc_grpo, qae, shortest_half, winsor, clipped, normal_scores)
ADVANTAGES: dict[str, Callable[..., Tensor]] = {f.__name__: _guarded(f) for f in (*PER_GROUP, batch_scale)}
"""The peers of the reward channel; all but `batch_scale` look at one group at a time."""
