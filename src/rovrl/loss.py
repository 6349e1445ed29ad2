"""The clipped sequence objective and its branches (eq:gspo_objective, eq:clipping_branch_derivative)."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rovrl.config import CLIP_HIGH, CLIP_LOW

WIDE_CLIP = 0.05
"""A sequence weight is an average over tokens and moves by 1e-4 to 1e-3: a band this wide never acts."""
MAX_LOG_WEIGHT = 20.0
"""The exponent is clamped here, so that the weight is finite; beyond it the gradient is zero."""


def sequence_weight(log_weight: Float[Tensor, "*seq"]) -> Float[Tensor, "*seq"]:
    """q = e^m with the exponent clamped at 20, eq:softrovr_ratio. Gradient: q below the clamp, 0 beyond it."""
    return torch.exp(log_weight.clamp(max=MAX_LOG_WEIGHT))


def clipped_objective(
    log_weight: Float[Tensor, "*seq"],
    advantage: Float[Tensor, "*seq"],
    clip_low: float = CLIP_LOW,
    clip_high: float = CLIP_HIGH,
) -> Float[Tensor, "*seq"]:
    """g(q, A) = min{qA, clip(q, 1-ε_lo, 1+ε_hi)·A} of eq:gspo_objective, per sequence, to be maximised.

    Gradient: eq:clipping_branch_derivative through log_weight, none through the advantage.
    """
    _check(log_weight, advantage, clip_low, clip_high)
    q = sequence_weight(log_weight)
    advantage = advantage.detach()
    return torch.minimum(q * advantage, q.clamp(1 - clip_low, 1 + clip_high) * advantage)


def clip_branch(
    log_weight: Float[Tensor, "*seq"],
    advantage: Float[Tensor, "*seq"],
    clip_low: float = CLIP_LOW,
    clip_high: float = CLIP_HIGH,
) -> Int[Tensor, "*seq"]:
    """+1 upper-clipped (A > 0, q > u), -1 lower-clipped (A < 0, q < l), 0 active: eq:clipping_branch_derivative."""
    _check(log_weight, advantage, clip_low, clip_high)
    q = sequence_weight(log_weight.detach())
    upper = (advantage > 0) & (q > 1 + clip_high)
    lower = (advantage < 0) & (q < 1 - clip_low)
    return upper.to(torch.int64) - lower.to(torch.int64)


def _check(log_weight: Tensor, advantage: Tensor, clip_low: float, clip_high: float) -> None:
    try:
        torch.broadcast_shapes(log_weight.shape, advantage.shape)
    except RuntimeError:
        raise ValueError(
            f"advantage must have the shape of log_weight, {tuple(log_weight.shape)}, not {tuple(advantage.shape)}"
        ) from None
    if not 0 <= clip_low < 1:
        raise ValueError(f"clip_low must be in [0, 1), not {clip_low!r}")
    if not clip_high >= 0:
        raise ValueError(f"clip_high must be at least 0, not {clip_high!r}")
